# SPDX-License-Identifier: Apache-2.0
"""Loops over sizes of 0: their bodies do nothing, as those of Python over range(0)."""

import numpy as np
import pytest

import pto

FIXED = pto.Tensor[pto.STATIC, pto.STATIC]
NONE, THREE = np.zeros((0, 2), np.float32), np.ones((3, 2), np.float32)


@pytest.fixture(params=[False, True], ids=["compiled", "steps"], autouse=True)
def interpret(request):
    pto.config.interpret = request.param
    yield request.param
    pto.config.interpret = False


@pto.jit
def doubled(x: FIXED, out):
    for i in pto.loop(x.shape[0]):
        out[i] = x[i] * 2


@pto.jit
def unrolled(x: FIXED, out):
    for i, k in pto.loop_unroll(x.shape[0], unroll_list=[4]):
        out[i : i + k] = x[i : i + k] * 2


@pto.jit
def nested(x: FIXED, out):
    for i in pto.loop(x.shape[0]):
        for j in pto.loop(x.shape[1]):
            out[i, j] = x[i, j] * 2


@pto.jit
def by_parts(x: FIXED, out):
    for i in pto.loop(x.shape[0]):
        pto.assemble(pto.view(x, [1, x.shape[1]], [i, 0]) * 2, [i, 0], out)


@pto.jit
def by_bounds(x: FIXED, out):
    n = out.shape[1]
    for i in pto.loop(x.shape[0]):
        out[i, :n] = x[i, :n] * 2


@pto.jit
def in_python(x: FIXED, out):
    i = 0
    while i < x.shape[0]:
        out[i] = x[i] * 2
        i = i + 1


@pytest.mark.parametrize("function", [doubled, unrolled, nested, by_parts, by_bounds, in_python])
def test_a_loop_over_a_fixed_size_of_0_writes_nothing(function):
    for x in (NONE, THREE, np.zeros((3, 0), np.float32)):
        out = np.full((4, x.shape[1]), 7, np.float32)
        assert function(x, out) is None
        np.testing.assert_array_equal(out[: len(x)], x * 2)
        assert (out[len(x) :] == 7).all()


@pto.jit
def summed(x: FIXED):
    total, count, rows = pto.zeros([2]), 1, pto.tensor([x.shape[0], 2])
    for i in pto.loop(x.shape[0]):
        total, count = total + x[i], count + 1
        rows[i] = x[i] * 2
    return total, total + count, rows


def test_variables_keep_what_they_had_and_a_tensor_without_elements_can_be_read():
    for x in (NONE, THREE):
        total, more, rows = summed(x)
        np.testing.assert_array_equal(total, x.sum(0))
        np.testing.assert_array_equal(more, x.sum(0) + 1 + len(x))
        np.testing.assert_array_equal(rows, x * 2)


def test_a_read_in_front_of_such_a_loop_stays_an_error():
    @pto.jit
    def early(x: FIXED):
        rows = pto.tensor([2])
        y = rows * 2
        for i in pto.loop(x.shape[0]):
            rows[:] = x[i]
        return y

    with pytest.raises(pto.Error, match="a tensor is read that nothing has written"):
        early(NONE)


@pto.jit
def counted(x: FIXED, n, out):
    """Sizes that are known, and a count that the call says."""
    for i in pto.loop(n[0]):
        out[0] = out[0] + x[i] + x[0] + x[i : i + 1].reshape(2)
    if n[0] > 0:
        pto.assemble(pto.view(x, [1, 2], [0, 0]), [1, 0], out)


def test_a_part_of_nothing_is_an_error_only_where_the_call_comes_to_it():
    out = np.full((2, 2), 7, np.float32)
    counted(NONE, np.array([0]), out)
    assert (out == 7).all()
    counted(THREE, np.array([2]), out)
    assert out.tolist() == [[13, 13], [1, 1]]
    with pytest.raises(pto.Error, match=r"test_empty_loops.py:\d*: (view: axis 0|the index 0)"):
        counted(NONE, np.array([2]), out)


@pto.jit
def moved(x, n, out: FIXED):
    for i in pto.loop(n[0]):
        out[i] = x[i]


def test_a_write_into_nothing_is_an_error_only_where_the_call_comes_to_it():
    moved(THREE, np.array([0]), NONE.copy())
    moved(THREE, np.array([3]), out := np.zeros((3, 2), np.float32))
    assert (out == 1).all()
    with pytest.raises(pto.Error, match=r"test_empty_loops.py:\d*: (update: axis 0|the index 0)"):
        moved(THREE, np.array([1]), NONE.copy())


def test_tools_take_a_call_that_does_nothing(interpret, tmp_path):
    if interpret:
        pytest.skip("tools compile")
    arguments = NONE, np.full((2, 2), 7, np.float32)
    assert "bit-equal" in str(pto.verify(doubled, *arguments))
    assert ": 0 ns" not in str(doubled.report(*arguments)).splitlines()[0]
    doubled.package(tmp_path / "doubled.pto", *arguments)
    assert pto.load(tmp_path / "doubled.pto")(*arguments) is None
    assert (arguments[1] == 7).all()
