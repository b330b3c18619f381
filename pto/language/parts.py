# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors: `x[i, :n]` reads one, `out[i, :n] = y` puts another in its place.

    page = keys[table[i, j], : pto.min(128, n - j * 128), h]
    out[i, h] = page.amax(0)

Positions and bounds are whole numbers (whole.py), or the positions of one axis are an integer
tensor: x[rows], out[:, rows] = y (selection.py). Steps are whole numbers above 0, known while
tracing: x[:, 1::2]. A negative bound from data, and a part that reaches beyond its tensor, are
errors, the last one at the call. Indexing copies nothing of what it stands for: values never
change, a write makes the next version.

Thread safety: as a trace.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from pto.errors import InvalidIndex
from pto.language.dtypes import i64
from pto.language.local import LocalTensor
from pto.language.location import fail
from pto.language.operands import Key, Operand, Whole
from pto.language.operation import a_sequence, method, must_be_traced
from pto.language.selection import at_positions, positions_in, put_at_positions
from pto.language.shape import reshape, same_size
from pto.language.slices import of_slice
from pto.language.symbol import is_whole
from pto.language.tensor import ShortPart, Tensor
from pto.language.types import constant
from pto.language.whole import as_number, is_number, plain, sized, whole
from pto.language.writes import check_writes, fitting, replace


class Part:
    """An index: the offset, size and step of each axis, and the shape of what it reads."""

    __slots__ = ("has_new_axes", "is_whole", "offsets", "shape", "sizes", "stays", "steps")

    def __init__(self) -> None:
        self.offsets: list[Any] = []
        self.sizes: list[Any] = []
        self.steps: list[int] = []
        self.shape: list[Any] = []  # of the result: kept and new axes
        self.stays: list[bool] = []  # axes that are kept
        self.is_whole, self.has_new_axes = True, False

    def begin_with(self, value: Tensor) -> None:
        """Cuts the part to the size of a value with as many axes."""
        sizes = iter(value.shape)
        if value.ndim != len(self.shape) or all(map(same_size, value.shape, self.shape)):
            return
        if any(isinstance(n, int) and isinstance(m, int) and n > m
               for n, m in zip(value.shape, self.shape, strict=True)):  # fmt: skip
            return  # too large: fitting() says so
        self.shape, self.is_whole = list(value.shape), False
        self.sizes = [next(sizes) if stays else 1 for stays in self.stays]


def part_of(x: Tensor, key: Any) -> Part:
    """The part that an index names; raises InvalidIndex or InvalidType."""
    keys = _complete(x, key if isinstance(key, tuple) else (key,))
    part, axis = Part(), 0
    for k in keys:
        if k is None:
            part.shape.append(1)
            part.has_new_axes = True
            continue
        offset, size, step, stays = _of_axis(x, axis, k)
        part.offsets.append(offset)
        part.sizes.append(size)
        part.steps.append(step)
        part.stays.append(stays)
        part.shape += [size] if stays else []
        is_all = stays and _is(offset, 0) and same_size(size, x.shape[axis])
        part.is_whole = part.is_whole and is_all
        axis += 1
    return part


def _is(value: Any, number: int) -> bool:
    """Says whether a whole number is known to be this one."""
    return isinstance(value, int) and value == number


def _is_all(key: Any) -> bool:
    """Says whether an index is `...` or `:`."""
    if isinstance(key, slice):
        return key.start is None and key.stop is None and key.step is None
    return key is Ellipsis


def _complete(x: Tensor, keys: tuple) -> list:
    """The index with an entry for each axis: `...` and what is left out stand for `:`."""
    given = sum(1 for k in keys if k is not None and k is not Ellipsis)
    dots = sum(1 for k in keys if k is Ellipsis)
    if given > x.ndim or dots > 1:
        fail(
            f"an index with {given} positions and {dots} '...' for a tensor of {x.ndim} axes",
            "an index has at most one position for each axis, and one '...'",
            "take the others out",
            InvalidIndex,
        )
    full = [slice(None)] * (x.ndim - given)
    if not dots:
        return [*keys, *full]
    at = next(i for i, k in enumerate(keys) if k is Ellipsis)
    return [*keys[:at], *full, *keys[at + 1 :]]


def _of_axis(x: Tensor, axis: int, key: Any) -> tuple[Any, Any, int, bool]:
    """(offset, size, step, whether the axis stays) of one position or slice."""
    n = x.shape[axis]
    if isinstance(key, slice):
        return *of_slice(x, axis, key), True
    if not is_whole(key):
        fail(
            f"the index {key!r}"[:60],
            "a tensor is indexed with whole numbers, slices, None and ...",
            "use numbers or slices, or an integer tensor for many positions",
            InvalidIndex,
        )
    at = plain(key)
    if isinstance(at, int) and isinstance(n, int) and not -n <= at < n and not _may_not_run(x):
        _outside(axis, at, n)
    return (n + at if isinstance(at, int) and at < 0 else at), 1, 1, False


def _may_not_run(x: Tensor) -> bool:
    """Says whether x has a size of 0 in a loop or branch, which may never come to its parts."""
    return x.trace.scope.parent is not None and any(_is(n, 0) for n in x.shape)


def _at_call(x: Tensor, sizes: Sequence[Any]) -> tuple:
    """The sizes of a part of x; those that an axis without elements has not are known at the call,
    which fails where it comes to the part."""
    if not _may_not_run(x):
        return tuple(sizes)
    trace = x.trace
    return tuple(trace.size(constant(trace, size, i64))
                 if _is(n, 0) and isinstance(size, int) and size else size
                 for n, size in zip(x.shape, map(plain, sizes), strict=True))  # fmt: skip


def _read(x: Tensor, offsets: list[int], sizes: Sequence[Any], steps: Sequence[int] = ()) -> int:
    """The part of x at these offsets."""
    at_call, b = _at_call(x, sizes), x.trace.here()
    value = b.view(x.value, offsets, at_call, steps)
    return b.reshape(value, tuple(sizes)) if _may_not_run(x) else value


def _changed(
    x: Tensor, value: int, offsets: list[int], sizes: Sequence[Any], steps: Sequence[int] = ()
) -> int:
    """The version of x with the value, of these sizes, at these offsets."""
    if _may_not_run(x):
        value = x.trace.here().reshape(value, _at_call(x, sizes))
    return x.trace.here().update(x.old(), value, offsets, steps)


def _outside(axis: int, at: Any, n: Any) -> NoReturn:
    fail(
        f"the index {at} of axis {axis}, which has the size {n}",
        "positions count from 0, or from the end from -1",
        f"use a position from {-n} to {n - 1}" if n else "an empty axis has no position",
        InvalidIndex,
    )


def _offsets(x: Tensor, offsets: list[Any]) -> list[int]:
    return [whole(x.trace, offset, "an offset").value for offset in offsets]


@method("__getitem__")
def index(x: Tensor, key: Key) -> Tensor:
    """x[i, :n, ::2, None]: a part of x; a number takes its axis out, None puts one of size 1 in.

    An element of an integer tensor is a number, which can be a position, a bound or a count. One
    integer tensor in the index names several positions, and its axes take the place of its own.

    Formula: y = x[key], as in NumPy
    Shapes: a number takes its axis out, a slice shortens it, None puts one in
    Example: x[1, :2]
    """
    if (chosen := positions_in(x, key)) is not None:
        rest, axis, positions = chosen
        return at_positions(index(x, rest), axis, positions)
    part = part_of(x, key)
    value = x.value
    if not part.is_whole:
        value = _read(x, _offsets(x, part.offsets), part.sizes, part.steps)
    if len(part.shape) != x.ndim or part.has_new_axes or part.is_whole:
        value = x.trace.here().reshape(value, tuple(part.shape))
    found = Tensor(x.trace, value, weak=x.weak)
    return as_number(found) if is_number(found) and not part.has_new_axes else found


@method("__setitem__")
def put(x: Tensor, key: Key, value: Operand) -> None:
    """x[i, :n] = value: puts x on a version with the value, which broadcasts, in the part.

    Formula: x[key] = value, as in NumPy
    Shapes: `value` broadcasts to the part
    Example:
        out = x.clone()
        out[0] = v
        return out
    """
    if isinstance(x, LocalTensor):
        keys = key if isinstance(key, tuple) else (key,)
        x.take_type(value, all(map(_is_all, keys)))
    check_writes(x)
    if (chosen := positions_in(x, key)) is not None:
        _put_at(x, value, *chosen)
        return
    part = part_of(x, key)
    if part.is_whole and _takes_elements(x, value):
        return
    if x.trace.short_writes and isinstance(value, Tensor) and not value.weak:
        part.begin_with(value)
    if part.has_new_axes:
        fail("an index with None on the left of =", "a new axis names no part of the tensor",
             "take None out", InvalidIndex)  # fmt: skip
    new = fitting(x, value, part.shape)
    if not part.is_whole:
        new = x.trace.here().reshape(new, tuple(part.sizes))
        new = _changed(x, new, _offsets(x, part.offsets), part.sizes, part.steps)
    replace(x, new)


def _takes_elements(x: Tensor, value: object) -> bool:
    """Writes a local tensor without elements into all of another of its type, if they are that."""
    if not (isinstance(x, LocalTensor) and isinstance(value, LocalTensor)):
        return False
    is_alike = x.dtype is value.dtype and x.ndim == value.ndim
    if value.has_elements or not is_alike or not all(map(same_size, x.shape, value.shape)):
        return False
    x.empty()
    return True


def _put_at(x: Tensor, value: object, rest: tuple, axis: int, positions: Tensor) -> None:
    """x[rest] = value at these positions along an axis of x[rest]; -1 writes nothing."""
    part = index(x, rest)
    shape = [*part.shape[:axis], *positions.shape, *part.shape[axis + 1 :]]
    given = Tensor(x.trace, fitting(x, value, shape))
    put(x, rest, put_at_positions("scatter", part, axis, positions, given))


def _box(x: Tensor, shape: Any, offsets: Any, name: str) -> tuple:
    shape, offsets = a_sequence(name, "the shape", shape), a_sequence(name, "offsets", offsets)
    if len(shape) != x.ndim or len(offsets) != x.ndim:
        fail(
            f"{name}: {len(shape)} sizes and {len(offsets)} offsets for a tensor of {x.ndim} axes",
            "a part has a size and an offset for each axis",
            "pass one for each",
        )
    return tuple(zip(shape, offsets, strict=True))


def view(
    x: Tensor, shape: Sequence[Whole], offsets: Sequence[Whole],
    valid_shape: Sequence[Whole] | None = None,
) -> Tensor:  # fmt: skip
    """The part of x with this shape, at these offsets: whole numbers, one for each axis.

    `valid_shape` says how much of the shape exists, where a part lies at the end of x: the result
    has that shape, at most the other one.

    Formula: y[i, j] = x[i + offsets[0], j + offsets[1]]
    Shapes: the result has `shape`, or `valid_shape`
    Example: pto.view(x, [2, 2], [0, 1])
    """
    must_be_traced("view", x, "slice an array: x[1:3]")
    box = _box(x, shape, offsets, "view")
    room = tuple(sized(x.trace, size, "view") for size, _ in box)
    if valid_shape is not None:
        valid = a_sequence("view", "the valid shape", valid_shape)
        for size, (most, _) in zip(valid, box, strict=False):
            if isinstance(size, int) and isinstance(most, int) and size > most:
                fail(
                    f"view: the valid shape {list(valid)} of a view of {list(shape)}",
                    "it is the part of the shape that exists",
                    "pass at most the shape",
                )
        box = _box(x, valid, offsets, "view")
    part = part_at(x, *zip(*box, strict=True)) if box else x
    return part if valid_shape is None else ShortPart(part, room)


def part_at(
    x: Tensor, shape: Sequence[Any], offsets: Sequence[Any], steps: Sequence[int] = ()
) -> Tensor:
    """The part of x with this shape at these offsets, some steps apart along each axis."""
    sizes = tuple(sized(x.trace, size, "view") for size in shape)
    return Tensor(x.trace, _read(x, _offsets(x, offsets), sizes, steps))


def put_at(into: Tensor, value: Tensor, offsets: Sequence[Any], steps: Sequence[int] = ()) -> None:
    """Puts `into` on a version with the value in the place of such a part."""
    new = fitting(into, value, list(value.shape))
    replace(into, _changed(into, new, _offsets(into, offsets), value.shape, steps))


def _viewed(x: Tensor, *given: Any, **others: Any) -> Tensor:
    """x.view(shape, offsets) is a part, x.view(*shape) a reshape as in PyTorch."""
    are_parts = len(given) > 1 and all(isinstance(one, list | tuple) for one in given[:2])
    return (
        view(x, *given, **others)
        if are_parts or "offsets" in others
        else reshape(x, *given, **others)
    )


Tensor.view = _viewed


def assemble(value: Tensor, offsets: Sequence[Whole], into: Tensor) -> None:
    """Puts `into` on a version with the value at these offsets; see view().

    Formula: into[i + offsets[0], j + offsets[1]] = value[i, j]
    Shapes: `value` has as many axes as `into`, and fits into it
    Example:
        out = x.clone()
        pto.assemble(y[:1, :2], [1, 1], out)
        return out
    """
    for x in (value, into):
        must_be_traced("assemble", x, "write into an array: out[1:3] = value")
    at = list(a_sequence("assemble", "offsets", offsets))
    if isinstance(into, LocalTensor):
        into.take_type(value, all(is_whole(one) and _is(plain(one), 0) for one in at))
    check_writes(into)
    _box(into, value.shape, at, "assemble")
    put_at(into, value, at)


def move(value: Tensor, into: Tensor) -> None:
    """Puts `into` on a version with the value, which broadcasts: into[:] = value.

    Formula: into[...] = value
    Shapes: `value` broadcasts to `into`
    Example:
        out = x.clone()
        pto.move(v, out)
        return out
    """
    for x in (value, into):
        must_be_traced("move", x, "write into an array: out[:] = value")
    put(into, ..., value)


def _moved(into: Tensor, value: Tensor) -> None:
    move(value, into)


Tensor.move = _moved  # the tensor's own: out.move(value)
