# SPDX-License-Identifier: Apache-2.0
"""Numbers of a program: the type that loops and branches give them, divmod and round."""

import numpy as np
import pytest

import pto
from pto import _core

F32 = np.float32


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_numbers_that_loops_and_branches_choose_are_as_wide_as_the_tensors(kind):
    @pto.jit
    def scaled(x):
        carried, chosen = 0.1, -0.0
        for _ in pto.loop(x.shape[0]):
            carried = carried * 1.0
        if x[0] > 0:
            chosen = 0.0
        return x * carried, x * (0.1 if x[0] > 0 else 0.2), x * chosen

    for x in (np.ones(2, kind), -np.ones(2, kind)):
        wanted = x * np.array(0.1, kind), x * np.array(0.1 if x[0] > 0 else 0.2, kind), np.zeros(2)
        for got, want in zip(scaled(x), wanted, strict=True):
            np.testing.assert_array_equal(got, want)
            assert got.dtype == x.dtype and not np.signbit(got[want == 0]).any()


@pytest.mark.parametrize("n", [7, -7, 3, 4])
def test_divmod_and_round_take_the_numbers_of_a_program(n):
    @pto.jit
    def divided(x, numbers, out, places):
        for i in pto.loop(6):
            row, column = divmod(i, 4)
            places[row, column] = x[round(row), column]
        m = numbers[0]
        for column, one in enumerate([*divmod(m, 3), *divmod(17, m), *divmod(m, m), round(m, 2)]):
            out[column] = one

    x = np.arange(8, dtype=F32).reshape(2, 4)
    out, places = np.zeros(7, np.int64), np.zeros((2, 4), F32)
    divided(x, np.array([n]), out, places)
    assert out.tolist() == [*divmod(n, 3), *divmod(17, n), *divmod(n, n), n]
    np.testing.assert_array_equal(places, x * (x < 6))


def test_divmod_of_tensors_is_that_of_numpy():
    x, y = np.arange(-4, 8, dtype=F32), np.tile(np.array([3, -2], F32), 6)
    for got, want in zip(pto.jit(lambda x, y: divmod(x, y))(x, y), divmod(x, y), strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(pto.jit(lambda y: divmod(7, y))(y), divmod(7, y), strict=True):
        np.testing.assert_array_equal(got, want)


def in_loops(x, out, k):
    half = k / 2
    for i in pto.loop(x.shape[0]):
        for j in pto.loop(x.shape[1]):
            if i < j:
                out[i, j] = x[i, j] - half
            else:
                out[i, j] = 2.0 * k + x[i, j]


def carried(x, out, k):
    total = k
    for i in pto.loop(x.shape[0]):
        n = pto.min(i + 1, x.shape[1])
        total = total * k + 1.0
        out[i, :n] = x[i, :n] * total


def in_a_while(x, out, k):
    n = x.shape[0]
    out[:] = x
    while n > 0 and out[0, 0] < k * 100:
        out[:] = out + k
        n = n - 1


def in_a_branch(x, out, k):
    out[:] = pto.cond(x.shape[0] > 2, lambda: x * k, lambda: k - x)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
@pytest.mark.parametrize("program", [in_loops, carried, in_a_while, in_a_branch])
def test_a_float_that_loops_and_branches_read_is_a_number_of_the_call(program, kind):
    x, numbers = np.arange(12, dtype=kind).reshape(4, 3), (0.25, -3.0, 1.5)
    found, wanted = (np.zeros((3, 4, 3), kind) for _ in range(2))
    numbered, before = pto.jit(program), _core.kernel_count()
    for out, k in zip(found, numbers, strict=True):
        numbered(x, out, k)
    assert _core.kernel_count() == before + 1
    for out, k in zip(wanted, numbers, strict=True):
        pto.jit(constants="k")(program)(x, out, k)
    np.testing.assert_allclose(found, wanted, 2e-3 if kind == "float16" else 1e-6)
