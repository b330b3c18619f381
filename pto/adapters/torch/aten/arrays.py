# SPDX-License-Identifier: Apache-2.0
"""Arrays of a call of ATen: tensors over the memory of NumPy's and DLPack's arrays, and back.

    kind(x)                        # "numpy"
    t = tensor(x)                  # a torch.Tensor over x; of a copy where PyTorch cannot take x
    array(t, "numpy")              # an ndarray over t

Results of DLPack arrays are tensors of PyTorch, which are DLPack arrays too. A call writes only
into an array that PyTorch takes as it lies; why_not_written() gives the reason where it does not.
Thread safety: pure functions.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

import torch
from pto.errors import InvalidType

KINDS = {"numpy": "NumPy", "torch": "PyTorch", "dlpack": "DLPack"}
# Element types that NumPy lacks: their names in ml_dtypes, and PyTorch's type of the same bytes.
_NARROW = {
    torch.bfloat16: ("bfloat16", torch.int16),
    torch.float8_e4m3fn: ("float8_e4m3fn", torch.uint8),
    torch.float8_e4m3fnuz: ("float8_e4m3fnuz", torch.uint8),
    torch.float8_e5m2: ("float8_e5m2", torch.uint8),
    torch.float8_e5m2fnuz: ("float8_e5m2fnuz", torch.uint8),
    torch.float8_e8m0fnu: ("float8_e8m0fnu", torch.uint8),
}
_BY_NAME = {name: (type_, stored) for type_, (name, stored) in _NARROW.items()}
_FLAGS_AT, _READ_ONLY = 24, 1  # of DLManagedTensorVersioned in dlpack.h


def kind(value: object) -> str | None:
    """The library of an array: "numpy", "torch" or "dlpack"; None for anything else."""
    if isinstance(value, torch.Tensor):
        return "torch"
    if isinstance(value, np.ndarray):
        return "numpy"
    if hasattr(type(value), "__dlpack__") and not isinstance(value, np.generic):
        return "dlpack"
    return None


def tensor(value: Any) -> torch.Tensor:
    """A tensor over an array's memory, or over a copy where why_not_taken() has a reason.

    Raises InvalidType for an element type that PyTorch lacks, and for an array of DLPack that
    PyTorch does not take.
    """
    if isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, np.ndarray):
        return _from_dlpack(value)
    narrow = _BY_NAME.get(value.dtype.name)
    given = value
    if narrow is not None:
        given = given.view(np.int16 if narrow[1] is torch.int16 else np.uint8)
    if why_not_taken(value):
        given = np.ascontiguousarray(given, given.dtype.newbyteorder("="))
        given = given.reshape(value.shape)  # of rank 0 it has made rank 1
    try:
        made = torch.from_numpy(_writable(given))
    except TypeError as error:
        raise InvalidType(
            f"an array of {value.dtype}",
            "PyTorch has no such element type",
            "convert it: x.astype(numpy.float32)",
        ) from error
    return made if narrow is None else made.view(narrow[0])


def _from_dlpack(value: Any) -> torch.Tensor:
    try:
        return torch.from_dlpack(value)
    except Exception as error:  # whatever its library raises, or PyTorch for an unknown device
        raise InvalidType(
            f"{describe(value)} is not taken: {error}",
            "PyTorch takes arrays of DLPack where they lie, on devices that it was built for",
            "pass an array of NumPy or a tensor of PyTorch",
        ) from error


class _Memory:
    """The memory of a read-only array as a writable one's, for callers that do not write."""

    def __init__(self, array: np.ndarray):
        self.array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else np.asarray(_Memory(array))


def why_not_taken(array: np.ndarray) -> str | None:
    """Why PyTorch cannot take an array where it lies."""
    if not array.dtype.isnative:
        return "its bytes are in the other order"
    if any(stride < 0 for stride in array.strides):
        return "it has a negative stride"
    if array.itemsize and any(stride % array.itemsize for stride in array.strides):
        return "a stride is not a multiple of its element"
    return None


def why_not_written(value: Any) -> str | None:
    """Why a call cannot write into an array; None: it can."""
    if isinstance(value, np.ndarray):
        return why_not_taken(value) if value.flags.writeable else "it is read-only"
    return "it is read-only" if kind(value) == "dlpack" and _is_read_only(value) else None


def _is_read_only(value: Any) -> bool:
    """Whether a DLPack array says so, which one older than DLPack 1.0 cannot do."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except Exception:  # it knows no versions, or lends nothing, which tensor() tells
        return False
    name, takes = b"dltensor_versioned", (ctypes.py_object, ctypes.c_char_p)
    is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, *takes)(("PyCapsule_IsValid", ctypes.pythonapi))
    address = ctypes.PYFUNCTYPE(ctypes.c_void_p, *takes)(("PyCapsule_GetPointer", ctypes.pythonapi))
    if not is_valid(capsule, name):
        return False
    flags = ctypes.c_uint64.from_address(address(capsule, name) + _FLAGS_AT)
    return bool(flags.value & _READ_ONLY)


def array(made: torch.Tensor, like: str) -> Any:
    """A result as an array of this kind. Raises InvalidType for a tensor that NumPy cannot hold."""
    if like != "numpy":
        return made
    if made.layout is not torch.strided or made.device.type != "cpu" or made.is_quantized:
        raise InvalidType(
            f"the result is {describe(made)}",
            "NumPy holds dense arrays of a CPU alone",
            "give tensors of PyTorch to get one back",
        )
    made = made.detach().resolve_conj().resolve_neg()
    if made.dtype in _NARROW:
        import ml_dtypes

        name, stored = _NARROW[made.dtype]
        return made.view(stored).numpy().view(np.dtype(getattr(ml_dtypes, name)))
    try:
        return made.numpy()
    except TypeError as error:
        raise InvalidType(
            f"the result is {describe(made)}",
            "neither NumPy nor ml_dtypes has its element type",
            "give tensors of PyTorch to get one back",
        ) from error


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_strided(value: torch.Tensor) -> bool:
    """Whether a tensor lies in the CPU's memory by strides, and is of no other class."""
    is_plain = type(value) in _PLAIN and value.layout is torch.strided
    return is_plain and value.device.type == "cpu" and not value.is_nested


def dense_type(value: Any) -> str | None:
    """The element type of an aligned, dense CPU array that needs no gradient; see
    records.Library."""
    if isinstance(value, np.ndarray):
        return value.dtype.name if value.dtype.isnative and value.flags.aligned else ""
    if isinstance(value, torch.Tensor):
        is_plain = is_strided(value) and not value.is_quantized
        is_plain = is_plain and not (value.is_conj() or value.is_neg() or value._is_zerotensor())
        is_plain = is_plain and _is_aligned(value)
        needs_gradient = value.requires_grad and torch.is_grad_enabled()
        is_ours = is_plain and not needs_gradient and not _somebody_looks_on()
        return str(value.dtype).removeprefix("torch.") if is_ours else ""
    return None if kind(value) is None else ""


def _is_aligned(value: torch.Tensor) -> bool:
    try:
        return value.data_ptr() % value.element_size() == 0
    except RuntimeError:  # a tensor that a transform wraps has no memory of its own
        return True


def _somebody_looks_on() -> bool:
    """Whether a mode, a transform or autocast does more with a call than run it."""
    functions = torch._C
    return bool(
        functions._len_torch_dispatch_stack()
        or functions._functorch.peek_interpreter_stack() is not None
        or torch.is_autocast_enabled("cpu")
    )


def shape(value: Any) -> tuple[int, ...]:
    """The sizes of an array."""
    return tuple(value.shape) if hasattr(value, "shape") else tuple(tensor(value).shape)


def strides_of(value: Any) -> tuple[int, ...]:
    """Strides in elements."""
    return tensor(value).stride()


def is_dense(value: Any) -> bool:
    """Whether an array has no gaps and repeats no element, in whatever order of its axes."""
    return torch.ops.aten.is_non_overlapping_and_dense(tensor(value))


def permuted(value: Any, axes: Sequence[int]) -> Any:
    """A view with axes in another order; axes that it lacks in front have the size 1."""
    taken = tensor(value)
    sizes, strides = (
        [0] * (len(axes) - taken.ndim) + [*of] for of in (taken.shape, taken.stride())
    )
    return _view(value, [sizes[axis] or 1 for axis in axes], [strides[axis] for axis in axes])


def relaid(value: Any, strides: Sequence[int]) -> Any:
    """The array itself where it has these strides in elements, or a copy that has them."""
    taken = tensor(value)
    if taken.stride() == tuple(strides):
        return value
    steps = zip(taken.shape, taken.stride(), strides, strict=True)
    if not taken.numel() or all(size == 1 or a == b for size, a, b in steps):
        return _view(value, taken.shape, strides)
    made = torch.empty_strided(taken.shape, strides, dtype=taken.dtype).copy_(taken)
    return made if isinstance(value, torch.Tensor) else array(made, "numpy")


def _view(value: Any, sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """A view, in elements, that PyTorch does not take for one: no autograd follows it."""
    with torch._C._AutoDispatchBelowADInplaceOrView():
        made = tensor(value).as_strided(sizes, strides)
    return array(made, "numpy") if isinstance(value, np.ndarray) else made


def copied(value: Any) -> Any:
    """A copy of an array, of the same kind, sizes and order."""
    return value.copy("K") if isinstance(value, np.ndarray) else tensor(value).clone()


def is_contiguous(value: Any) -> bool:
    """Whether an array lies row by row without gaps."""
    if isinstance(value, np.ndarray):
        return value.flags.c_contiguous
    return tensor(value).is_contiguous()


def describe(value: Any) -> str:
    """An array in an error: "float32[3, 4]", with what is unusual about it."""
    if isinstance(value, torch.Tensor):
        sizes = "[nested]" if value.is_nested else list(value.shape)
        text = f"{str(value.dtype).removeprefix('torch.')}{sizes}"
        if value.layout is not torch.strided:
            text += f" {str(value.layout).removeprefix('torch.')}"
        return text if value.device.type == "cpu" else f"{text} on {value.device}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return f"a {type(value).__module__}.{type(value).__name__}"
