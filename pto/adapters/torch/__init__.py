# SPDX-License-Identifier: Apache-2.0
"""The PyTorch adapter: every operator of the registry is torch.ops.pto.NAME.

    import torch, pto.torch
    torch.ops.pto.gelu(x, approximate="tanh")

Loading it registers schema, CPU kernel, fake kernel, gradient, vmap and autocast of all operators,
those that are defined later included. No Python runs in a call whose kernel exists, but for
gradient and autocast where their C++ parts (node.cpp, autocast.cpp) were not built: `python -m pto
adapters build torch`. That builds the npu device too; where it is built, loading this module makes
it (activation.py).
"""

import ctypes
import functools
import importlib
import sys
import warnings
from typing import Any

import torch
from pto.adapters import build as adapter_libraries
from pto.adapters.record import Record, on_operator, operator_names
from pto.adapters.torch import activation, autocast, autograd, batching, build, direct, fake
from pto.adapters.torch.quantized import int4_from_torch
from pto.adapters.torch.record import (
    out_names,
    out_schema,
    qualified_name,
    returns_self,
    torch_schema,
)
from pto.adapters.torch_threads import HOST_POOL, address_of, library, use_host_pool
from pto.config import config
from pto.errors import Failure, unknown_attribute

__all__ = [
    "HOST_POOL",
    "call",
    "describe",
    "has_cpp_gradients",
    "int4_from_torch",
    "use_attention",
    "use_host_pool",
]

_COMPILE_TOOLS = ("explain", "package", "verify")  # of torch.compile(model, backend="pto")
_libraries: dict[str, torch.library.Library] = {}  # keep the Python registrations alive
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
_register.argtypes = [
    ctypes.c_int32,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_int32),
    ctypes.c_int32,
    ctypes.c_int32,
]
_gradients = adapter_libraries.load(build.NODE)
_register_gradient = _gradients and _function(_gradients, "pto_torch_register_gradient")
_register_out = _gradients and _function(_gradients, "pto_torch_register_out")
if _gradients is not None:
    _owner, _resizer = (address_of(name, _gradients) for name in ("weight_owner", "let_resize"))
    library().pto_torch_set_weight_owner(ctypes.c_void_p(_owner))
    library().pto_torch_set_resizer(ctypes.c_void_p(_resizer))
    _use_attention = _function(_gradients, "pto_torch_use_attention")
_register_autocast = _gradients and _function(_gradients, "pto_torch_register_autocast")


def has_cpp_gradients() -> bool:
    """True if gradients run in C++; otherwise they go through Python, some 10 us a call slower."""
    return _register_gradient is not None


def describe() -> str:
    """One line: the version served, whether there is an npu device, and how gradients run."""
    gradients = "gradients in C++"
    if _register_gradient is None:
        gradients = "gradients through Python; for C++: python -m pto adapters build torch"
    device = ", npu device" if activation.is_active() else ""
    return f"PyTorch {torch.__version__}, {len(_declared)} operators{device}, {gradients}"


def use_attention(yes: bool) -> None:
    """Runs PyTorch's scaled_dot_product_attention on our kernels; pto.config.torch_attention."""
    if _gradients is not None:
        _check(_use_attention(yes))
    elif yes:
        raise Failure(
            "the kernels of scaled_dot_product_attention are not built for this PyTorch",
            f"they need the headers of PyTorch {torch.__version__}, and are built on this machine",
            "python -m pto adapters build torch",
        )


def _library(record: Record) -> torch.library.Library:
    """Where an operator's Python kernels are registered: that of its namespace."""
    space = qualified_name(record).partition("::")[0]
    if space not in _libraries:
        _libraries[space] = torch.library.Library(space, "FRAGMENT")
    return _libraries[space]


def _define(index: int, schema: str, kind: torch.Tag | None) -> None:
    tags = [torch.Tag.pt2_compliant_tag, *([] if kind is None else [kind])]
    numbers = (ctypes.c_int32 * len(tags))(*map(int, tags))
    _check(_register(index, schema.encode(), numbers, len(tags), kind is torch.Tag.out))


def _declare(index: int) -> None:
    if index in _declared:
        return
    _declared.add(index)
    record = Record(index)
    if record.gradient >= 0:
        _declare(record.gradient)
    _define(index, torch_schema(record), torch.Tag.inplace if returns_self(record) else None)
    if out_names(record):
        _define(index, out_schema(record), torch.Tag.out)
    python = _library(record)
    fake.register(record, python)
    batching.register(record, python)
    # Integers cut no gradient: where there are no others, PyTorch needs no rule.
    has_floats = record.mutates or any(o.is_differentiable for o in record.outputs)
    if _register_gradient is not None:
        if has_floats:
            _check(_register_gradient(index))
        _check(_register_autocast(index))
        if out_names(record):
            _check(_register_out(index))
    else:
        if has_floats:
            autograd.register(record, python)
        autocast.register(record, python)
    direct.install(record)


def __getattr__(name: str) -> Any:
    """pto.torch.NAME, also NAME_ and NAME(..., out=): torch.ops.pto.NAME."""
    if name in _COMPILE_TOOLS:  # seldom needed
        return getattr(importlib.import_module(f"pto.adapters.torch.compile.{name}"), name)
    try:
        return getattr(torch.ops.pto, name)
    except AttributeError:
        raise unknown_attribute("pto.torch", name, __dir__()) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *_COMPILE_TOOLS, *operator_names()})


def call(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """torch.ops.pto.NAME(*args, **kwargs); of "space::name" torch.ops.space.name."""
    return _called(name, "out" in kwargs)(*args, **kwargs)


@functools.cache
def _called(name: str, has_out: bool) -> Any:
    """The packet of overloads; the overload `out` alone, which PyTorch would try last."""
    space, _, local = name.rpartition("::")
    packet = getattr(getattr(torch.ops, space or "pto"), local)
    if has_out and "out" in packet.overloads():
        names = [argument.name for argument in packet.out._schema.arguments]
        return packet.out if "out" in names else packet
    return packet


importlib.import_module("pto.ops")  # the operator library defines itself
importlib.import_module("pto.models")
on_operator(_declare, with_spaces=True)
if config.torch_attention:
    try:
        use_attention(True)
    except Failure as missing:  # no error: the environment may be that of many programs
        warnings.warn(
            f"PTO_TORCH_ATTENTION=1 changes nothing: {missing}", RuntimeWarning, stacklevel=2
        )
sys.modules.setdefault("pto.torch", sys.modules[__name__])
activation.activate_if_possible()
