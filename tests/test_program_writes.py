# SPDX-License-Identifier: Apache-2.0
"""What programs write into their parameters, and where they compute it."""

import numpy as np
import pytest
import torch

import pto

F32 = np.float32


def test_a_write_reads_all_arguments_first_also_where_they_overlap():
    @pto.jit
    def shift(x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = x[i] * 2

    memory = np.arange(6, dtype=F32)
    shift(memory[:5], memory[1:])
    np.testing.assert_array_equal(memory, [0, 0, 2, 4, 6, 8])
    strided = np.zeros((5, 2), F32)
    shift(np.arange(5, dtype=F32)[::-1], strided[:, 1])
    np.testing.assert_array_equal(strided[:, 1], [8, 6, 4, 2, 0])
    assert not strided[:, 0].any()


@pto.jit
def scale_and_add(x, y):
    x[:] = x * 2 + y


@pto.jit
def exchange(x, y):
    x[:], y[:] = y + 1, x * 2


@pytest.mark.parametrize("of", [np.copy, lambda x: torch.from_numpy(x.copy())])
def test_a_parameter_that_is_read_at_its_own_place_is_computed_there(of, monkeypatch):
    values = np.arange(5000, dtype="f4").reshape(50, 100)
    x, y = of(values), of(values[::-1].copy())
    with monkeypatch.context() as patch:
        patch.setattr("pto.language.program.finish", None)  # which would copy
        scale_and_add(x, y)
        assert np.array_equal(x, values * 2 + values[::-1])
        x, y = of(values), of(values)
        exchange(x, y)
        assert np.array_equal(x, values + 1) and np.array_equal(y, values * 2)
        x = of(values)
        scale_and_add(x, x)
        assert np.array_equal(x, values * 3)
    with pytest.raises(ValueError, match="x and y are both written and share memory"):
        exchange(x, x)
    memory = of(np.append(values.ravel(), [1, 2, 3]).astype("f4"))
    scale_and_add(memory[3:], memory[:-3])  # each reads what the other one writes
    whole = np.append(values.ravel(), [1, 2, 3])
    assert np.array_equal(memory[3:], whole[3:] * 2 + whole[:-3])


_STRIDES = {  # of f32[4, 5], and whether an element has a place of its own
    "overlapping rows": ((8, 4), False), "of one place": ((0, 4), False),
    "against each other": ((-8, 4), False), "in gaps": ((80, 8), True),
    "transposed": ((4, 16), True), "backwards": ((-40, -8), True),
}  # fmt: skip


@pytest.mark.parametrize("of", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("name", _STRIDES)
def test_an_output_has_a_place_for_each_element(name, of):
    steps, is_apart = _STRIDES[name]
    if of is torch.from_numpy and min(steps) < 0:
        pytest.skip("PyTorch has no negative strides")
    memory = np.zeros(200, F32)
    out = np.lib.stride_tricks.as_strided(memory[100:], (4, 5), steps)
    x = np.arange(20, dtype=F32).reshape(4, 5)
    if is_apart:
        scale_and_add(of(out), of(x))
        assert np.array_equal(out, x)
        return
    with pytest.raises(ValueError, match="elements of x share memory"):
        scale_and_add(of(out), of(x))
    assert not memory.any()


@pytest.mark.parametrize("name", ["twice", "repeated", "read-only"])
def test_a_refused_call_writes_none_of_its_arrays(name):
    @pto.jit
    def three(x, y, z):
        x[:] = y + 1
        y[:] = z + 2
        z[:] = z * 2

    memory = np.arange(20, dtype=F32)
    y, z = memory[:4], memory[8:12]
    if name == "twice":
        z = memory[2:6]
    elif name == "repeated":
        z = np.lib.stride_tricks.as_strided(z, (4,), (0,))
    else:
        z.flags.writeable = False
    x, before = np.zeros(4, F32), memory.copy()
    with pytest.raises(ValueError, match="share memory|is read-only"):
        three(x, y, z)
    assert not x.any() and np.array_equal(memory, before)


def test_a_short_write_fills_the_beginning_of_its_part():
    """Parts and values of random sizes, known or not, against NumPy; nothing stretches."""

    @pto.jit(short_writes=True)
    def assigned(x, y, out, at):
        i = at[0]
        out[0, i:] = x[0]
        out[1, 1:, i:] = pto.view(y, y.shape, [0, 0], [at[1], y.shape[1]])
        out[2] = x[1]
        out[3:, ...] = x[2:3] + 1
        local = pto.zeros([4, 4])
        local[1:, :] = x[0][:2, :1]
        local[:] = x[0][:1, :2] * 2
        local[3] = 7.0
        return local

    rng = np.random.default_rng(0)
    for _ in range(6):
        n, m, i = rng.integers(2, 5), rng.integers(1, 3), rng.integers(0, 3)
        k = rng.integers(0, n + 1)
        x, y = rng.random((3, n, 3), F32), rng.random((n, m), F32)
        out = rng.random((5, n + 3, 5), F32)
        want = out.copy()
        want[0, i : i + n, :3] = x[0]
        want[1, 1 : 1 + k, i : i + m] = y[:k]
        want[2, :n, :3] = x[1]
        want[3:4, :n, :3] = x[2:3] + 1
        local = np.zeros((4, 4), F32)
        local[1:3, :1] = x[0][:2, :1]
        local[:1, :2] = x[0][:1, :2] * 2
        local[3] = 7
        np.testing.assert_array_equal(assigned(x, y, out, np.array([i, k])), local)
        np.testing.assert_array_equal(out, want)


def test_a_short_write_is_asked_for_and_fits():
    def head(x, out):
        out[:] = x * 2

    x, out = np.ones((2, 3), F32), np.zeros((4, 3), F32)
    with pytest.raises(pto.Error, match="differ"):
        pto.jit(head)(x, out)
    short = pto.jit(short_writes=True)(head)
    short(x, out)
    assert out.tolist() == [[2.0] * 3] * 2 + [[0.0] * 3] * 2
    for dtype in (torch.float32, torch.float64):  # also as an operator of PyTorch
        y = torch.ones(2, 3, dtype=dtype, requires_grad=True)
        into = torch.zeros(4, 3, dtype=dtype)
        short(y, into)
        assert into.tolist() == out.tolist()
    with pytest.raises(pto.Error):
        short(np.ones((5, 3), F32), out)
    with pytest.raises(TypeError, match="short_writes is the int 1"):
        pto.jit(short_writes=1)(head)
