# SPDX-License-Identifier: Apache-2.0
"""Arrays in the memory that the workers of a host runtime share, and copies of private arrays.

    memory = SharedMemory(engine)
    handle = memory.alloc((4, 1024), "float32")       # a TensorHandle over shared memory
    copies = PrivateCopies(memory)                     # of one run
    copies.core(pto.Arg.input(private_array))          # an argument for the engine; copied in once
    copies.copy_back()                                 # at its end

A view of a shared array is shared. A private array is copied with the whole array that it is a view
of, so that overlapping views still overlap; what tasks wrote is copied back.
"""

import ctypes
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy

from pto import _core
from pto.errors import InvalidType, InvalidValue
from pto.tasks.arguments import Arg, ParamType, TensorHandle, as_numpy, check_storage, has_numbers

_MOST_BYTES = 2**63 - 1
_OF_PTO = {row.name: row.numpy for row in _core.dtypes()}  # names of element types


class SharedMemory:
    """Memory of one runtime; `closed` once that is closed."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.closed = engine, False

    def alloc(self, shape: Sequence[int], dtype: Any = "float32") -> TensorHandle:
        """A new tensor of zeros; the element type is a name, or NumPy's, PyTorch's or ours."""
        dims = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
        handle = None
        if all(type(n) is int and n >= 0 for n in dims):
            handle = TensorHandle(dims, _type_name(dtype))
        if handle is None or handle.nbytes > _MOST_BYTES:
            raise InvalidValue(
                f"alloc: the shape is {shape!r:.60}",
                "sizes are whole numbers of at least 0, and the bytes of all elements fit 63 bits",
                'pass a tuple of ints first: alloc((4, 1024), "float32")',
            )
        element = _numpy_type(handle.dtype)
        handle.data = self.engine.allocate(handle.nbytes).view(element).reshape(dims)
        handle.memory = self
        return handle

    def holds(self, array: numpy.ndarray) -> bool:
        return self.engine.holds(bounds_of(array)[0])


class Written(NamedTuple):
    """A part of a private array that tasks write: there, in its copy, and the tasks' ids."""

    mine: numpy.ndarray
    shared: numpy.ndarray
    tasks: list[int]


@dataclass(eq=False)
class Root:
    """A private array that is a view of no other, from `begin` to `end`, and its copy."""

    begin: int
    end: int
    copy: numpy.ndarray
    owner: Any  # keeps the array alive
    written: dict[tuple, Written] = field(default_factory=dict)
    users: list[int] = field(default_factory=list)  # tasks that read or write it
    lent: list[tuple[numpy.ndarray, numpy.ndarray]] = field(default_factory=list)

    def view_of(self, array: numpy.ndarray) -> numpy.ndarray:
        """The array's place in the copy."""
        return array_in(self.copy, address_of(array) - self.begin, array)


class PrivateCopies:
    """The shared copies of a run's private arrays; counts the bytes that it copies.

    Invariant: where a private array and its copy differ, the copy is newer, except for what is
    lent: from wait() to the next task that uses it, an array belongs to the orchestration.
    """

    def __init__(self, memory: SharedMemory) -> None:
        self.copied_in = self.copied_out = 0
        self._memory = memory
        self._roots: list[Root] = []  # by their addresses, which never overlap
        self._begins: list[int] = []  # of each root

    def core(self, arg: Arg, tasks: list[list[int]] | None = None) -> tuple[int, Any, str]:
        """The argument for the engine.

        Adds lists of ids to `tasks` for a private array: the caller adds its task to each.
        """
        if arg.type == ParamType.SCALAR:
            return arg.as_core()
        data = arg.data
        if isinstance(data, TensorHandle):
            data._check_backing()
            self._check_owner(data)
            data = data.data
        array, is_bfloat = numpy_of(data)
        if array.size and not self._memory.holds(array):
            array = self._shared(array, arg.type, tasks)
        elif not array.size:
            array = self._memory.engine.allocate(1)[:0].view(array.dtype).reshape(array.shape)
        return Arg.core_array(arg.type, array, is_bfloat)

    def wait(self, what: Any) -> bool:
        """Waits for the writers of an array and copies a private one back; False if one failed."""
        succeeded = self._memory.engine.wait_array([self.core(Arg.input(what))])
        array, _ = numpy_of(what.data if isinstance(what, TensorHandle) else what)
        low, high = bounds_of(array)
        root = self._root_around(low, high)
        if root is not None and low < high:
            self._copy_back(root, low, high)
            if succeeded:
                root.lent.append((array, root.view_of(array)))
        return succeeded

    def copy_back(self) -> None:
        """Copies back, after the run, what tasks wrote if no writer failed."""
        for root in self._roots:
            self._copy_back(root, root.begin, root.end)

    def _has_succeeded(self, written: Written) -> bool:
        engine, tasks = self._memory.engine, written.tasks
        tasks[:-1] = [t for t in tasks[:-1] if not (engine.is_done(t) and engine.has_succeeded(t))]
        return all(map(engine.has_succeeded, tasks))

    def _target(self, written: Written) -> numpy.ndarray:
        """The array to which it is copied back."""
        return written.mine

    def _check_owner(self, handle: TensorHandle) -> None:
        if handle.memory is not None and handle.memory is not self._memory:
            state = "was closed" if handle.memory.closed else "is another one"
            raise InvalidValue(
                f"tensor {handle.id}, {handle.dtype}{list(handle.shape)}, is of a runtime that "
                f"{state}",
                "the workers of a runtime see only the memory of that runtime",
                "allocate it by this runtime, or pass handle.numpy(), which is copied",
            )

    def _shared(
        self, array: numpy.ndarray, kind: ParamType, tasks: list[list[int]] | None
    ) -> numpy.ndarray:
        if kind != ParamType.INPUT and not array.flags.writeable:
            raise InvalidValue(
                f"an array of shape {array.shape} is read-only", "the task writes it",
                "pass an array that can be written, or Arg.input",
            )  # fmt: skip
        root = self._root_of(array, kind)
        self._take_back(root, *bounds_of(array))
        view = root.view_of(array)
        if tasks is not None:
            tasks.append(root.users)
        if kind != ParamType.INPUT:
            key = (address_of(array), array.shape, array.strides, array.dtype.str)
            written = root.written.setdefault(key, Written(array, view, []))
            if tasks is not None:
                tasks.append(written.tasks)
        return view

    # --- roots -----------------------------------------------------------------------------------

    def _root_around(self, low: int, high: int) -> Root | None:
        """The root that holds these bytes."""
        place = bisect_right(self._begins, low) - 1
        return self._roots[place] if place >= 0 and high <= self._roots[place].end else None

    def _root_of(self, array: numpy.ndarray, kind: ParamType) -> Root:
        low, high = bounds_of(array)
        return self._root_around(low, high) or self._new_root(array, kind)

    def _new_root(self, array: numpy.ndarray, kind: ParamType) -> Root:
        begin, end, owner = _whole(array)
        place = bisect_right(self._begins, begin)
        for other in self._roots[max(place - 1, 0) : place + 1]:
            if begin < other.end and other.begin < end:
                raise InvalidValue(
                    f"two private arrays share {min(end, other.end) - max(begin, other.begin)} "
                    "bytes, and neither is a view of the other",
                    "each is copied as a whole to memory that the workers see",
                    "pass views of one array, or make the tensor by alloc()",
                )
        root = Root(begin, end, self._memory.engine.allocate(end - begin), owner)
        covers_all = bounds_of(array) == (begin, end) and array.nbytes == end - begin
        if not (kind == ParamType.OUTPUT and covers_all):
            self._copy_in(root, begin, begin, end - begin)
        self._roots.insert(place, root)
        self._begins.insert(place, begin)
        return root

    # --- copying ---------------------------------------------------------------------------------

    def _copy_in(self, root: Root, to: int, source: int, count: int) -> None:
        """Copies `count` bytes from an address to the copy of address `to`."""
        ctypes.memmove(root.copy.ctypes.data + to - root.begin, source, count)
        self.copied_in += count

    def _take_back(self, root: Root, low: int, high: int) -> None:
        """Ends what was lent of these bytes, since a task is to use them."""
        if not root.lent:
            return
        self._renew(root)
        root.lent = [one for one in root.lent if not _touches(one[0], low, high)]

    def _renew(self, root: Root) -> None:
        """Copies in what the orchestration has written to what is lent."""
        for mine, shared in root.lent:
            if numpy.array_equal(_bytes_of(mine), _bytes_of(shared)):
                continue
            for task in root.users:  # one that reads it shall read what it was submitted with
                if not self._memory.engine.is_done(task):
                    self._memory.engine.wait_task(task)
            root.users.clear()
            numpy.copyto(shared, mine)
            self.copied_in += mine.nbytes

    def _copy_back(self, root: Root, low: int, high: int) -> None:
        """Copies back what tasks wrote of these bytes."""
        self._renew(root)
        for one in root.written.values():
            if one.tasks and _touches(one.mine, low, high) and self._has_succeeded(one):
                numpy.copyto(self._target(one), one.shared)
                self.copied_out += one.mine.nbytes


def numpy_of(data: Any) -> tuple[numpy.ndarray, bool]:
    """The array as NumPy sees it, and whether its 16-bit numbers are bfloat16."""
    if isinstance(data, numpy.ndarray):
        is_bfloat = data.dtype.isbuiltin != 1 and data.dtype.name == "bfloat16"
        return (data.view("uint16") if is_bfloat else data), is_bfloat
    if type(data).__module__.partition(".")[0] == "torch":
        check_storage(data)
        is_bfloat = str(data.dtype) == "torch.bfloat16"
        try:
            return (data.view(sys.modules["torch"].int16) if is_bfloat else data).numpy(), is_bfloat
        except TypeError:
            raise InvalidType(
                f"a torch tensor of {data.dtype}", "tasks get NumPy's arrays, without such a type",
                "pass its bits, x.view(torch.uint8), or x.float()",
            ) from None  # fmt: skip
    return as_numpy(data), False


def _type_name(dtype: Any) -> str:
    """NumPy's name of an element type, or the text of what is none."""
    if isinstance(dtype, type | numpy.dtype):
        try:
            return str(numpy.dtype(dtype))
        except TypeError:
            return str(dtype)
    name = str(dtype).rpartition(".")[2]
    return _OF_PTO.get(name, name)


def _numpy_type(name: str) -> Any:
    if name != "bfloat16":
        element = numpy.dtype(name)
        if not has_numbers(element):
            raise InvalidType(
                f"alloc: the element type is {name!r:.60}",
                "tasks of other processes read numbers where they lie",
                'pass a type of numbers, such as "float32"',
            )
        return element
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        raise InvalidType(
            "alloc: bfloat16 needs ml_dtypes", "NumPy has no such element type",
            "run: pip install ml_dtypes; or use float32",
        ) from None  # fmt: skip
    return numpy.dtype(ml_dtypes.bfloat16)


def address_of(array: numpy.ndarray) -> int:
    """The address of the first element."""
    return array.__array_interface__["data"][0]


def array_in(memory: Any, offset: int, like: numpy.ndarray) -> numpy.ndarray:
    """An array like another one, whose first element lies at this offset of the memory."""
    return numpy.ndarray(like.shape, like.dtype, memory, offset, like.strides)


def bounds_of(array: numpy.ndarray) -> tuple[int, int]:
    """The addresses from the array's lowest byte to past its highest."""
    low = high = address_of(array)
    for size, stride in zip(array.shape, array.strides, strict=True):
        if size == 0:
            return low, low
        reach = (size - 1) * stride
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high + array.itemsize


def _whole(array: numpy.ndarray) -> tuple[int, int, Any]:
    """The bytes of the array that this one is a view of."""
    root = array
    while isinstance(root.base, numpy.ndarray):
        root = root.base
    if hasattr(root.base, "untyped_storage"):  # a torch tensor's
        storage = root.base.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes(), storage
    begin, end = bounds_of(root)
    low, high = bounds_of(array)
    return (begin, end, root) if begin <= low and high <= end else (low, high, array)


def _touches(array: numpy.ndarray, low: int, high: int) -> bool:
    begin, end = bounds_of(array)
    return begin < high and low < end


def _bytes_of(array: numpy.ndarray) -> numpy.ndarray:
    """The bytes of all elements; a copy only where they do not lie one after another."""
    return numpy.ascontiguousarray(array).reshape(-1).view("u1")
