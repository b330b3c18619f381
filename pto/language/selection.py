# SPDX-License-Identifier: Apache-2.0
"""Elements at positions that an integer tensor says: gather reads them, scatter writes them.

    rows = x[ids]                                  # as pto.index_select(x, 0, ids)
    best = pto.gather(scores, -1, order)           # one position for each element
    cache[:] = pto.scatter_update(cache, slots, new)

Positions count from 0. A position that is read must exist; a write to the position -1 is left out,
and the last of two writes to one position, in row-major order, stays. Other positions are errors of
the call.
Thread safety: as a trace.
"""

import math
from collections.abc import Sequence
from typing import Any

from pto.errors import InvalidIndex, InvalidType
from pto.language.dtypes import boolean, i64
from pto.language.elementwise import mul
from pto.language.location import fail
from pto.language.operands import Operand
from pto.language.operation import method, must_be_traced
from pto.language.shape import distinct_axes, normal_axis, same_size
from pto.language.tensor import Tensor
from pto.language.types import constant, joined
from pto.language.whole import whole
from pto.language.writes import check_writes, fitting, replace

_ADDS = {None: "scatter", "add": "scatter_add"}


def along(op: str, axis: int, *operands: Tensor) -> Tensor:
    """An operation of the table that works along an axis of its first operand."""
    first = operands[0]
    values = [x.value for x in operands]
    return Tensor(first.trace, first.trace.here().along(op, values, axis))


def _positions(name: str, index: Tensor) -> Tensor:
    if index.dtype is boolean:
        fail(
            f"{name}: the index is bool",
            "how many elements a condition chooses depends on data, and shapes do not",
            "choose element by element: pto.where(condition, x, other)",
            InvalidIndex,
        )
    if not index.dtype.is_integer:
        fail(
            f"{name}: the index is {index.dtype}",
            "positions are integers",
            "cast it: pto.cast(index, pto.i64)",
            InvalidType,
        )
    return index


def _one_axis(name: str, index: Tensor) -> Tensor:
    if _positions(name, index).ndim != 1:
        fail(
            f"{name}: the index has the shape {list(index.shape)}",
            "the positions along one axis are a vector",
            "reshape it: index.reshape(-1)",
        )
    return index


def _stretched(index: Tensor, axis: int, rank: int) -> Tensor:
    """A vector of positions along an axis of a tensor of this rank; one serves all other axes."""
    shape = [1] * axis + [index.shape[0]] + [1] * (rank - axis - 1)
    return Tensor(index.trace, index.trace.here().reshape(index.value, shape))


def _front(x: Tensor, shape: list) -> Tensor:
    """The part of x of this shape at its front."""
    if all(map(same_size, x.shape, shape)):
        return x
    zero = constant(x.trace, 0, i64).value
    return Tensor(x.trace, x.trace.here().view(x.value, [zero] * x.ndim, shape))


def _check_rank(name: str, x: Tensor, index: Tensor) -> None:
    if index.ndim != x.ndim:
        fail(
            f"{name}: an index of the shape {list(index.shape)} for a tensor of {x.ndim} axes",
            "it has as many axes as the tensor, and names a position for each element",
            "reshape it; pto.index_select takes a vector of positions",
        )


# --- reading -------------------------------------------------------------------------------------


@method("gather")
def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[i, j] = x[index[i, j], j] for dim 0, as torch.gather; other sizes may be x's or less.

    Formula: y[i, j] = x[i, index[i, j]] for dim 1
    Shapes: `index` has as many axes as x; the result has its shape
    Example: pto.gather(x, 1, m)
    """
    axis = normal_axis(dim, x.ndim, "gather")
    _check_rank("gather", x, _positions("gather", index))
    shape = list(index.shape)
    shape[axis] = x.shape[axis]
    return along("gather", axis, _front(x, shape), index)


@method("take_along_dim")
def take_along_dim(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """As gather, but sizes of 1 of the index stretch over x: numpy.take_along_axis.

    Formula: y[i, j] = x[i, index[i, j]] for dim 1
    Shapes: as for gather, but sizes of 1 of the index stretch
    Example: pto.take_along_dim(x, m[:, :1], 1)
    """
    axis = normal_axis(dim, x.ndim, "take_along_dim")
    _check_rank("take_along_dim", x, _positions("take_along_dim", index))
    return along("gather", axis, x, index)


@method("index_select")
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The rows (or columns, ...) of x at these positions along `dim`.

    Formula: y[:, k] = x[:, index[k]] for dim 1
    Shapes: `index` is a vector; its size takes the place of that of `dim`
    Example: pto.index_select(x, 1, i)
    """
    axis = normal_axis(dim, x.ndim, "index_select")
    return at_positions(x, axis, _one_axis("index_select", index))


def at_positions(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """x at these positions along an axis, which the axes of the index replace."""
    b = index.trace.here()
    flat = (
        index
        if index.ndim == 1
        else Tensor(index.trace, b.reshape(index.value, [math.prod(index.shape)]))
    )
    found = along("gather", axis, x, _stretched(flat, axis, x.ndim))
    if index.ndim == 1:
        return found
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return Tensor(x.trace, x.trace.here().reshape(found.value, shape))


@method("flip")
def flip(x: Tensor, dims: int | Sequence[int]) -> Tensor:
    """x with the elements along these axes in the opposite order.

    Formula: y[k] = x[size - 1 - k] along each of the axes
    Shapes: any; the result has the same
    Example: pto.flip(x, 1)
    """
    for axis in distinct_axes(dims, x.ndim, "flip"):
        positions = Tensor(x.trace, x.trace.here().iota([x.shape[axis]], 0))
        last = whole(x.trace, x.shape[axis], "flip") - 1
        x = at_positions(x, axis, last - positions)
    return x


def positions_in(x: Tensor, key: Any) -> tuple[tuple, int, Tensor] | None:
    """Where an index names many positions by a tensor: the index without it, its axis in what that
    gives, and the tensor."""
    keys = key if isinstance(key, tuple) else (key,)
    places = [i for i, k in enumerate(keys) if isinstance(k, Tensor) and k.ndim]
    if not places:
        return None
    if len(places) > 1:
        fail(
            f"an index with {len(places)} tensors",
            "one tensor names the positions along one axis",
            "take one axis after the other: x[rows][:, columns]",
            InvalidIndex,
        )
    if dots := [i for i, k in enumerate(keys) if k is Ellipsis]:
        full = [slice(None)] * (x.ndim - sum(1 for k in keys if k is not None) + len(dots))
        keys = (*keys[: dots[0]], *full, *keys[dots[0] + 1 :])
    place = next(i for i, k in enumerate(keys) if isinstance(k, Tensor) and k.ndim)
    takes_out = [k is not None and not isinstance(k, slice) for k in keys]
    is_apart = any(taken and not all(takes_out[min(i, place) : max(i, place)])
                   for i, taken in enumerate(takes_out))  # fmt: skip
    if is_apart:
        fail(
            "an index with a tensor, and a number apart from it",
            "NumPy moves the axes of such a result to the front",
            "take the number first: x[i][:, rows]",
            InvalidIndex,
        )
    axis = sum(1 for taken in takes_out[:place] if not taken)
    return (
        (*keys[:place], slice(None), *keys[place + 1 :]),
        axis,
        _positions("an index", keys[place]),
    )


# --- writing -------------------------------------------------------------------------------------


def put_at_positions(op: str, x: Tensor, axis: int, index: Tensor, value: Tensor) -> Tensor:
    """x with the value at these positions along an axis: the inverse of at_positions."""
    b = x.trace.here()
    count = [math.prod(index.shape)]
    if index.ndim != 1:
        index = Tensor(index.trace, b.reshape(index.value, count))
        value = Tensor(
            x.trace, b.reshape(value.value, (*x.shape[:axis], *count, *x.shape[axis + 1 :]))
        )
    return along(op, axis, x, _stretched(index, axis, x.ndim), value)


def _scattered(op: str, x: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    axis = normal_axis(dim, x.ndim, op)
    _check_rank(op, x, _positions(op, index))
    given = src if isinstance(src, Tensor) and src.ndim else Tensor(
        x.trace, fitting(x, src, list(index.shape)))  # fmt: skip
    if given.ndim != x.ndim or given.dtype is not x.dtype:
        fail(
            f"{op}: {given!r} for a tensor {x!r}",
            "what is written has the tensor's element type, and an element for each position",
            f"reshape it, or cast it: pto.cast(src, pto.{x.dtype})",
            InvalidType,
        )
    shape = list(index.shape)
    given = _front(given, shape)
    shape[axis] = x.shape[axis]
    part = _front(x, shape)
    found = along(op, axis, part, index, given)
    if part is x:
        return found
    zero = constant(x.trace, 0, i64).value
    return Tensor(x.trace, x.trace.here().update(x.value, found.value, [zero] * x.ndim))


def _reduction(name: str, reduce: str | None) -> str:
    if reduce in _ADDS:
        return _ADDS[reduce]
    return fail(f"{name}: reduce is {reduce!r}", "what is written replaces the element or is added",
                "pass None or 'add'")  # fmt: skip


@method("scatter")
def scatter(x: Tensor, dim: int, index: Tensor, src: Operand, reduce: str | None = None) -> Tensor:
    """x with out[index[i, j], j] = src[i, j] for dim 0, as torch.scatter; src may be a number.

    reduce="add" adds to what is there, in row-major order.

    Formula: y = x; y[i, index[i, j]] = src[i, j] for dim 1
    Shapes: `index` has as many axes as x, `src` broadcasts to it; the result has that of x
    Example: pto.scatter(x, 1, m, y)
    """
    return _scattered(_reduction("scatter", reduce), x, dim, index, src)


@method("scatter_add")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Operand) -> Tensor:
    """scatter(x, dim, index, src, reduce="add").

    Formula: y = x; y[i, index[i, j]] += src[i, j] for dim 1
    Shapes: `index` has as many axes as x, `src` broadcasts to it; the result has that of x
    Example: pto.scatter_add(x, 1, m, y)
    """
    return _scattered("scatter_add", x, dim, index, src)


@method("index_add")
def index_add(x: Tensor, dim: int, index: Tensor, src: Tensor, alpha: float = 1) -> Tensor:
    """x with alpha * src added to its rows (or columns, ...) at these positions along `dim`.

    Formula: y = x; y[index[k]] += alpha * src[k] for dim 0
    Shapes: `index` is a vector with an element for each row of `src`; the result has that of x
    Example: pto.index_add(x, 0, i, y)
    """
    axis = normal_axis(dim, x.ndim, "index_add")
    _one_axis("index_add", index)
    given = src if isinstance(alpha, int | float) and alpha == 1 else mul(src, alpha)
    shape = [*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]]
    part = Tensor(x.trace, fitting(x, given, shape))
    return put_at_positions("scatter_add", x, axis, index, part)


@method("scatter_update")
def scatter_update(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    """x with the rows of src at these rows of x, as a paged cache takes new keys.

    A row is what src has behind the axes of the index; the rows of x are counted over all axes in
    front of such a row. A position of -1 writes nothing.

    Formula: y = x; y[index[k]] = src[k]
    Shapes: `src` has the axes of `index`, then those of a row; the result has that of x
    Example: pto.scatter_update(x, i, y)
    """
    (x, src), behind = joined("scatter_update", x, src), src.ndim - _positions("", index).ndim
    ahead = x.ndim - behind
    if behind < 0 or ahead < 1:
        fail(
            f"scatter_update: rows {src!r} at positions {index!r} into {x!r}",
            "src has the axes of the index, then those of a row of x",
            "reshape them",
        )
    row, b = x.shape[ahead:], x.trace.here()
    count, rows = [math.prod(index.shape)], math.prod(x.shape[:ahead])
    flat = Tensor(x.trace, b.reshape(x.value, (rows, *row)))
    given = Tensor(x.trace, b.reshape(fitting(x, src, [*index.shape, *row]), (*count, *row)))
    found = put_at_positions(
        "scatter", flat, 0, Tensor(x.trace, b.reshape(index.value, count)), given
    )
    return Tensor(x.trace, b.reshape(found.value, x.shape))


def _in_place(name: str, function: Any) -> Any:
    def write(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        must_be_traced(name, x, "write into an array with NumPy or torch")
        check_writes(x)
        replace(x, function(x, *args, **kwargs).value)
        return x

    write.__name__ = write.__qualname__ = name
    write.__doc__ = f"Puts x on the version {function.__name__}(x, ...) and returns it."
    setattr(Tensor, name, write)
    return write


scatter_ = _in_place("scatter_", scatter)
scatter_add_ = _in_place("scatter_add_", scatter_add)
index_add_ = _in_place("index_add_", index_add)
