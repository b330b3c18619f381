# SPDX-License-Identifier: Apache-2.0
"""Matrix products in a traced function: [..., M, K] x [..., K, N], batches broadcast.

    scores = pto.matmul(q, k, b_trans=True, out_dtype=pto.f32)
    y = x @ w
    z = pto.scaled_mm(q, w, q_scale, w_scale)    # of 8-bit numbers

A float product is summed in at least f32 and rounded once. Integers wrap in the result's type.
Thread safety: as a trace.
"""

from typing import Any

from pto.errors import InvalidType
from pto.language.dtypes import dtype, f32, i32
from pto.language.location import describe, fail
from pto.language.operation import must_be_traced
from pto.language.shape import same_size, transpose
from pto.language.tensor import Tensor
from pto.language.types import cast


def matmul(
    a: Tensor, b: Tensor, out_dtype: object = None, *, a_trans: bool = False, b_trans: bool = False
) -> Tensor:
    """The product of a and b, with the last two axes of either exchanged on request.

    `out_dtype` is the type of the operands, or a wider one of the same kind: i32 for i8, f32 for
    bf16.
    """
    for x in (a, b):
        must_be_traced("matmul", x, "make it a parameter; on arrays call pto.ops.matmul")
        _check_rank(x)
    for value in (a_trans, b_trans):
        if not isinstance(value, bool):
            fail(f"matmul: a_trans or b_trans is {describe(value)}", "they say yes or no",
                 "pass True or False", InvalidType)  # fmt: skip
    if a.dtype is not b.dtype:
        fail(
            f"matmul: the operands have different element types, {a.dtype} and {b.dtype}",
            "pto casts nothing silently",
            f"cast one of them: pto.cast(b, pto.{a.dtype})",
            InvalidType,
        )
    a = transpose(a, -1, -2) if a_trans else a
    b = transpose(b, -1, -2) if b_trans else b
    kind = a.dtype if out_dtype is None else dtype(out_dtype)
    return Tensor(a.trace, a.trace.here().matmul(a.value, b.value, kind.name))


def scaled_mm(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: object = f32
) -> Tensor:
    """(a * scale_a) @ (b * scale_b) of small types, where blocks of k have a scale.

    a is [m, k] with scales [m, blocks], b is [k, n] with scales [blocks, n]; one block is a scale
    for each row of a, or column of b. Each block is summed in i32 or f32, and scaled in f32.
    """
    for x in (a, b, scale_a, scale_b):
        must_be_traced("scaled_mm", x, "make it a parameter of the function")
        if x.ndim != 2:
            fail(f"scaled_mm: an operand has the shape {list(x.shape)}",
                 "a is [m, k], b is [k, n], and so are their scales", "reshape it")  # fmt: skip
    blocks = scale_a.shape[1]
    if not same_size(blocks, scale_b.shape[0]):
        a.trace.here().guard_equal(blocks, scale_b.shape[0], "scaled_mm")
    (m, k), n = a.shape, b.shape[1]
    left = a.reshape(m, blocks, k // blocks).transpose(0, 1)
    right = b.reshape(blocks, k // blocks, n)
    wide = i32 if a.dtype.is_integer else f32 if a.dtype.bytes < 4 else a.dtype
    products = cast(matmul(left, right, wide), f32)
    scales = cast(scale_a, f32).transpose(0, 1)[:, :, None] * cast(scale_b, f32)[:, None, :]
    return cast((products * scales).sum(0), out_dtype)


def _check_rank(x: Tensor) -> None:
    if x.ndim < 2:
        fail(
            f"matmul: an operand has the shape {list(x.shape)}",
            "[..., M, K] x [..., K, N]: an operand has at least two axes",
            "put an axis in: x[None, :] is a row, x[:, None] a column",
        )


def _product(a: Tensor, b: Any) -> Tensor:
    return matmul(a, b)


Tensor.__matmul__ = _product
Tensor.__rmatmul__ = lambda b, a: matmul(a, b)
