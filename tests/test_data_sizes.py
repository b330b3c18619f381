# SPDX-License-Identifier: Apache-2.0
"""Shapes, diagonals and counts of loops that data say."""

import numpy as np
import pytest

import pto

X = np.arange(24, dtype=np.float32).reshape(3, 8)
TWO = np.array([2])


def sums(shaped):
    return pto.jit(lambda x, n: pto.sum(shaped(x, n[0]), 0))(X, TWO)


def test_a_shape_takes_numbers_from_data():
    np.testing.assert_array_equal(sums(lambda x, n: x[:n].reshape(n * 2, 4)),
                                  X[:2].reshape(4, 4).sum(0))  # fmt: skip
    np.testing.assert_array_equal(sums(lambda x, n: pto.broadcast_to(x[:1], n + 3, 8)), X[0] * 5)
    np.testing.assert_array_equal(sums(lambda x, n: pto.expand_clone(x[1:2], [n, -1])), X[1] * 2)
    half = sums(lambda x, n: pto.expand_clone(x[1:2], [pto.symbolic_scalar(n) / 2, 8]))
    np.testing.assert_array_equal(half, X[1])


@pytest.mark.parametrize("shaped, told", [
    (lambda x, n: pto.broadcast_to(x[:1], n - 5, 8), "a size is -3"),
    (lambda x, n: x.reshape(n, 8), "sizes 24 and 16 differ in reshape"),
    (lambda x, n: pto.expand_clone(x[:2], [n * 2, 8]), "sizes 2 and 4 differ in broadcast"),
    (lambda x, n: x.reshape(n * 1.5, 8), "reshape: a size is"),
])  # fmt: skip
def test_a_number_that_does_not_fit_is_an_error_at_its_line(shaped, told):
    with pytest.raises(pto.Error, match=f"test_data_sizes.py:[0-9]*: .*{told}"):
        sums(shaped)


def test_a_diagonal_may_come_from_data_or_a_size():
    for k in (-1, 0, 2):
        found = pto.jit(lambda x, n: (pto.tril(x, n[0]), pto.triu(x, n[0] + 1)))(X, np.array([k]))
        np.testing.assert_array_equal(found[0], np.tril(X, k))
        np.testing.assert_array_equal(found[1], np.triu(X, k + 1))
    np.testing.assert_array_equal(pto.jit(lambda x: pto.triu(x, x.shape[0]))(X), np.triu(X, 3))
    with pytest.raises(pto.Error, match="triu: the float 1.5 is no whole number"):
        pto.jit(lambda x: pto.triu(x, 1.5))(X)


@pto.jit
def groups(x, out):
    """The largest of each three of a row, four rows at a time; the last four end early."""
    for i in pto.loop((x.shape[0] + 3) // 4):
        n, m = pto.min(x.shape[0] - i * 4, 4), pto.min(x.shape[0] - i * 4, 4)
        rows = pto.view(x, [4, 6], [i * 4, 0], valid_shape=[n, 6]) * 2
        three = pto.reshape(rows, [4, 2, 3], valid_shape=[m, 2, 3])
        largest = pto.expand_clone(pto.amax(three, -1, keepdim=True), [n, 2, 3])
        out[i * 4 : i * 4 + n] = pto.reshape(largest, [4, 6], valid_shape=[m, 6])


@pytest.mark.parametrize("rows", [0, 1, 4, 7, 9])
def test_a_part_that_ends_early_is_reshaped_to_a_valid_shape(rows):
    x = np.random.default_rng(rows).random((rows, 6), np.float32)
    groups(x, out := np.zeros_like(x))
    wanted = np.repeat(x.reshape(rows, 2, 3).max(-1) * 2, 3, axis=1)
    np.testing.assert_array_equal(out, wanted)


def test_a_whole_tensor_is_cut_to_the_valid_shape():
    found = pto.jit(lambda x: pto.reshape(x, [4, 6], valid_shape=[2, 5]))(X)
    np.testing.assert_array_equal(found, X.reshape(4, 6)[:2, :5])


@pto.jit
def signed(x, lengths, out):
    for i in pto.loop(x.shape[0]):
        for _ in pto.loop(lengths[i] < 2):
            out[i] = x[i]
        for _ in pto.loop(lengths[i] >= 2):
            out[i] = -x[i]
    for _ in pto.loop(True):
        out[0] = out[0] + pto.symbolic_scalar(True) * 1


def test_a_condition_counts_the_iterations_of_a_loop():
    signed(X, np.array([1, 5, 2]), out := np.zeros_like(X))
    np.testing.assert_array_equal(out, X * np.array([[1], [-1], [-1]]) + np.array([[1], [0], [0]]))
