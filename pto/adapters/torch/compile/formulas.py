# SPDX-License-Identifier: Apache-2.0
"""Formulas of overloads that compute: products, norms, reductions, elements."""

from typing import Any

from pto import language as tile
from pto.adapters.torch.compile.rows import Kind, Out, axis_of, only, row
from pto.formulas import norms
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
    return tile.matmul(a, b)


@row(Kind.PRODUCT, "bmm")
def bmm(out: Out, a: Tensor, b: Tensor) -> Tensor:
    return tile.matmul(a, b)


@row(Kind.PRODUCT, "addmm", constants=(2,))
def addmm(out: Out, bias: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    found = tile.matmul(a, b)
    found = found if alpha == 1 else found * alpha
    if beta == 0:
        return found
    return found + (bias if beta == 1 else bias * beta)


@row(Kind.PRODUCT, "baddbmm")
def baddbmm(out: Out, bias: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return addmm(out, bias, a, b, beta, alpha)


# --- norms ----------------------------------------------------------------------------------------


def _wide(*values: Any) -> tuple:
    return tuple(wide(one) if isinstance(one, Tensor) else one for one in values)


def _cast(out: Out, found: tuple) -> tuple:
    return tuple(cast(one, part.dtype) for one, part in zip(found, out.parts, strict=True))


@row(Kind.NORM, "native_layer_norm")
def layer_norm(out: Out, x: Tensor, shape: list, weight: Any, bias: Any, eps: float) -> tuple:
    x, weight, bias = _wide(x, weight, bias)
    return _cast(out, norms.layer_norm(x, x.ndim - len(shape), weight, bias, eps))


@row(Kind.NORM, "native_group_norm")
def group_norm(
    out: Out, x: Tensor, weight: Any, bias: Any, n: Any, channels: Any, plane: Any, groups: int,
    eps: float,
) -> tuple:  # fmt: skip
    x, weight, bias = _wide(x, weight, bias)
    return _cast(out, norms.group_norm(x, groups, weight, bias, eps))


@row(Kind.NORM, "_native_batch_norm_legit_no_training")
def batch_norm(
    out: Out, x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, momentum: float,
    eps: float,
) -> tuple:  # fmt: skip
    y = norms.batch_norm(*_wide(x, weight, bias, mean, var), eps)
    empty = tile.zeros([0], out.parts[1].dtype)
    return cast(y, out.dtype), empty, empty


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
    only(x.ndim > 0, "a sum of a number")
    return cast(tile.sum(cast(x, out.dtype), _axes(x, dim), keepdim), out.dtype)


@row(Kind.REDUCE, "mean", "mean.dim")
def mean(out: Out, x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    only(x.ndim > 0, "a mean of a number")
    return tile.mean(cast(x, out.dtype), _axes(x, dim), keepdim)


@row(Kind.REDUCE, "amax")
def amax(out: Out, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    only(x.ndim > 0, "a maximum of a number")
    return tile.amax(x, _axes(x, dim), keepdim)


@row(Kind.REDUCE, "amin")
def amin(out: Out, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    only(x.ndim > 0, "a minimum of a number")
    return tile.amin(x, _axes(x, dim), keepdim)


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


@row(Kind.POINT, "masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(out: Out, x: Tensor, mask: Tensor, value: Any) -> Tensor:
    return tile.where(mask, cast(value, out.dtype) if isinstance(value, Tensor) else value, x)
