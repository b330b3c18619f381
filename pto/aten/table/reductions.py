# SPDX-License-Identifier: Apache-2.0
"""Rows of reductions: over axes, or over all elements; and of scans along an axis."""

from typing import Any

from pto import language as tile
from pto.aten.records import library
from pto.aten.rows import EVERY, FLOATS, NUMBERS, row
from pto.formulas import reductions as f

_TOTAL: dict[str, Any] = {"types": EVERY, "results": ("total",), "is_sum": True, "ulp": 8,
                          "in_place": False, "widens": False}  # fmt: skip
_SUM: dict[str, Any] = {"is_sum": True, "ulp": 8, "in_place": False, "widens": False}
_NORM = {**_SUM, "widens": True, "ulp": 256}  # ATen adds a million squares one by one
_EXACT: dict[str, Any] = {"types": NUMBERS, "ulp": 0, "in_place": False}
_BOOL: dict[str, Any] = {"types": EVERY, "ulp": 0, "in_place": False, "results": ("bool",)}


@row("sum", "sum.dim_IntList", **_TOTAL)
def sum_(self, dim=None, keepdim=False):
    return tile.sum(self, dim, keepdim=keepdim)


@row("mean", "mean.dim", **_SUM)
def mean(self, dim=None, keepdim=False):
    return tile.mean(self, dim, keepdim=keepdim)


@row("prod", "prod.dim_int", **{**_TOTAL, "ulp": 2, "is_sum": False, "is_product": True})
def prod(self, dim=None, keepdim=False):
    return tile.prod(self, dim, keepdim=keepdim)


@row("nansum", **{**_SUM, "widens": True})
def nansum(self, dim=None, keepdim=False):
    return tile.sum(tile.where(self != self, 0.0, self), dim, keepdim=keepdim)


@row("nanmean", **{**_SUM, "widens": True})
def nanmean(self, dim=None, keepdim=False):
    is_there = tile.where(self != self, 0.0, tile.ones_like(self))
    total = tile.sum(tile.where(self != self, 0.0, self), dim, keepdim=keepdim)
    return total / tile.sum(is_there, dim, keepdim=keepdim)


@row("amax", "max", **_EXACT)
def amax(self, dim=(), keepdim=False):
    return tile.amax(self, dim, keepdim=keepdim)


@row("amin", "min", **_EXACT)
def amin(self, dim=(), keepdim=False):
    return tile.amin(self, dim, keepdim=keepdim)


_PAIR = {**_EXACT, "results": ("", "int64")}


@row("max.dim", **_PAIR)
def max_dim(self, dim, keepdim=False):
    return tile.amax(self, dim, keepdim=keepdim), tile.argmax(self, dim, keepdim=keepdim)


@row("min.dim", **_PAIR)
def min_dim(self, dim, keepdim=False):
    return tile.amin(self, dim, keepdim=keepdim), tile.argmin(self, dim, keepdim=keepdim)


@row("aminmax", **{**_EXACT, "results": ("", "")})
def aminmax(self, dim=None, keepdim=False):
    return tile.amin(self, dim, keepdim=keepdim), tile.amax(self, dim, keepdim=keepdim)


_PLACE = {**_EXACT, "results": ("int64",)}


@row("argmax", **_PLACE)
def argmax(self, dim=None, keepdim=False):
    return tile.argmax(self, dim, keepdim=keepdim)


@row("argmin", **_PLACE)
def argmin(self, dim=None, keepdim=False):
    return tile.argmin(self, dim, keepdim=keepdim)


def _unless_no_axes(values):
    """ATen takes no axes of all.dims and any.dims as none, not as all."""
    return "it names no axes, so that nothing is reduced" if values.get("dim") == [] else None


_SOME = {**_BOOL, "types": tuple(t for t in EVERY if t != "uint8")}


@row("all", "all.dim", "all.dims", **_SOME, unless=_unless_no_axes)
def all_(self, dim=None, keepdim=False):
    return tile.all(self, dim, keepdim=keepdim)


@row("any", "any.dim", "any.dims", **_SOME, unless=_unless_no_axes)
def any_(self, dim=None, keepdim=False):
    return tile.any(self, dim, keepdim=keepdim)


@row("count_nonzero", "count_nonzero.dim_IntList", **{**_EXACT, "results": ("int64",)})
def count_nonzero(self, dim=None):
    return tile.count_nonzero(self, dim)


def _unless_empty(values):
    """ATen gives -inf for an axis of size 0, of which a tile has no largest element."""
    return "self has no elements" if 0 in library().shape(values["self"]) else None


@row("logsumexp", **_SUM, unless=_unless_empty)
def logsumexp(self, dim, keepdim=False):
    return tile.logsumexp(self, dim, keepdim=keepdim)


@row("var.correction", **_SUM)
def var(self, dim=None, correction=None, keepdim=False):
    return tile.var(self, dim, 1 if correction is None else correction, keepdim)


@row("std.correction", **_SUM)
def std(self, dim=None, correction=None, keepdim=False):
    return tile.std(self, dim, 1 if correction is None else correction, keepdim)


# The mean over an infinity is that infinity, as that of `mean` and of NumPy. ATen's var_mean and
# std_mean say NaN, or the infinity where it stands last: they take the elements one by one.
@row("var_mean.correction", **_SUM, results=("", ""))
def var_mean(self, dim=None, correction=None, keepdim=False):
    return var(self, dim, correction, keepdim), tile.mean(self, dim, keepdim=keepdim)


@row("std_mean.correction", **_SUM, results=("", ""))
def std_mean(self, dim=None, correction=None, keepdim=False):
    return std(self, dim, correction, keepdim), tile.mean(self, dim, keepdim=keepdim)


@row("var.dim", "var", **_SUM)
def var_dim(self, dim=None, unbiased=True, keepdim=False):
    return tile.var(self, dim, int(unbiased), keepdim)


@row("std.dim", "std", **_SUM)
def std_dim(self, dim=None, unbiased=True, keepdim=False):
    return tile.std(self, dim, int(unbiased), keepdim)


@row("linalg_vector_norm", **_NORM)
def vector_norm(self, ord=2, dim=None, keepdim=False):
    return f.vector_norm(self, ord, dim, keepdim)


def _unless_other(values):
    given = str(values["dtype"]).removeprefix("torch.")
    is_same = given == library().dense_type(values["self"])
    return None if is_same else f"it computes in {given}"


_TYPED = {**_NORM, "ignored": ("dtype",), "unless": _unless_other}


@row("norm.Scalar", "norm.ScalarOpt_dim", "frobenius_norm.dim", **_NORM)
@row("norm.ScalarOpt_dim_dtype", **_TYPED,
     sample=lambda t, m, n: {"self": t(m, n), "p": 2, "dim": [-1], "keepdim": False,
                             "dtype": t.dtype})  # fmt: skip
@row("norm.ScalarOpt_dtype", **_TYPED,
     sample=lambda t, m, n: {"self": t(m, n), "p": 2, "dtype": t.dtype})  # fmt: skip
def norm(self, p=None, dim=None, keepdim=False):
    return f.vector_norm(self, 2 if p is None else p, dim, keepdim)


@row("cumsum", types=FLOATS, is_sum=True, ulp=64)
def cumsum(self, dim):
    return tile.cumsum(self, dim)


@row("cumprod", types=FLOATS, ulp=64)
def cumprod(self, dim):
    return tile.cumprod(self, dim)
