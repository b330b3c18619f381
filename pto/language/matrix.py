# SPDX-License-Identifier: Apache-2.0
"""Matrix products in a traced function: [..., M, K] x [..., K, N], batches broadcast.

    scores = pto.matmul(q, k, b_trans=True, out_dtype=pto.f32)
    y = x @ w
    z = pto.scaled_mm(q, w, q_scale, w_scale)    # of 8-bit numbers
    h = pto.matmul(q, w, pto.f16, extend_params={"bias_tensor": b, "relu": True, "scale": 0.1})

A float product is summed in at least f32 and rounded once. Integers wrap in the result's type.
Thread safety: as a trace.
"""

from typing import Any

from pto.config import PRECISIONS
from pto.errors import InvalidType, InvalidValue
from pto.language.dtypes import DType, bf16, dtype, f16, f32, i8, i32
from pto.language.elementwise import maximum
from pto.language.location import describe, fail
from pto.language.operands import Kind
from pto.language.operation import must_be_traced
from pto.language.shape import same_size, transpose
from pto.language.tensor import Tensor
from pto.language.types import cast, number

_EXTENDED = ("bias_tensor", "relu", "scale", "scale_tensor")


def matmul(
    a: Tensor, b: Tensor, out_dtype: Kind | None = None, *, a_trans: bool = False,
    b_trans: bool = False, extend_params: dict[str, Any] | None = None,
    precision: str | None = None,
) -> Tensor:  # fmt: skip
    """The product of a and b, with the last two axes of either exchanged on request.

    `out_dtype` is the type of the operands, or a wider one of the same kind: i32 for i8, f32 for
    bf16. `extend_params` says what follows before the result is rounded once to any `out_dtype`,
    but floats to no integer: relu(a @ b + bias_tensor) * scale, each on request; `scale` is a
    number, `scale_tensor` one for each column. Integers are summed and biased in i32, and scaled in
    f32. b may be i8 where a is f32, f16 or bf16: then its elements count as numbers of that type,
    and nobody copies them. `precision` is the error that products of f32 may have where that is
    faster, "highest", "high" or "medium" as in pto.config.matmul_precision, which counts where
    there is none.

    Formula: y[..., i, j] = sum(a[..., i, :] * b[..., :, j])
    Shapes: `[..., M, K]` and `[..., K, N]` give `[..., M, N]`; batches broadcast
    Example: pto.matmul(x, w)
    """
    for x in (a, b):
        must_be_traced("matmul", x, "make it a parameter; on arrays call pto.ops.matmul")
    _check_ranks(a, b)
    for value in (a_trans, b_trans):
        if not isinstance(value, bool):
            fail(f"matmul: a_trans or b_trans is {describe(value)}", "they say yes or no",
                 "pass True or False", InvalidType)  # fmt: skip
    widens = b.dtype is i8 and a.dtype in (f32, f16, bf16)
    if a.dtype is not b.dtype and not widens:
        fail(
            f"matmul: the operands have different element types, {a.dtype} and {b.dtype}",
            "pto casts nothing silently",
            f"cast one of them: pto.cast(b, pto.{a.dtype})",
            InvalidType,
        )
    a = transpose(a, -1, -2) if a_trans else a
    b = transpose(b, -1, -2) if b_trans else b
    _check_precision(precision, a)
    kind = a.dtype if out_dtype is None else dtype(out_dtype)
    if extend_params is not None:
        return _extended(a, b, kind, extend_params, precision)
    return Tensor(a.trace, a.trace.here().matmul(a.value, b.value, kind.name, precision or ""))


def _check_precision(precision: str | None, a: Tensor) -> None:
    if precision is None:
        return
    if not isinstance(precision, str) or precision not in PRECISIONS:
        fail(f"matmul: the precision is {describe(precision)}",
             f"it is one of {', '.join(map(repr, PRECISIONS))}, or None: as "
             "pto.config.matmul_precision says", "pass one of these")  # fmt: skip
    if a.dtype is not f32:
        fail(f"matmul: the precision is {precision!r} but the operands are {a.dtype}",
             "only products of f32 have a precision", "leave it out", InvalidType)  # fmt: skip


def _extended(
    a: Tensor, b: Tensor, kind: DType, given: dict[str, Any], precision: str | None
) -> Tensor:
    """relu(a @ b + bias_tensor) * scale as `kind`, computed in i32 or in f32."""
    _check_extended(given)
    wide = i32 if a.dtype.is_integer and a.dtype.bytes < 4 else a.dtype
    wide = f32 if wide.is_float and wide.bytes < 4 else wide
    found = matmul(a, b, wide, precision=precision)
    if (bias := given.get("bias_tensor")) is not None:
        if bias.dtype.is_float and wide.is_integer:
            fail(f"matmul: the bias_tensor is {bias.dtype}, the products are {wide}",
                 "the sum of integers gets an integer bias, before it is scaled",
                 "pass a bias of i32, or add it behind the product", InvalidType)  # fmt: skip
        found = found + cast(bias, wide)
    found = maximum(found, 0) if given.get("relu") else found
    scales = (given.get("scale_tensor"), given.get("scale"))
    if (scale := next((one for one in scales if one is not None), None)) is not None:
        found = cast(found, f32) if wide.is_integer else found
        found = found * (cast(scale, found.dtype) if isinstance(scale, Tensor) else scale)
    if kind.is_integer and found.dtype.is_float:
        fail(f"matmul: the result is {kind}, what extend_params makes of the products is "
             f"{found.dtype}", "a cast to integers needs a rounding of your choice",
             "pass a float as out_dtype, and cast behind the product", InvalidType)  # fmt: skip
    return cast(found, kind)


def _check_extended(given: dict[str, Any]) -> None:
    if not isinstance(given, dict) or (unknown := sorted({*given} - {*_EXTENDED})):
        fail(f"matmul: extend_params is {describe(given)}" if not isinstance(given, dict) else
             f"matmul: extend_params has {unknown[0]!r}",
             f"it is a dict of some of {', '.join(_EXTENDED)}",
             "write what else follows behind the product", InvalidValue)  # fmt: skip
    if given.get("scale") is not None and given.get("scale_tensor") is not None:
        fail("matmul: extend_params has a scale and a scale_tensor", "there is one scale",
             "multiply the scale_tensor by the scale")  # fmt: skip
    for name in ("bias_tensor", "scale_tensor"):
        if given.get(name) is not None and not isinstance(given[name], Tensor):
            fail(f"matmul: {name} is {describe(given[name])}", "it has a number for each column",
                 "pass a traced tensor of the shape [N]", InvalidType)  # fmt: skip
    scales = given.get("scale_tensor")
    if scales is not None and not scales.dtype.is_float:
        fail(f"matmul: the scale_tensor is {scales.dtype}", "scales are floats",
             "pass them as f32, not as the bits of floats in integers", InvalidType)  # fmt: skip
    if given.get("scale") is not None and number(given["scale"]) is None \
            and not (isinstance(given["scale"], Tensor) and given["scale"].ndim == 0):  # fmt: skip
        fail(f"matmul: the scale is {describe(given['scale'])}", "one number scales all",
             "pass a number; a number for each column is a scale_tensor", InvalidType)  # fmt: skip
    if not isinstance(given.get("relu", False), bool | None):
        fail(f"matmul: relu is {describe(given['relu'])}", "it says yes or no",
             "pass True or False", InvalidType)  # fmt: skip


def scaled_mm(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: Kind = f32
) -> Tensor:
    """(a * scale_a) @ (b * scale_b) of small types, where blocks of k have a scale.

    a is [m, k] with scales [m, blocks], b is [k, n] with scales [blocks, n]; one block is a scale
    for each row of a, or column of b. Each block is summed in i32 or f32, and scaled in f32.

    Formula: y = sum(scale_a[:, p] * scale_b[p] * (a[:, block p] @ b[block p]) for each p)
    Shapes: `[m, k]` and `[k, n]` give `[m, n]`; scales are `[m, blocks]` and `[blocks, n]`
    Example: pto.scaled_mm(x, w, v[:2, None], v[None, 1:])
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


def _check_ranks(*operands: Tensor) -> None:
    low, high = sorted(operands, key=lambda x: x.ndim)
    if low.ndim < 2:
        fail(
            f"matmul: an operand has the shape {list(low.shape)}, the other {list(high.shape)}",
            "[..., M, K] x [..., K, N]: an operand has at least two axes",
            "put an axis in: x[None, :] is a row, x[:, None] a column",
        )


def _product(a: Tensor, b: Tensor) -> Tensor:
    return matmul(a, b)


def _reflected_product(b: Tensor, a: Tensor) -> Tensor:
    return matmul(a, b)


Tensor.__matmul__ = _product
Tensor.__rmatmul__ = _reflected_product
