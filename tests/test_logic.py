# SPDX-License-Identifier: Apache-2.0
"""pto.logical_not, logical_and and logical_or take a number of any type for what it says of 0."""

import numpy as np
import pytest

import pto

KINDS = ("bool", "i8", "u8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
VALUES = np.array([0, 1, 3, 0, 2, 0, 7])


@pytest.mark.parametrize("kind", KINDS)
def test_each_type_is_true_where_it_is_not_0(kind):
    @pto.jit
    def three(x, y):
        a, b = pto.cast(x, kind), pto.cast(y, kind)
        return pto.logical_not(a), a.logical_and(b), pto.logical_or(a, b)

    other = VALUES[::-1].copy()
    found = three(VALUES, other)
    wanted = np.logical_not(VALUES), np.logical_and(VALUES, other), np.logical_or(VALUES, other)
    assert all(one.dtype == bool for one in found)
    np.testing.assert_array_equal(found, wanted)


def test_nan_and_infinity_are_true_and_a_negative_zero_is_not():
    x = np.array([np.nan, np.inf, -0.0, 1e-40], np.float32)
    assert pto.logical_not(x).tolist() == [False, False, True, False]
    assert pto.interpret(pto.jit(lambda x: pto.logical_not(x)).trace(x), x).tolist() == [0, 0, 1, 0]


def test_operands_may_differ_in_type_and_shape_and_be_numbers():
    x, n = np.array([[0.5], [0]], np.float32), np.array([0, -3, 4], np.int8)

    @pto.jit
    def mixed(x, n, k):
        return (pto.logical_and(x, n), pto.logical_or(n, k[0]), pto.logical_and(0.0, x),
                pto.logical_or(x, x.shape[0] - 2), n.logical_or(True))  # fmt: skip

    found = mixed(x, n, np.array([0]))
    wanted = np.logical_and(x, n), n != 0, np.zeros((2, 1), bool), x != 0, np.ones(3, bool)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_bits_stay_with_the_operators():
    n = np.array([0, 5], np.int32)
    assert pto.jit(lambda n: ~n)(n).tolist() == [-1, -6]
    assert pto.jit(lambda n: n & 4)(n).tolist() == [0, 4]


def test_what_is_no_number_is_refused_at_its_line():
    x = np.ones(2, np.float32)
    with pytest.raises(pto.Error, match="logical_and: the operand is the str 'a'\n.*\n *fix:"):
        pto.jit(lambda x: pto.logical_and(x, "a"))(x)
    with pytest.raises(pto.Error, match="from outside the function"):
        pto.jit(lambda x: pto.logical_or(x, np.ones(2)))(x)
