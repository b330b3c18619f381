# SPDX-License-Identifier: Apache-2.0
"""Lets Python call our operators directly (direct_call.cpp).

An operator of PyTorch, and each of its overloads, is an object whose class has the method
`__call__`. Ours get a class of their own, which differs only in that. Where the library is not
built they keep PyTorch's.

Overloads of pto.aten get theirs from aten_call.cpp in the same way, fronts their runner from
aten_front.cpp. For jitted functions the library reads tensors (tensor_reader.cpp), tells who owns
them, and lets PyTorch resize the results (object_owner.cpp). Thread safety: any thread may call.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from pto import _core
from pto.adapters import build as adapter_libraries
from pto.adapters.record import Record
from pto.adapters.torch import build
from pto.adapters.torch.record import packet
from pto.adapters.torch_threads import address_of
from pto.schema import signature_of

_library = adapter_libraries.load(build.DIRECT)
if _library is not None:
    _core.set_torch_weight_owner(address_of("object_owner", _library))
    _core.set_torch_resizer(address_of("let_resize_object", _library))


def _made(name: str, *arguments: Any, kind: Any = ctypes.py_object) -> Any:
    """Calls a function of the library under Python's lock, and returns the object that it makes."""
    function = ctypes.PyDLL("", handle=_library._handle)[f"pto_torch_{name}"]
    function.restype = kind
    return function(*arguments)


def read_tensors() -> None:
    """Lets jitted functions read plain tensors without PyTorch's own interface."""
    if _library is not None:
        _core.set_torch_reader(address_of("tensor_reader", _library))


read_tensors()


def strided_view() -> Callable[..., Any]:
    """as_strided(x, sizes, strides, offset) for tensors that are only read (strided_view.cpp)."""
    if _library is None:
        return torch.Tensor.as_strided
    return _made("strided_view")


def knows_owners() -> bool:
    """Whether a tensor's owner can be found; without owners no constant of a call is packed."""
    return _library is not None


def _direct_call(original: Any, index: int) -> Any:
    addresses = (ctypes.c_void_p(address_of(name)) for name in ("run", "plain"))
    return _made("direct_call", ctypes.py_object(original), index, *addresses)


def aten_call(name: str, overload: str, learn: Callable, fail: Callable) -> Any:
    """The call of an overload of ATen by aten_call.cpp; None where it was not built."""
    if _library is None:
        return None
    callables = map(ctypes.py_object, (learn, fail))
    plain = ctypes.c_void_p(address_of("plain"))
    return _made("aten_call", name.encode(), overload.encode(), *callables, plain)


def aten_runner(run: Callable) -> int | None:
    """The address of aten_front.cpp's runner, which calls `run`; None where it was not built."""
    if _library is None:
        return None
    plain = ctypes.c_void_p(address_of("plain"))
    return _made("aten_runner", ctypes.py_object(run), plain, kind=ctypes.c_void_p)


def forget_fronts() -> None:
    """Drops the plans of aten_front.cpp, so that the next calls ask Python again."""
    if _library is not None:
        _made("aten_forget", kind=None)


def install(record: Record) -> None:
    """Gives an operator its signature, and lets Python call it directly if it takes and returns
    tensors one by one."""
    has_lists = any(a.kind == "Tensor[]" for a in record.arguments) or any(
        output.is_list for output in record.outputs
    )
    operator = packet(record)
    for one in (operator, operator.default):
        kind = type(one)
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__,
                 "__signature__": property(lambda _: signature_of(record.arguments))}  # fmt: skip
        if _library is not None and not record.mutates and not has_lists:
            # PyTorch's `__call__` calls `_op` at once
            names["__call__"] = _direct_call(one._op, record.index)
        one.__class__ = type(kind.__name__, (kind,), names)
