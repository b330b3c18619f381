# SPDX-License-Identifier: Apache-2.0
"""Formulas of overloads that compute: products, norms, reductions, elements."""

import math
from typing import Any

from pto import language as tile
from pto.adapters.torch.compile.rows import Kind, Out, axis_of, only, row, row_of_integers
from pto.formulas import norms, numbers
from pto.formulas.positions import part
from pto.language.tensor import Tensor
from pto.language.types import cast, wide


def _axes(x: Tensor, dim: Any) -> tuple[int, ...]:
    """The axes of a reduction: none given means all."""
    if dim is None or dim == [] or dim == ():
        return tuple(range(x.ndim))
    given = dim if isinstance(dim, list | tuple) else [dim]
    return tuple(axis_of(x, one) for one in given)


# --- products -------------------------------------------------------------------------------------


@row(Kind.PRODUCT, "mm", constants=(1,))
def mm(out: Out, a: Tensor, b: Tensor) -> Tensor:
    return tile.matmul(a, b, precision=out.precision if a.dtype is tile.f32 else None)


@row(Kind.PRODUCT, "bmm")
def bmm(out: Out, a: Tensor, b: Tensor) -> Tensor:
    return mm(out, a, b)


@row(Kind.PRODUCT, "addmm", constants=(2,))
def addmm(out: Out, bias: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if not out.dtype.is_float:  # PyTorch brings the factors to the type of the result
        beta, alpha = int(beta), int(alpha)
    is_narrow = out.dtype in (tile.f16, tile.bf16)  # the whole result is rounded once
    found = tile.matmul(a, b, tile.f32) if is_narrow else mm(out, a, b)
    found = found if alpha == 1 else found * alpha
    if beta != 0:
        bias = wide(bias)
        found = found + (bias if beta == 1 else bias * beta)
    return cast(found, out.dtype)


@row(Kind.PRODUCT, "baddbmm")
def baddbmm(out: Out, bias: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return addmm(out, bias, a, b, beta, alpha)


NARROWEST = 8  # elements of a patch that lie side by side; oneDNN reads narrower ones faster


@row(Kind.PRODUCT, "convolution", constants=(1,))
def convolution(
    out: Out, x: Tensor, weight: Tensor, bias: Any, stride: list, padding: list, dilation: list,
    transposed: bool, output_padding: list, groups: int,
) -> Tensor:  # fmt: skip
    """The product of patches that lie side by side, as those of a picture that is embedded, or of
    whole pictures, as the single pixels of squeeze and excitation."""
    rows, channels, *plane = x.shape
    filters, _, *window = weight.shape
    is_whole = [*plane] == window
    are_apart = is_whole or [*stride] == window and window[-1] >= NARROWEST
    are_apart = are_apart and not transposed and groups == 1 and not any(padding)
    are_apart = are_apart and (is_whole or all(one == 1 for one in dilation))
    only(are_apart, "a convolution of another kind, which oneDNN computes")
    are_known = all(isinstance(size, int) for size in (channels, *plane, filters, *window))
    only(are_known and not any(a % b for a, b in zip(plane, window, strict=True)),
         "a convolution that leaves out elements, or whose sizes vary")  # fmt: skip
    count, taps = [a // b for a, b in zip(plane, window, strict=True)], math.prod(window)
    split = [size for pair in zip(count, window, strict=True) for size in pair]
    axes = len(plane)
    outer, inner = [2 + 2 * axis for axis in range(axes)], [3 + 2 * axis for axis in range(axes)]
    patches = tile.permute(tile.reshape(x, [rows, channels, *split]), (0, *outer, 1, *inner))
    flat = tile.reshape(patches, [rows * math.prod(count), channels * taps])
    found = mm(out, flat, tile.transpose(tile.reshape(weight, [filters, channels * taps]), 0, 1))
    found = found if bias is None else found + bias
    return tile.permute(
        tile.reshape(found, [rows, *count, filters]), (0, axes + 1, *range(1, axes + 1))
    )


# --- norms ----------------------------------------------------------------------------------------


def _wide(*values: Any) -> tuple:
    return tuple(wide(one) if isinstance(one, Tensor) else one for one in values)


@row(Kind.NORM, "native_layer_norm")
def layer_norm(out: Out, x: Tensor, shape: list, weight: Any, bias: Any, eps: float) -> tuple:
    x, weight, bias = _wide(x, weight, bias)
    return norms.layer_norm(x, x.ndim - len(shape), weight, bias, eps)


@row(Kind.NORM, "native_group_norm")
def group_norm(
    out: Out, x: Tensor, weight: Any, bias: Any, n: Any, channels: Any, plane: Any, groups: int,
    eps: float,
) -> tuple:  # fmt: skip
    x, weight, bias = _wide(x, weight, bias)
    return norms.group_norm(x, groups, weight, bias, eps)


@row(Kind.NORM, "_native_batch_norm_legit_no_training")
def batch_norm(
    out: Out, x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, momentum: float,
    eps: float,
) -> tuple:  # fmt: skip
    y = norms.batch_norm(*_wide(x, weight, bias, mean, var), eps)
    empty = tile.zeros([0], out.parts[1].dtype)
    return y, empty, empty


@row(Kind.NORM, "_native_batch_norm_legit_functional", by_rows=True)
def batch_norm_training(
    out: Out, x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, training: bool,
    momentum: Any, eps: float,
) -> tuple:  # fmt: skip
    only(training and isinstance(momentum, float), "a batch norm of another kind")
    x, weight, bias, mean, var = _wide(x, weight, bias, mean, var)
    y, middle, inverse, spread = norms.batch_norm_training(x, weight, bias, eps)
    kept = [old * (1 - momentum) + new * momentum for old, new in ((mean, middle), (var, spread))]
    return (y, middle, inverse, *kept)


@row(Kind.NORM, "_native_batch_norm_legit.no_stats", by_rows=True)
def batch_norm_of_batch(
    out: Out, x: Tensor, weight: Any, bias: Any, training: bool, momentum: Any, eps: float
) -> tuple:
    return norms.batch_norm_training(*_wide(x, weight, bias), eps)[:3]


@row(Kind.NORM, "_softmax")
def softmax(out: Out, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    only(x.ndim > 0, "a softmax of a number")
    return tile.softmax(cast(x, out.dtype), dim)


@row(Kind.NORM, "_log_softmax")
def log_softmax(out: Out, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    only(x.ndim > 0, "a softmax of a number")
    return tile.log_softmax(cast(x, out.dtype), dim)


# --- reductions -----------------------------------------------------------------------------------


@row(Kind.REDUCE, "sum", "sum.dim_IntList")
def sum_(out: Out, x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    x = cast(x, out.dtype)
    return cast(tile.sum(x, _axes(x, dim), keepdim), out.dtype) if x.ndim else x


@row(Kind.REDUCE, "mean", "mean.dim")
def mean(out: Out, x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    x = cast(x, out.dtype)
    return tile.mean(x, _axes(x, dim), keepdim) if x.ndim else x


@row(Kind.REDUCE, "amax")
def amax(out: Out, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    return tile.amax(x, _axes(x, dim), keepdim) if x.ndim else x


@row(Kind.REDUCE, "amin")
def amin(out: Out, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    return tile.amin(x, _axes(x, dim), keepdim) if x.ndim else x


@row(Kind.REDUCE, "var.correction")
def var(out: Out, x: Tensor, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Tensor:
    correction = 1 if correction is None else correction
    only(x.ndim > 0 and correction in (0, 1), "a variance with this correction")
    only(0 not in [n for n in x.shape if isinstance(n, int)], "a variance of no elements")
    return tile.var(x, _axes(x, dim), correction, keepdim)


@row(Kind.REDUCE, "any", "any.dim", "any.dims")
def any_(out: Out, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    only(x.ndim > 0, "any of a number")
    only(dim not in ([], ()), "any along no axes")
    return tile.any(x, _axes(x, dim), keepdim)


@row(Kind.REDUCE, "all", "all.dim", "all.dims")
def all_(out: Out, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    only(x.ndim > 0, "all of a number")
    only(dim not in ([], ()), "all along no axes")
    return tile.all(x, _axes(x, dim), keepdim)


@row(Kind.REDUCE, "cumsum")
def cumsum(out: Out, x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    only(x.ndim > 0, "a scan of a number")
    return cast(tile.cumsum(cast(x, out.dtype), dim), out.dtype)


# --- elements -------------------------------------------------------------------------------------

_REFUSED = "an error of ATen's where a divisor is 0, or an exponent of an integer negative"


@row_of_integers("remainder.Scalar", "remainder.Tensor")
def remainder(out: Out, x: Any, y: Any) -> Tensor:
    only(isinstance(y, int) and y != 0, _REFUSED)
    return numbers.whole_remainder(x, y)


@row_of_integers("div.Tensor_mode", "div.Scalar_mode")
def div_mode(out: Out, x: Any, y: Any, rounding_mode: str | None = None) -> Tensor:
    only(isinstance(y, int) and y != 0, _REFUSED)
    return numbers.whole_quotient(x, y, rounding_mode == "floor")


@row_of_integers("pow.Tensor_Scalar")
def power(out: Out, x: Tensor, n: Any) -> Tensor:
    only(isinstance(n, int) and n >= 0, _REFUSED)
    return numbers.whole_power(x, n)


@row(Kind.POINT, "ldexp.Tensor")  # ATen multiplies by the power itself where it may be no whole one
def ldexp(out: Out, x: Tensor, n: Tensor) -> Tensor:
    x = wide(cast(x, out.dtype))
    whole = n.dtype.is_integer
    return numbers.ldexp(x, cast(n, x.dtype)) if whole else x * tile.exp2(cast(n, x.dtype))


@row(Kind.POINT, "prims::fma")  # as Dynamo writes addcmul_ and addcdiv_ with a factor
def multiply_add(out: Out, a: Tensor, b: Any, c: Tensor) -> Tensor:
    kinds = {one.dtype for one in (a, b, c) if isinstance(one, Tensor)}
    only(kinds == {out.dtype} and out.dtype.is_float, "tensors of several types, or integers")
    a, b, c = _wide(a, b, c)
    return a * b + c


@row(Kind.POINT, "masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(out: Out, x: Tensor, mask: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        value = cast(value, out.dtype)
    elif out.dtype.is_integer and isinstance(value, float):  # which would make floats of them
        value = int(value)
    return tile.where(mask, value, x)


@row(Kind.POINT, "linalg_cross")
def cross(out: Out, a: Tensor, b: Tensor, dim: int = -1) -> Tensor:
    axis = dim % len(out.shape)
    a, b = (tile.broadcast_to(x, *out.shape) for x in (a, b))
    first, second = ([part(x, axis, i, 1) for i in range(3)] for x in _wide(a, b))
    turned = [first[i - 2] * second[i - 1] - first[i - 1] * second[i - 2] for i in range(3)]
    return cast(tile.concat(turned, axis), out.dtype)
