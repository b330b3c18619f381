# SPDX-License-Identifier: Apache-2.0
"""Numbers of a program: the type that loops and branches give them, divmod and round."""

import numpy as np
import pytest

import pto

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
