# SPDX-License-Identifier: Apache-2.0
"""Arguments of a run: arrays, which stay where they are, and numbers with a type.

    args = [pto.Arg.input(x), pto.Arg.output(y), pto.Arg.scalar(0.5, dtype="float32")]

An array is a NumPy array, a torch tensor, anything with DLPack or the buffer protocol, or a
TensorHandle. A view counts with its strides; nothing is copied. A number that its type cannot hold
is an error; it is rounded only to a floating-point type that was asked for by name.
"""

import ctypes
import itertools
import math
from enum import IntEnum
from typing import Any, NoReturn

from pto import _core
from pto.errors import InvalidType, InvalidValue


class ParamType(IntEnum):
    """The use of an argument by an orchestration."""

    SCALAR = 0
    INPUT = 1
    OUTPUT = 2
    INOUT = 3


_ids = itertools.count(1)


class TensorHandle:
    """A tensor by its name: an id of this process, shape, element type and bytes.

    Without `data` it has no memory yet. Indexing gives a view: the same id, other elements.
    An id is made unless given; `size`, if given, must be the bytes of all elements.
    """

    __slots__ = ("id", "shape", "dtype", "nbytes", "data", "memory")

    def __init__(
        self, shape: tuple[int, ...], dtype: str = "float32", data: Any = None, *,
        id: int | None = None, size: int | None = None,
    ) -> None:  # fmt: skip
        import numpy

        sizes = shape if isinstance(shape, tuple | list) else (None,)
        if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in sizes):
            raise InvalidType(
                f"TensorHandle: the shape is {shape!r:.60}",
                "a shape is a tuple of sizes, none of them negative",
                "pass a tuple of ints, such as (16, 256)",
            )
        self.id = next(_ids) if id is None else id
        self.shape, self.dtype = tuple(sizes), str(dtype)
        try:
            itemsize = 2 if self.dtype == "bfloat16" else numpy.dtype(self.dtype).itemsize
        except (TypeError, ValueError):
            raise InvalidType(
                f"TensorHandle: unknown element type {dtype!r:.60}",
                "an element type is a name of NumPy's, or bfloat16",
                'pass a name such as "float32"',
            ) from None
        self.nbytes, self.data = math.prod(self.shape) * itemsize, data
        self.memory: Any = None  # the runtime that allocated it
        if size is not None and size != self.nbytes:
            raise InvalidValue(
                f"TensorHandle: size={size} of {self.dtype}{list(self.shape)}",
                f"size counts the bytes of all elements, here {self.nbytes}",
                "pass that, or leave it out",
            )

    @property
    def size(self) -> int:
        """The bytes of all elements, as nbytes."""
        return self.nbytes

    @classmethod
    def of(cls, array: Any) -> "TensorHandle":
        """The handle of an array; it keeps the array alive."""
        _check_array("TensorHandle.of", array)
        shape, dtype = _about(array)
        return cls(shape, dtype, array)

    def numpy(self) -> Any:
        """The elements as a NumPy array, where they lie."""
        self._check_backing()
        import numpy

        data = self.data.numpy() if hasattr(self.data, "numpy") else self.data
        return numpy.asarray(data)

    def __getitem__(self, key: Any) -> "TensorHandle":
        self._check_backing()
        view = TensorHandle.of(self.data[key])
        view.id, view.memory = self.id, self.memory
        return view

    def _check_backing(self) -> None:
        if self.data is None:
            raise InvalidValue(
                f"tensor {self.id}, {self.dtype}{list(self.shape)}, has no memory behind it",
                "no call in this process made this tensor",
                "make it of an array: TensorHandle.of(array)",
            )

    def __repr__(self) -> str:
        return f"<TensorHandle {self.id}: {self.dtype}{list(self.shape)}>"


class Arg:
    """One argument of a run: its ParamType, the array or number, and its bytes."""

    __slots__ = ("type", "data", "size", "dtype", "_core", "_kind")

    def __init__(self, type: ParamType, data: Any, size: int = 0, dtype: str = "") -> None:
        self.type = type if type.__class__ is ParamType else _param_type(type)
        self.data, self._core = data, None
        if data.__class__ is TensorHandle and self.type is not ParamType.SCALAR:
            self.dtype, self.size = data.dtype, size or data.nbytes
            return
        if self.type is ParamType.SCALAR:
            if isinstance(data, ctypes._SimpleCData):
                data, dtype = _of_ctypes(data, dtype)
            self.data, self.dtype = _typed_number(data, dtype)
            # A double counts as one by its bits too if the caller asked for that type.
            self._kind = "real" if self.dtype == "float64" and not dtype else self.dtype
            self.size = size or _NUMBERS[self.dtype]
            return
        _check_array(f"Arg.{self.type.name.lower()}", data)
        self.dtype = _about(data)[1]
        self.size = size or _nbytes(data)

    @classmethod
    def input(cls, array: Any) -> "Arg":
        """An array that is read."""
        return cls(ParamType.INPUT, array)

    @classmethod
    def output(cls, array: Any) -> "Arg":
        """An array that is written, whatever it held."""
        return cls(ParamType.OUTPUT, array)

    @classmethod
    def inout(cls, array: Any) -> "Arg":
        """An array that is read and written."""
        return cls(ParamType.INOUT, array)

    @classmethod
    def scalar(cls, value: Any, dtype: str = "") -> "Arg":
        """A number: an int is an int64, a float a float64, one of NumPy or ctypes keeps its type.

        `dtype` chooses: int64, float32, float64 or bfloat16.
        """
        return cls(ParamType.SCALAR, value, 0, dtype)

    def as_core(self) -> tuple[int, Any, str]:
        """The argument as the engine takes it."""
        data = self.data
        if data.__class__ is TensorHandle:
            data._check_backing()
            data = data.data
        if hasattr(data, "untyped_storage"):
            check_storage(data)  # it may have been resized since
        if self._core is None:
            self._core = self._as_core(data)
        return self._core

    def _as_core(self, data: Any) -> tuple[int, Any, str]:
        if self.type == ParamType.SCALAR:
            return int(self.type), data, self._kind
        if not hasattr(data, "__dlpack__") and not hasattr(data, "dtype"):
            data = as_numpy(data)  # through the buffer protocol only
        return self.core_array(self.type, data, self.dtype == "bfloat16")

    @staticmethod
    def core_array(type: ParamType, array: Any, is_bfloat16: bool) -> tuple[int, Any, str]:
        """An array as the engine takes it; NumPy's bfloat16 may come as its bits."""
        if is_bfloat16 and array.__class__.__module__ == "numpy":
            return int(type), array.view("uint16"), "bfloat16"
        return int(type), array, ""

    def __repr__(self) -> str:
        kind = self.type.name.lower()
        if self.type == ParamType.SCALAR:
            return f"Arg.scalar({self.data!r}, dtype={self.dtype!r})"
        return f"<Arg.{kind}: {self.dtype}{list(_about(self.data)[0])}, {self.size} bytes>"


def check_arg(where: str, given: Any) -> None:
    """Raises InvalidType for an argument that is no Arg."""
    if not isinstance(given, Arg):
        raise InvalidType(
            f"{where} is of type {type(given).__name__}",
            "an argument says whether it is read or written",
            "wrap it: pto.Arg.input(x), output(x), inout(x) or scalar(x)",
        )


def _param_type(given: Any) -> ParamType:
    try:
        return ParamType(given)
    except (ValueError, TypeError):
        known = ", ".join(f"ParamType.{one.name} ({int(one)})" for one in ParamType)
        raise InvalidValue(
            f"Arg: unknown type {given!r:.60}", f"the types are {known}",
            "write Arg.input(x), Arg.output(x), Arg.inout(x) or Arg.scalar(v)",
        ) from None  # fmt: skip


# --- numbers -------------------------------------------------------------------------------------

_NUMBERS = {"int64": 8, "float32": 4, "float64": 8, "bfloat16": 2}  # bytes
_FLOATS = {"float32": (24, -149, 127), "bfloat16": (8, -133, 127)}  # precision, exponents
_KEPT = {row.numpy: "int64" for row in _core.dtypes() if row.kind != "float"}
_KEPT |= {n: n for n in _NUMBERS}


def _of_ctypes(value: Any, dtype: str) -> tuple[Any, str]:
    """The number inside, with the type that ctypes.c_float or c_double asks for by its name."""
    named = {ctypes.c_float: "float32", ctypes.c_double: "float64"}.get(type(value), "")
    number = value.value
    return (number if isinstance(number, int | float) else value), dtype or named


def _typed_number(value: Any, dtype: str) -> tuple[int | float, str]:
    if dtype.__class__ is not str:
        dtype = str(dtype)
    if value.__class__ is int and dtype in ("", "int64") and -(2**63) <= value < 2**63:
        return value, "int64"
    if value.__class__ is float and dtype in ("", "float64"):
        return value, "float64"
    own = getattr(value, "dtype", None)
    shape = getattr(value, "shape", ())
    if own is not None and shape == ():
        kind = _KEPT.get(str(own).rpartition(".")[2], "")
    else:
        kind = "int64" if isinstance(value, int) else "float64" * isinstance(value, float)
    if not kind:
        raise InvalidType(
            f"Arg.scalar: {_described(value)}",
            "a scalar is an int, a float or one of NumPy's or ctypes' of a type that is kept "
            "exactly: integers, float32, float64, bfloat16",
            "convert it: int(x), float(x), numpy.float32(x); pass an array as Arg.input",
        )
    if dtype not in ("", *_NUMBERS):
        raise InvalidType(
            f"Arg.scalar: unknown dtype {dtype!r}",
            "a scalar has one of four types",
            f"pass dtype= one of {', '.join(_NUMBERS)}",
        )
    number = int(value) if kind == "int64" else float(value)
    return _converted(number, dtype or kind), dtype or kind


def _converted(number: int | float, dtype: str) -> int | float:
    if dtype == "int64":
        if isinstance(number, float) and not number.is_integer():
            _refuse_number(number, dtype, "it is not whole", "round it first, or pass a float")
        if not -(2**63) <= number < 2**63:
            _refuse_number(number, dtype, "an int64 lies between -2**63 and 2**63 - 1",
                           "pass it as a float, or in an array")  # fmt: skip
        return int(number)
    if isinstance(number, int) and int(_rounded(number, dtype)) != number:
        _refuse_number(number, dtype, "the nearest number of that type is another one",
                       "pass float(x) if rounding is meant")  # fmt: skip
    return _rounded(number, dtype)


def _rounded(number: int | float, dtype: str) -> float:
    """The nearest number of the type, ties to even."""
    try:
        value = float(number)
    except OverflowError:
        _refuse_number(number, dtype, "it is too large", "scale it")
    if dtype == "float64" or value == 0 or not math.isfinite(value):
        return value
    precision, lowest, highest = _FLOATS[dtype]
    quantum = math.ldexp(1.0, max(math.frexp(value)[1] - precision, lowest))
    result = math.copysign(round(value / quantum) * quantum, value)
    if abs(result) >= 2.0 ** (highest + 1):
        _refuse_number(number, dtype, "it is too large", "scale it, or pass a float64")
    return result


def _refuse_number(number: int | float, dtype: str, why: str, fix: str) -> NoReturn:
    raise InvalidValue(f"Arg.scalar: {number} as {dtype}", why, fix)


# --- arrays --------------------------------------------------------------------------------------


def _check_array(call: str, value: Any) -> None:
    if isinstance(value, TensorHandle):
        return
    fix = "pass a NumPy array, a torch tensor, or a TensorHandle; a number as Arg.scalar"
    is_array = hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")
    if not is_array:
        try:
            memoryview(value)
        except TypeError:
            raise InvalidType(
                f"{call}: {_described(value)}",
                "an argument lies in memory that tasks share: an array with DLPack or the "
                "buffer protocol",
                fix,
            ) from None
    if not _is_on_cpu(value):
        raise InvalidValue(
            f"{call}: a tensor on device {getattr(value, 'device', 'unknown')}",
            "tasks run on this machine's cores",
            "move it: x.cpu()",
        )
    if getattr(value, "requires_grad", False) is True:
        raise InvalidValue(
            f"{call}: a tensor that requires grad",
            "a run has no gradient, and the result would silently lose it",
            "pass x.detach()",
        )
    layout = str(getattr(value, "layout", ""))
    if layout.startswith("torch.") and layout != "torch.strided":
        raise InvalidValue(
            f"{call}: a tensor of layout {layout}",
            "tasks read each element where it lies, also one that is zero",
            "convert it: x.to_dense()",
        )
    if hasattr(value, "resolve_neg") and (value.is_conj() or value.is_neg()):
        raise InvalidValue(
            f"{call}: a tensor that torch conjugates or negates where it reads it",
            "tasks read each element as it lies in memory",
            "pass x.resolve_conj().resolve_neg(), a copy",
        )
    array = value if hasattr(value, "dtype") else as_numpy(value)
    if hasattr(array, "__array_interface__") and not has_numbers(array.dtype):
        text = "Python objects" if array.dtype.hasobject else f"elements of type {array.dtype}"
        raise InvalidType(
            f"{call}: an array of {text}",
            "tasks read numbers where they lie, in the byte order of this machine",
            "convert it: x.astype(numpy.float32)",
        )


def has_numbers(dtype: Any) -> bool:
    """True if tasks take NumPy's arrays of this type."""
    if dtype.isbuiltin != 1:  # of another byte order, with fields, or of a library
        return dtype.name == "bfloat16"
    return dtype.kind in "biufc" and dtype.char not in "gG"  # no long double


def check_storage(tensor: Any) -> None:
    """Raises InvalidValue for a torch tensor whose memory was taken away under it."""
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
    there = tensor.untyped_storage().nbytes()
    if tensor.numel() and there < needed:
        raise InvalidValue(
            f"a torch tensor of {needed} bytes, whose storage has {there}",
            "its storage was resized, so its elements lie in memory that is not its own",
            "resize the storage back, or make the tensor anew",
        )


def _is_on_cpu(value: Any) -> bool:
    if not hasattr(value, "__dlpack_device__"):
        return True
    try:
        return int(value.__dlpack_device__()[0]) == 1  # kDLCPU
    except (ValueError, BufferError):  # a device without a number, such as PyTorch's meta
        return False


def _about(value: Any) -> tuple[tuple[int, ...], str]:
    """Shape and element type, by NumPy's names."""
    value = value if hasattr(value, "shape") and hasattr(value, "dtype") else as_numpy(value)
    return tuple(value.shape), str(value.dtype).rpartition(".")[2]


def _nbytes(value: Any) -> int:
    return int(value.nbytes if hasattr(value, "nbytes") else as_numpy(value).nbytes)


def as_numpy(value: Any) -> Any:
    """The array of another library than PyTorch as NumPy sees it."""
    import numpy

    return (
        numpy.from_dlpack(value)
        if hasattr(value, "__dlpack__")
        else numpy.asarray(memoryview(value))
    )


def _described(value: Any) -> str:
    kind = type(value)
    text = repr(value) if kind in (int, float, str, bool, type(None)) else ""
    return f"{text[:40]} ({kind.__name__})" if text else f"a {kind.__module__}.{kind.__name__}"
