# SPDX-License-Identifier: Apache-2.0
"""Arrays in the memory that the workers of a host runtime share, and copies of private arrays.

    memory = SharedMemory(engine)
    handle = memory.alloc((4, 1024), "float32")       # a TensorHandle over shared memory
    copies = PrivateCopies(memory)                     # of one run
    copies.core(pto.Arg.input(private_array))          # an argument for the engine; copied in once
    copies.copy_back(succeeded)

A view of a shared array is shared. A private array is copied with the whole array that it is a view
of, so that overlapping views still overlap; what tasks wrote is copied back.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from pto.errors import InvalidType, InvalidValue
from pto.tasks.arguments import Arg, ParamType, TensorHandle, as_numpy, check_storage, has_numbers

_MOST_BYTES = 2**63 - 1


class SharedMemory:
    """Memory of one runtime; `closed` once that is closed."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.closed = engine, False

    def alloc(self, shape: Sequence[int], dtype: str = "float32") -> TensorHandle:
        """A new tensor of zeros."""
        dims = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
        handle = None
        if all(type(n) is int and n >= 0 for n in dims):
            handle = TensorHandle(dims, str(dtype).rpartition(".")[2])
        if handle is None or handle.nbytes > _MOST_BYTES:
            raise InvalidValue(
                f"alloc: the shape is {shape!r:.60}",
                "sizes are whole numbers of at least 0, and the bytes of all elements fit 63 bits",
                "pass a tuple of ints",
            )
        element = _numpy_type(handle.dtype)
        handle.data = self.engine.allocate(handle.nbytes).view(element).reshape(dims)
        handle.memory = self
        return handle

    def holds(self, array: numpy.ndarray) -> bool:
        return self.engine.holds(bounds_of(array)[0])


class PrivateCopies:
    """The shared copies of a run's private arrays; counts the bytes that it copies."""

    def __init__(self, memory: SharedMemory) -> None:
        self.copied_in = self.copied_out = 0
        self._memory = memory
        self._roots: list[tuple[int, int, numpy.ndarray, Any]] = []  # begin, end, copy, keeps alive
        self._written: dict[tuple, tuple[numpy.ndarray, numpy.ndarray, list[int]]] = {}

    def core(self, arg: Arg, tasks: list[list[int]] | None = None) -> tuple[int, Any, str]:
        """The argument for the engine.

        Adds a list of ids to `tasks` for each private array that is written: the caller fills in
        the tasks that write it.
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
        view = self.view_of(array, kind)
        if kind != ParamType.INPUT:
            address = array.__array_interface__["data"][0]
            key = (address, array.shape, array.strides, array.dtype.str)
            writers = self._written.setdefault(key, (array, view, []))[2]
            if tasks is not None:
                tasks.append(writers)
        return view

    def _root(self, array: numpy.ndarray, kind: ParamType) -> tuple[int, numpy.ndarray]:
        low, high = bounds_of(array)
        for begin, end, copy, _ in self._roots:
            if begin <= low and high <= end:
                return begin, copy
        begin, end, owner = _whole(array)
        for other, other_end, _, _ in self._roots:
            if begin < other_end and other < end:
                raise InvalidValue(
                    f"two private arrays share {min(end, other_end) - max(begin, other)} bytes, "
                    "and neither is a view of the other",
                    "each is copied as a whole to memory that the workers see",
                    "pass views of one array, or make the tensor by alloc()",
                )
        copy = self._memory.engine.allocate(end - begin)
        covers_all = low == begin and high == end and array.nbytes == end - begin
        if not (kind == ParamType.OUTPUT and covers_all):
            ctypes.memmove(copy.ctypes.data, begin, end - begin)
            self.copied_in += end - begin
        self._roots.append((begin, end, copy, owner))
        return begin, copy

    def view_of(self, array: numpy.ndarray, kind: ParamType = ParamType.INPUT) -> numpy.ndarray:
        """The array's place in the copy."""
        begin, copy = self._root(array, kind)
        offset = array.__array_interface__["data"][0] - begin
        return numpy.ndarray(array.shape, array.dtype, copy, offset, array.strides)

    def is_written(self, view: numpy.ndarray) -> bool:
        """Says whether tasks write into this part of a copy."""
        low, high = bounds_of(view)
        parts = [bounds_of(shared) for _, shared, _ in self._written.values()]
        return any(begin < high and low < end for begin, end in parts)

    def refresh(self, first: int) -> None:
        """Copies in again the arrays from the `first` one on."""
        for begin, end, copy, _ in self._roots[first:]:
            ctypes.memmove(copy.ctypes.data, begin, end - begin)
            self.copied_in += end - begin

    def __len__(self) -> int:
        """The number of copied arrays."""
        return len(self._roots)

    def copy_back(self, succeeded: Callable[[int], bool], within: Any = None) -> None:
        """Copies back, of all arrays or of one, what tasks wrote if no writer failed."""
        low, high = bounds_of(numpy_of(within)[0]) if within is not None else (0, 2**64)
        for mine, shared, tasks in self._written.values():
            begin, end = bounds_of(mine)
            if begin < high and low < end and tasks and all(map(succeeded, tasks)):
                numpy.copyto(mine, shared)
                self.copied_out += mine.nbytes


def numpy_of(data: Any) -> tuple[numpy.ndarray, bool]:
    """The array as NumPy sees it, and whether its 16-bit numbers are bfloat16."""
    if isinstance(data, numpy.ndarray):
        is_bfloat = data.dtype.isbuiltin != 1 and data.dtype.name == "bfloat16"
        return (data.view("uint16") if is_bfloat else data), is_bfloat
    if type(data).__module__.partition(".")[0] == "torch":
        check_storage(data)
        is_bfloat = str(data.dtype) == "torch.bfloat16"
        return (data.view(sys.modules["torch"].int16) if is_bfloat else data).numpy(), is_bfloat
    return as_numpy(data), False


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


def bounds_of(array: numpy.ndarray) -> tuple[int, int]:
    """The addresses from the array's lowest byte to past its highest."""
    low = high = array.__array_interface__["data"][0]
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
