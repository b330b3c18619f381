# SPDX-License-Identifier: Apache-2.0
"""The arguments of a graph at level host, and its copies of private arrays: each replay fills them.

    arguments = GraphArguments(args, memory)
    copies = RecordedCopies(memory, arguments)     # the orchestration's tasks use them
    copies.end_capture()
    copies.fit(others)                             # else the graph captures anew
    copies.begin_replay(others)                    # copies in
    copies.end_replay(succeeded)                   # copies back

Arrays of the arguments that overlap, directly or through others, form a group: a run of bytes that
may lie elsewhere in each replay, and all that tasks use in it with it. Arrays that the
orchestration has from elsewhere stay where they are; one that holds a group binds it to its place.
"""

import ctypes
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy

from pto.errors import InvalidValue
from pto.tasks.arguments import Arg, ParamType, TensorHandle
from pto.tasks.shared import (
    PrivateCopies,
    Root,
    SharedMemory,
    Written,
    address_of,
    array_in,
    bounds_of,
    numpy_of,
)

Bytes = tuple[int, int]  # the addresses of the first, and past the last
Place = tuple[int, int] | None  # the group and the offset in it; None for an array without elements


class GraphArguments:
    """The arrays in the arguments of a capture or replay.

    `key` is equal where a replay may go on; `shared` and `private` are the groups, each kind in the
    order of their first arrays.
    """

    def __init__(self, args: Any, memory: SharedMemory) -> None:
        self._memory = memory
        self._shared_arrays: list[numpy.ndarray] = []
        self.private_arrays: list[numpy.ndarray] = []
        structure = self._key_of(args)
        self.shared, shared_places = _groups(self._shared_arrays)
        self.private, self._places = _groups(self.private_arrays)
        self.key = structure, shared_places, self._places

    def check_writable(self, group: int, low: int, high: int) -> None:
        """Raises InvalidValue if these bytes of a private group lie only in read-only arrays."""
        refused = None
        for array, place in zip(self.private_arrays, self._places, strict=True):
            if place is None or place[0] != group:
                continue
            begin, end = bounds_of(array)
            begin, end = place[1], place[1] + end - begin
            if array.flags.writeable and begin <= low and high <= end:
                return
            if not array.flags.writeable and begin < high and low < end:
                refused = array
        if refused is not None:
            raise InvalidValue(
                f"replay: an array of shape {refused.shape} is read-only",
                "a task of the graph writes it",
                "pass an array that can be written, or a copy of it",
            )

    def has_read_only(self) -> bool:
        return not all(array.flags.writeable for array in self.private_arrays)

    def _key_of(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return "dict", tuple((k, self._key_of(v)) for k, v in value.items())
        if isinstance(value, list | tuple):
            return "list", tuple(map(self._key_of, value))
        if isinstance(value, Arg) and value.type == ParamType.SCALAR:
            return "scalar", tuple(map(self._key_of, value.as_core()))
        if isinstance(value, Arg):
            return "arg", value.type, self._key_of(value.data)
        if is_dataclass(value) and not isinstance(value, type):
            return type(value), tuple(
                self._key_of(getattr(value, f.name, None)) for f in fields(value)
            )
        bits = _bits_of(value)
        if bits is not None:
            return type(value), bits
        array, is_bfloat = _array_of(value.data if isinstance(value, TensorHandle) else value)
        if array is None:
            return type(value), _Other(value)
        is_shared = bool(array.size) and self._memory.holds(array)
        (self._shared_arrays if is_shared else self.private_arrays).append(array)
        return "array", array.shape, array.strides, array.dtype.str, is_bfloat, is_shared


class _Other:
    """A value that is neither number nor array: the same object, or an equal one."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        mine, others = self._value, other._value if isinstance(other, _Other) else other
        try:
            return mine is others or bool(mine == others)
        except Exception:  # noqa: BLE001 a user's __eq__ may raise anything, or return an array
            return False


class RecordedCopies(PrivateCopies):
    """Copies of a capture; a replay's groups take the places of the capture's."""

    def __init__(self, memory: SharedMemory, arguments: GraphArguments) -> None:
        super().__init__(memory)
        self._key, self._groups = arguments.key, arguments.private
        self._order = sorted(range(len(self._groups)), key=self._groups.__getitem__)
        self._lows = [self._groups[i][0] for i in self._order]
        self._fixed: list[Root] = []  # those of which tasks use more than groups
        self._outside: set[Root] = set()  # the same, while they are found
        self._bound: list[int | None] = []  # the place of each group in one of those
        self._now: GraphArguments | None = None  # of the replay that goes on
        self._succeeded = False
        for array in arguments.private_arrays:
            if array.size:
                super()._root_of(array, ParamType.INPUT)

    def end_capture(self) -> None:
        """Notes which roots the orchestration has used; no task comes any more."""
        self._fixed = [root for root in self._roots if root in self._outside]
        self._bound = [self._fixed_place(group) for group in self._groups]

    def fit(self, arguments: GraphArguments) -> bool:
        """Says whether a replay on these arguments does what the orchestration would."""
        places = map(self._fixed_place, arguments.private)
        return arguments.key == self._key and list(places) == self._bound

    def begin_replay(self, arguments: GraphArguments) -> None:
        """Copies in; raises InvalidValue instead if a task writes a read-only array."""
        self._now = arguments
        if arguments.has_read_only():
            self._check_writable()
        self.copied_in = self.copied_out = 0
        for root in self._fixed:
            self._copy_in(root, root.begin, root.begin, root.end - root.begin)
        for group, now, bound in zip(self._groups, arguments.private, self._bound, strict=True):
            root = self._root_around(*group)
            if bound is None and root is not None:
                self._copy_in(root, group[0], now[0], now[1] - now[0])

    def end_replay(self, succeeded: bool) -> None:
        """Copies back; `succeeded` if all tasks have."""
        self._succeeded = succeeded
        self.copy_back()
        self._now = None

    # --- inside ----------------------------------------------------------------------------------

    def _root_of(self, array: numpy.ndarray, kind: ParamType) -> Root:
        root = super()._root_of(array, kind)
        if self._group_around(array) is None:
            self._outside.add(root)
        return root

    def _group_around(self, array: numpy.ndarray) -> int | None:
        low, high = bounds_of(array)
        place = bisect_right(self._lows, low) - 1
        if place < 0 or high > self._groups[self._order[place]][1]:
            return None
        return self._order[place]

    def _fixed_place(self, group: Bytes) -> int | None:
        """The address of a group that shares memory with a root of the orchestration's own."""
        low, high = group
        place = bisect_left(self._fixed, low + 1, key=lambda root: root.end)
        is_there = place < len(self._fixed) and self._fixed[place].begin < high
        return low if is_there else None

    def _check_writable(self) -> None:
        for root in self._roots:
            for mine, _, _ in root.written.values():
                group = self._group_around(mine)
                if group is not None:
                    low, high = (n - self._groups[group][0] for n in bounds_of(mine))
                    self._now.check_writable(group, low, high)

    def _has_succeeded(self, written: Written) -> bool:
        reads = Arg.core_array(ParamType.INPUT, written.shared, False)
        return self._succeeded or self._memory.engine.wait_array([reads])

    def _target(self, written: Written) -> numpy.ndarray:
        mine = written.mine
        group = self._group_around(mine)
        if group is None or self._bound[group] is not None:
            return mine
        (low, high), now = self._groups[group], self._now.private[group]
        memory = (ctypes.c_char * (high - low)).from_address(now[0])
        return array_in(memory, address_of(mine) - low, mine)


def _groups(arrays: list[numpy.ndarray]) -> tuple[list[Bytes], tuple[Place, ...]]:
    """The groups of arrays that overlap, and the place of each array."""
    bounds = list(map(bounds_of, arrays))
    found: list[tuple[int, int, list[int]]] = []
    for i in sorted(range(len(arrays)), key=bounds.__getitem__):
        low, high = bounds[i]
        if low == high:
            continue
        if found and low < found[-1][1]:
            begin, end, members = found[-1]
            members.append(i)
            found[-1] = begin, max(end, high), members
        else:
            found.append((low, high, [i]))
    found.sort(key=lambda one: min(one[2]))
    places: list[Place] = [None] * len(arrays)
    for group, (begin, _, members) in enumerate(found):
        for i in members:
            places[i] = group, bounds[i][0] - begin
    return [(begin, end) for begin, end, _ in found], tuple(places)


def _bits_of(value: Any) -> Any:
    """The bits of a number: -0.0 differs from 0.0, and a NaN equals itself; None for others."""
    if isinstance(value, numpy.generic):
        return value.dtype.str, value.tobytes()
    if isinstance(value, ctypes._SimpleCData):
        return bytes(value)
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, complex):
        return struct.pack("dd", value.real, value.imag)
    return None


def _array_of(value: Any) -> tuple[numpy.ndarray | None, bool]:
    """The array as NumPy sees it, or None; and whether it is of bfloat16."""
    if hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        return numpy_of(value)
    if isinstance(value, bytes):  # never written: compared by its value
        return None, False
    try:
        memoryview(value)
    except TypeError:
        return None, False
    return numpy_of(value)
