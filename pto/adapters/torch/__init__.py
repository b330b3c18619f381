# SPDX-License-Identifier: Apache-2.0
"""The PyTorch adapter: every operator of the registry is torch.ops.pto.NAME.

    import torch, pto.torch
    torch.ops.pto.gelu(x, approximate="tanh")

Loading it registers schema, CPU kernel, fake kernel and gradient of all operators, those that
are defined later included. No Python runs in a call whose kernel exists, but for the gradient
where the C++ part (node.cpp) was not built: `python -m pto adapters build torch`. That builds the
npu device too; where it is built, loading this module makes it (activation.py).
"""

import ctypes
import importlib
import sys
from typing import Any

import torch
from pto.adapters import build as adapter_libraries
from pto.adapters.record import Record, on_operator
from pto.adapters.torch import activation, autograd, build, fake
from pto.adapters.torch.record import torch_schema
from pto.adapters.torch_threads import HOST_POOL, library, use_host_pool
from pto.errors import Failure

__all__ = ["HOST_POOL", "call", "describe", "has_cpp_gradients", "use_host_pool"]

_library = torch.library.Library("pto", "FRAGMENT")  # keeps the Python registrations alive
_declared: set[int] = set()


def _function(library: ctypes.CDLL, name: str) -> Any:
    """A C function int32 -> error text or null."""
    function = library[name]
    function.argtypes, function.restype = [ctypes.c_int32], ctypes.c_char_p
    return function


def _check(text: bytes | None) -> None:
    if text:
        raise Failure(
            f"PyTorch refused an operator: {text.decode()}",
            "its schema or its kernel could not be registered",
            "correct the operator's schema",
        )


_register = _function(library(), "pto_torch_register")
_register.argtypes = [ctypes.c_int32, ctypes.c_char_p]
_gradients = adapter_libraries.load(build.NODE)
_register_gradient = _gradients and _function(_gradients, "pto_torch_register_gradient")


def has_cpp_gradients() -> bool:
    """Whether gradients run in C++; otherwise they go through Python, some 10 us a call slower."""
    return _register_gradient is not None


def describe() -> str:
    """One line: the version served, whether there is an npu device, and how gradients run."""
    gradients = "gradients in C++"
    if _register_gradient is None:
        gradients = "gradients through Python; for C++: python -m pto adapters build torch"
    device = ", npu device" if activation.is_active() else ""
    return f"PyTorch {torch.__version__}, {len(_declared)} operators{device}, {gradients}"


def _declare(index: int) -> None:
    if index in _declared:
        return
    _declared.add(index)
    record = Record(index)
    if record.gradient >= 0:
        _declare(record.gradient)
    _check(_register(index, torch_schema(record).encode()))
    fake.register(record, _library)
    if _register_gradient is not None:
        _check(_register_gradient(index))
    else:
        autograd.register(record, _library)


def call(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """torch.ops.pto.NAME(*args, **kwargs)."""
    return getattr(torch.ops.pto, name)(*args, **kwargs)


importlib.import_module("pto.ops")  # the operator library defines itself
on_operator(_declare)
sys.modules.setdefault("pto.torch", sys.modules[__name__])
activation.activate_if_possible()
