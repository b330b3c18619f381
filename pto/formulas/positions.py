# SPDX-License-Identifier: Apache-2.0
"""Elements that are taken from positions, or put there; these formulas compute nothing else.

    every_second = strided(x, axis=1, start=0, size=8, step=2)
    chosen = at(x, [rows, None, columns])              # x[rows, :, columns], as in NumPy
    written = put(x, [rows], values)

Index tensors count from 0, or from -1 backwards; any other position is an error of the call.
"""

import math
from collections.abc import Sequence
from typing import Any

from pto import _core
from pto import language as tile
from pto.formulas import NotExpressible
from pto.language.parts import part_at, put_at
from pto.language.shape import same_size
from pto.language.tensor import Tensor

Indices = Sequence[Tensor | None]  # None: all of an axis


def part(x: Tensor, axis: int, start: Any, size: Any) -> Tensor:
    """`size` neighbours along an axis, from `start` on."""
    return strided(x, axis, start, size, 1)


def strided(x: Tensor, axis: int, start: Any, size: Any, step: int) -> Tensor:
    """`size` elements along an axis from `start` on, `step` apart."""
    sizes = list(x.shape)
    sizes[axis] = size
    return part_at(x, sizes, *_steps(x, axis, start, step))


def _steps(x: Tensor, axis: int, start: Any, step: int) -> tuple[list, list]:
    """The offsets and steps of such a part; one without elements may begin behind the axis."""
    n = x.shape[axis]
    if step != 1 and isinstance(start, int) and isinstance(n, _core.Dim):
        start = n.min(start)
    return tuple(
        [number if one == axis else other for one in range(x.ndim)]
        for number, other in ((start, 0), (step, 1))
    )


def padded(x: Tensor, pads: Sequence[Any], value: Any = 0) -> Tensor:
    """x with `value` around it, (left, right) of the last axis first; a negative number, which is
    known while tracing, cuts that many elements off."""
    for axis, (left, right) in zip(
        reversed(range(x.ndim)), zip(pads[::2], pads[1::2], strict=True), strict=False
    ):
        front, behind = (max(-n, 0) if isinstance(n, int) else 0 for n in (left, right))
        if front or behind:
            x = part(x, axis, front, x.shape[axis] - front - behind)
    more = tuple(max(n, 0) if isinstance(n, int) else n for n in pads)
    return x if all(isinstance(n, int) and n == 0 for n in more) else tile.pad(x, more, value)


def bordered(x: Tensor, pads: Sequence[tuple[int, int]], reflects: bool) -> Tensor:
    """x with (front, behind) more elements along the last axes, the last one first: those at its
    ends reflected, or the outermost ones again."""
    for axis, pair in zip(reversed(range(x.ndim)), pads, strict=False):
        n = x.shape[axis]
        parts = [x]
        for is_behind, count in enumerate(pair):
            if not count:
                continue
            if reflects:
                more = tile.flip(part(x, axis, n - 1 - count if is_behind else 1, count), axis)
            else:
                one = part(x, axis, n - 1 if is_behind else 0, 1)
                more = tile.broadcast_to(one, [*x.shape[:axis], count, *x.shape[axis + 1 :]])
            parts = [*parts, more] if is_behind else [more, *parts]
        x = tile.concat(parts, axis) if len(parts) > 1 else x
    return x


def without_border(d: Tensor, pads: Sequence[tuple[int, int]], reflects: bool) -> Tensor:
    """The gradient of x from that of bordered(x, pads, reflects)."""
    for axis, (front, behind) in zip(reversed(range(d.ndim)), pads, strict=False):
        n = d.shape[axis] - front - behind
        inner = part(d, axis, front, n)
        for is_behind, count in enumerate((front, behind)):
            if not count:
                continue
            edge = part(d, axis, front + n if is_behind else 0, count)
            edge = tile.flip(edge, axis) if reflects else tile.sum(edge, axis, keepdim=True)
            first = n - 1 - count if is_behind else 1
            first, count = (first, count) if reflects else ((n - 1) * is_behind, 1)
            around = [0, 0] * (d.ndim - 1 - axis) + [first, n - first - count]
            inner = inner + tile.pad(edge, tuple(around))
        d = inner
    return tile.clone(d) if all(a == b == 0 for a, b in pads) else d


def put_strided(x: Tensor, value: Tensor, axis: int, start: Any, step: int) -> Tensor:
    """x with the value in the place of strided(x, axis, start, value.shape[axis], step)."""
    out = tile.clone(x)
    put_at(out, value, *_steps(x, axis, start, step))
    return out


def repeated(x: Tensor, times: Sequence[Any]) -> Tensor:
    """x one time behind the other along each axis; more numbers than axes make new ones."""
    shape = [*[1] * (len(times) - x.ndim), *x.shape]
    narrow, wide = [], []  # an axis that repeats elements gets another one in front of it
    for n, count in zip(shape, times, strict=True):
        if not same_size(count, 1) and not same_size(n, 1):
            narrow, wide = [*narrow, 1], [*wide, count]
            count = 1
        narrow, wide = [*narrow, n], [*wide, n if same_size(count, 1) else count]
    if len(wide) > _core.MAX_RANK:
        raise NotExpressible(f"repeats along so many axes need more than {_core.MAX_RANK}")
    found = tile.broadcast_to(tile.reshape(x, narrow), wide)
    return tile.reshape(found, [n * count for n, count in zip(shape, times, strict=True)])


def rolled(x: Tensor, shifts: Sequence[int], axes: Sequence[int]) -> Tensor:
    """x with its elements moved along axes; those that leave at one end come in at the other."""
    for shift, axis in zip(shifts, axes, strict=True):
        n = x.shape[axis]
        behind = abs(shift) % n if isinstance(n, _core.Dim) or n else 0
        behind = behind if shift < 0 else n - behind  # how many stand in front of the new begin
        x = tile.concat([part(x, axis, behind, n - behind), part(x, axis, 0, behind)], axis)
    return x


# --- index tensors --------------------------------------------------------------------------------


def _indexed(indices: Indices) -> list[int]:
    return [axis for axis, one in enumerate(indices) if one is not None]


def _from_front(index: Tensor, n: Any) -> Tensor:
    """An index along an axis of n elements; what counts from the end is counted from the front.

    A position that does not exist stays as it was given, for the error that names it: reads and
    writes refuse it. -1, which a write would leave out, becomes -2: there is no element.
    """
    index = tile.cast(index, tile.i64)
    front = tile.where(index < 0, index + n, index)
    return tile.where(front < 0, each_there(index), front)


def each_there(index: Tensor) -> Tensor:
    """Positions of a write that must all exist: -1, which it would leave out, becomes -2."""
    return tile.where(index == -1, -2, index)


def _positions(x: Tensor, indices: Indices) -> tuple[list[int], Tensor]:
    """The axes that are indexed, and the positions along these axes as one.

    A position that does not exist is refused by reads and writes: along one axis as it is, of
    several as -2.
    """
    axes = _indexed(indices)
    if len(axes) == 1:
        return axes, _from_front(indices[axes[0]], x.shape[axes[0]])
    found, is_there = None, None
    for axis in axes:
        n = x.shape[axis]
        index = _from_front(indices[axis], n)
        one_is_there = (index >= 0) & (index < n)
        found = index if found is None else found * n + index
        is_there = one_is_there if is_there is None else is_there & one_is_there
    return axes, tile.where(is_there, found, -2)


def _order(rank: int, axes: Sequence[int]) -> list[int]:
    """The axes of x with those that are indexed side by side: at their place, or in front where
    they are apart, as NumPy has it."""
    if list(axes) == list(range(axes[0], axes[0] + len(axes))):
        return list(range(rank))
    return [*axes, *(axis for axis in range(rank) if axis not in axes)]


def _joined(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, int, list[int], list]:
    """x with its indexed axes as one, the place of that axis, the order of the axes of x before
    that, and the sizes in this order."""
    order = _order(x.ndim, axes)
    x = x if order == sorted(order) else tile.permute(x, order)
    place, count = order.index(axes[0]), len(axes)
    sizes = list(x.shape)
    whole = math.prod(sizes[place : place + count])
    x = x if count == 1 else tile.reshape(x, *sizes[:place], whole, *sizes[place + count :])
    return x, place, order, sizes


def at(x: Tensor, indices: Indices) -> Tensor:
    """x[indices], as in NumPy; index tensors broadcast."""
    axes, positions = _positions(x, indices)
    shape = positions.shape
    x, place, _, _ = _joined(x, axes)
    flat = tile.reshape(positions, math.prod(shape))
    found = tile.index_select(x, place, flat)
    return tile.reshape(found, [*x.shape[:place], *shape, *x.shape[place + 1 :]])


def put(x: Tensor, indices: Indices, values: Tensor, adds: bool = False) -> Tensor:
    """x with the values, which broadcast, at x[indices]: the last of those at one position, or all
    added to what is there."""
    axes, positions = _positions(x, indices)
    shape = positions.shape
    joined, place, order, sizes = _joined(x, axes)
    around = joined.shape[:place], joined.shape[place + 1 :]
    values = tile.broadcast_to(values, [*around[0], *shape, *around[1]])
    values = tile.reshape(values, [*around[0], math.prod(shape), *around[1]])
    flat = tile.reshape(positions, math.prod(shape))
    out = tile.index_add(joined, place, flat, values) if adds else tile.clone(joined)
    if not adds:
        out[(*(slice(None),) * place, flat)] = values
    out = out if len(axes) == 1 else tile.reshape(out, sizes)
    back = sorted(range(x.ndim), key=lambda axis: order[axis])
    return out if back == sorted(back) else tile.permute(out, back)


def put_where(x: Tensor, indices: Indices, value: Tensor) -> Tensor:
    """x with a value where the mask, the only index, is true; the value has no axis for the mask's
    elements, or one of size 1."""
    (axis,) = _indexed(indices)
    mask = indices[axis]
    behind = x.ndim - axis - mask.ndim
    if value.ndim > behind:
        if axis or value.ndim > behind + 1 or not same_size(value.shape[0], 1):
            raise NotExpressible("a mask chooses how many values are written")
        value = tile.reshape(value, value.shape[1:])
    for _ in range(behind):
        mask = tile.unsqueeze(mask, -1)
    return tile.where(mask, value, x)
