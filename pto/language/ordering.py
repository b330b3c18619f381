# SPDX-License-Identifier: Apache-2.0
"""Order: sort, the first k of it, and the positions of the largest and smallest elements.

    best = pto.topk(scores, 8)          # best.values, best.indices
    order = pto.argsort(x, descending=True)

The smaller position comes first where elements are equal, also in a descending order. NaN is the
largest. Thread safety: as a trace.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pto import _core
from pto.language.dtypes import i64
from pto.language.elementwise import where
from pto.language.location import describe, fail
from pto.language.operands import Whole
from pto.language.operation import method
from pto.language.reduce import amax, amin
from pto.language.shape import normal_axis, reshape, transpose
from pto.language.symbol import is_whole
from pto.language.tensor import Tensor
from pto.language.types import constant
from pto.language.whole import sized, whole


class Sorted(NamedTuple):
    """Sorted elements, and the positions that they had, an i64."""

    values: Tensor
    indices: Tensor


def _sorted(x: Tensor, axis: int, descending: bool, count: Any = None) -> Sorted:
    """The first `count` elements of each sorted line, or all."""
    turned = transpose(x, axis, -1)
    b = turned.trace.here()
    found = b.sort("sort_descending" if descending else "sort", turned.value)
    both = found, b.result(found, 1)
    if count is not None:  # in front of a transposition, so that nothing else is kept
        zero, shape = constant(x.trace, 0, i64).value, [*turned.shape[:-1], count]
        both = (b.view(y, [zero] * x.ndim, shape) for y in both)
    return Sorted(*(transpose(Tensor(x.trace, y), axis, -1) for y in both))


@method("sort")
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> Sorted:
    """(values, indices): x in order along `dim`, and where its elements were.

    Formula: values = gather(x, dim, indices); values[k] <= values[k + 1] along dim
    """
    return _sorted(x, normal_axis(dim, x.ndim, "sort"), descending)


@method("argsort")
def argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """The positions that put x in order along `dim`.

    Formula: sort(x, dim, descending).indices
    """
    return _sorted(x, normal_axis(dim, x.ndim, "argsort"), descending).indices


@method("topk")
def topk(x: Tensor, k: Whole, dim: int = -1, largest: bool = True) -> Sorted:
    """(values, indices) of the k largest, or smallest, elements along `dim`, in their order.

    Formula: the first k of sort(x, dim, largest)
    Shapes: any with an axis `dim`, which has k elements in the results
    Example: pto.topk(x, 2)
    """
    axis = normal_axis(dim, x.ndim, "topk")
    size = x.shape[axis]
    if not is_whole(k) or (isinstance(k, int) and (k < 0 or (isinstance(size, int) and k > size))):
        fail(
            f"topk: k is {k if is_whole(k) else describe(k)}, of {size} elements",
            "k elements are chosen from those along the axis",
            f"pass a whole number from 0 to {size}",
        )
    if isinstance(k, int) and isinstance(size, _core.Dim):
        x.trace.here().guard_equal(size.max(k), size, "topk, whose axis has k elements")
    return _sorted(x, axis, largest, sized(x.trace, k, "topk"))


def _position(name: str, extreme: Callable) -> Callable[..., Tensor]:
    def function(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        flat, rank = (x, x.ndim) if dim is not None else (reshape(x, -1), 1)
        axis = normal_axis(-1 if dim is None else dim, rank, name)
        x.trace.here().guard_nonempty(flat.shape[axis], name)
        found = extreme(flat, axis, keepdim=True)
        shape = [1] * axis + [flat.shape[axis]] + [1] * (rank - axis - 1)
        positions = Tensor(x.trace, x.trace.here().iota(shape, axis))
        is_there = flat == found
        if x.dtype.is_float:
            is_there = is_there | (flat != flat)
        beyond = whole(x.trace, flat.shape[axis], name)
        chosen = amin(where(is_there, positions, beyond), axis, keepdim=True)
        if dim is None:
            return reshape(chosen, [1] * x.ndim if keepdim else [])
        return chosen if keepdim else chosen.squeeze(axis)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"The first position along `dim` of the {name[3:]}imum; without `dim`, in the order of "
        "x.reshape(-1). NaN counts as the maximum and as the minimum."
    )
    return method(name)(function)


argmax, argmin = _position("argmax", amax), _position("argmin", amin)
