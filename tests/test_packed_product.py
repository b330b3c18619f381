# SPDX-License-Identifier: Apache-2.0
"""A matrix that is packed once multiplies as the matrix does, to the bit."""

import numpy as np
import pytest

from pto import ops
from pto.errors import Error
from pto.ops.linear import MatMulPacked, PackRight

# Shape of a, columns of b: one strip and several, no rows, no columns, no terms, a vector.
CASES = [
    ((5, 13), 7), ((1, 16, 384), 384), ((2, 3, 521), 411), ((2, 2, 7), 800), ((300, 9), 385),
    ((9,), 2), ((0, 4), 3), ((4, 6), 0), ((3, 0), 5), ((2, 1, 3, 8), 1),
]  # fmt: skip


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


@pytest.mark.parametrize("shape, cols", CASES, ids=str)
def test_the_bits_are_those_of_matmul(shape, cols):
    a, b = random(*shape), random(shape[-1], cols)
    expected = ops.matmul(a, b)
    np.testing.assert_allclose(expected, a @ b, rtol=1e-4, atol=1e-4)
    for packed in (PackRight(b), PackRight(np.asfortranarray(b)), PackRight(b.T, transpose_b=True)):
        np.testing.assert_array_equal(MatMulPacked(a, packed, cols=cols), expected)


def test_rows_that_lie_apart_evenly_or_not_are_those_of_matmul():
    b, packed = random(12, 20), PackRight(random(12, 20))
    whole = random(4, 6, 24)
    for a in (
        whole[::2, :, :12],
        whole[:, ::2, 12:],
        whole[:, ::-1, ::2],
        whole[:1, 1:2, ::-2],
        np.swapaxes(random(6, 4, 12), 0, 1),
        np.broadcast_to(whole[:1, :, :12], (3, 6, 12)),
    ):
        expected = np.stack([ops.matmul(np.ascontiguousarray(one), b) for one in a])
        np.testing.assert_array_equal(ops.matmul(a, b), expected)
        np.testing.assert_array_equal(MatMulPacked(a, packed, cols=20), expected)


@pytest.mark.parametrize("columns, cols", [(5, 411), (7, 410), (7, 800), (8, 411)])
def test_a_matrix_of_other_sizes_is_refused(columns, cols):
    packed = PackRight(random(7, 411))
    with pytest.raises(Error, match="the packed matrix has another number of rows or columns"):
        MatMulPacked(random(3, columns), packed, cols=cols)


def test_what_is_no_matrix_is_refused():
    with pytest.raises(Error, match="_pack_right: b has 3 axes"):
        PackRight(random(2, 3, 4))
    with pytest.raises(Error, match="its input has 0 axes"):
        MatMulPacked(np.float32(1).reshape(()), PackRight(random(3, 4)), cols=4)
