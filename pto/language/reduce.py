# SPDX-License-Identifier: Apache-2.0
"""Reductions: over one axis, several, or all; `dim` and `axis`, `keepdim` and `keepdims` are the
same.

f16 and bf16 accumulate in f32 and round once. A sum of n numbers is off by at most
(512 + 2 log2 n) u times the sum of their sizes, u = 2^-24 (f64: 2^-53), and usually far less. amax
and amin propagate NaN, as PyTorch's do. Over no elements sum and prod give 0 and 1; amax and amin
raise an Error at the call.
"""

from collections.abc import Callable

from pto.errors import InvalidType
from pto.language.dtypes import boolean, i32, i64
from pto.language.elementwise import div, maximum, minimum, mul, reciprocal, sqrt, square, where
from pto.language.location import fail
from pto.language.operands import Axes
from pto.language.operation import method, operation
from pto.language.shape import distinct_axes
from pto.language.tensor import Tensor
from pto.language.types import cast, count, joined, wide


def _axes(name: str, rank: int, dim: Axes, axis: Axes) -> list[int]:
    if dim is not None and axis is not None:
        fail(f"{name}: both dim and axis are given", "both name the axes", "pass dim", InvalidType)
    chosen = axis if dim is None else dim
    if chosen is None:
        return list(range(rank))
    given = list(chosen) if isinstance(chosen, tuple | list) else [chosen]
    is_only = len(given) == 1 and isinstance(given[0], int) and given[0] in (0, -1)
    if rank == 0 and is_only and not name.endswith("_norm"):  # as in PyTorch
        return []
    return distinct_axes(given, rank, name) or list(range(rank))


def without(shape: tuple, axes: list[int]) -> list:
    """The sizes of a shape but for those of some axes."""
    return [size for axis, size in enumerate(shape) if axis not in axes]


def _reduce(op: str, x: Tensor, axes: list[int], keep: bool) -> Tensor:
    b = x.trace.here()
    value = b.reduce(op, x.value, axes) if axes else x.value
    if axes and not keep:
        value = b.reshape(value, without(x.shape, axes))
    return Tensor(x.trace, value)


def extreme(op: str, x: Tensor, dim: Axes, keepdim: bool) -> Tensor:
    """amax or amin; over no elements the number of x's type that changes no other."""
    return _reduce(op, x, _axes(op, x.ndim, dim, None), keepdim)


def _reduction(op: str, total: bool) -> Callable[..., Tensor]:
    def function(
        x: Tensor, dim: Axes = None, keepdim: bool = False, *,
        axis: Axes = None, keepdims: bool = False,
    ) -> Tensor:  # fmt: skip
        (x,) = joined(op, x)
        axes, keep, kind = _axes(op, x.ndim, dim, axis), keepdim or keepdims, x.dtype
        if not total:
            for a in axes:
                x.trace.here().guard_nonempty(x.shape[a], op)
        if total and not kind.is_float:
            return _reduce(op, cast(x, i64), axes, keep)
        if kind is boolean:
            return cast(_reduce(op, cast(x, i32), axes, keep), boolean)
        return cast(_reduce(op, wide(x) if total else x, axes, keep), kind)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{op} of x over axes; all of them by default. " + (
        "Integers and bool give i64." if total else "The element type stays."
    )
    return method(op)(function)


sum, prod = _reduction("sum", True), _reduction("prod", True)
amax, amin = _reduction("amax", False), _reduction("amin", False)


def _condition(name: str, op: str) -> Callable[..., Tensor]:
    def function(
        x: Tensor, dim: Axes = None, keepdim: bool = False, *,
        axis: Axes = None, keepdims: bool = False,
    ) -> Tensor:  # fmt: skip
        holds = cast(cast(x, boolean), i32)
        return _reduce(op, holds, _axes(name, x.ndim, dim, axis), keepdim or keepdims) > 0

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Whether {name} of the elements of x over axes are not 0; {name} of none: "
        + ("True." if name == "all" else "False.")
    )
    return method(name)(function)


any, all = _condition("any", "amax"), _condition("all", "amin")


@method("count_nonzero")
def count_nonzero(
    x: Tensor, dim: Axes = None, keepdim: bool = False, *,
    axis: Axes = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """How many elements of x over axes are not 0, an i64.

    Formula: sum(x != 0, dim)
    """
    counted = cast(cast(x, boolean), i64)
    return _reduce("sum", counted, _axes("count_nonzero", x.ndim, dim, axis), keepdim or keepdims)


def shifted_by_largest(x: Tensor, dim: Axes, name: str) -> Tensor:
    """x minus its maximum along `dim`; x itself if there are no elements."""
    return x - _reduce("amax", x, _axes(name, x.ndim, dim, None), True)


def _must_be_float(x: Tensor, name: str) -> None:
    if not x.dtype.is_float:
        fail(
            f"{name}: the operand is {x.dtype}",
            f"a {name} of integers is rarely one, so PyTorch refuses it too",
            f"cast first: pto.{name}(pto.cast(x, pto.f32))",
            InvalidType,
        )


def average(x: Tensor, axes: list[int]) -> Tensor:
    """The mean over `axes`, which stay: times the reciprocal of the count, one rounding more."""
    return mul(_reduce("sum", x, axes, True), reciprocal(count(x, axes, x.dtype)))


def centred(x: Tensor, axes: list[int]) -> Tensor:
    """x minus its average over `axes`, in at least f32."""
    x = wide(x)
    return x - average(x, axes)


def _divided(total: Tensor, x: Tensor, axes: list[int], correction: float, keep: bool) -> Tensor:
    """A sum over axes of x, which stayed, divided by their number of elements less the correction.

    The divisor is 0 where the correction is larger, and for no elements, whatever the correction,
    as in PyTorch: the result is inf or NaN then.
    """
    number = count(x, axes, x.dtype)
    if correction < 0:
        number = number - minimum(number, 1) * correction
    elif correction:
        number = maximum(number - correction, 0)
    mean = div(total, number)
    return mean if keep or not axes else mean.reshape(without(mean.shape, axes))


@method("mean")
def mean(
    x: Tensor, dim: Axes = None, keepdim: bool = False, *,
    axis: Axes = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The mean of x over axes; all of them by default. x must be floating point.

    Formula: sum(x, dim) / count
    """
    _must_be_float(x, "mean")
    axes = _axes("mean", x.ndim, dim, axis)
    total = _reduce("sum", wide(x), axes, True)
    return cast(_divided(total, wide(x), axes, 0, keepdim or keepdims), x.dtype)


@method("var")
def var(
    x: Tensor, dim: Axes = None, correction: float = 1, keepdim: bool = False, *,
    axis: Axes = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The variance of x over axes, from centred values; correction=0 is NumPy's default.

    Formula: sum(square(x - mean(x, dim)), dim) / max(count - correction, 0)
    """
    _must_be_float(x, "var")
    axes = _axes("var", x.ndim, dim, axis)
    centre = centred(x, axes)
    rest = average(centre, axes)  # of the rounding of the mean, whose square would be in each term
    squares = _reduce("sum", square(centre), axes, True)
    total = maximum(squares - _reduce("sum", centre, axes, True) * rest, 0)
    return cast(_divided(total, centre, axes, correction, keepdim or keepdims), x.dtype)


@method("std")
def std(
    x: Tensor, dim: Axes = None, correction: float = 1, keepdim: bool = False, *,
    axis: Axes = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The square root of the variance.

    Formula: sqrt(var(x, dim, correction))
    """
    spread = var(wide(x), dim, correction, keepdim, axis=axis, keepdims=keepdims)
    varies = spread != 0  # where it does not, the gradient is 0, not that of a root
    return cast(where(varies, sqrt(where(varies, spread, 1)), spread), x.dtype)


@operation
def sum_to(x: Tensor, like: Tensor) -> Tensor:
    """x summed over the axes along which `like` was broadcast to it: a gradient's way back.

    Formula: sum(x, the axes along which like was repeated)
    Shapes: the result has that of `like`
    Example: pto.sum_to(x, v)
    """
    extra = x.ndim - like.ndim
    axes = [a for a, n in enumerate(x.shape) if a < extra or _repeats(n, like.shape[a - extra])]
    if not axes:
        return x
    summed = cast(_reduce("sum", wide(x), axes, True), x.dtype)
    return summed.reshape(summed.shape[extra:]) if extra else summed


def _repeats(size: object, of: object) -> bool:
    return isinstance(of, int) and of == 1 and not (isinstance(size, int) and size == 1)
