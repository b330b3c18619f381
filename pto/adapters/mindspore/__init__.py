# SPDX-License-Identifier: Apache-2.0
"""The MindSpore adapter: every operator of the registry is pto.mindspore.NAME.

    import mindspore, pto.mindspore
    pto.mindspore.gelu(x, approximate="tanh")     # eagerly, in a Cell, under mindspore.jit

Operators run on the CPU, in graph and PyNative mode, with gradients, and with shapes that are not
known while a graph is compiled. In a graph an operator is an ops.Custom over a library of plain
functions; outside of graphs calls are three times as fast where `python -m pto adapters build
mindspore` has built eager.cpp. A mutable argument keeps its elements: a call returns the new ones.
Thread safety: as MindSpore's own operators.
"""

import importlib
import sys
from typing import Any, NoReturn

import mindspore
from pto.adapters.mindspore.eager import extension
from pto.adapters.mindspore.functions import function
from pto.adapters.mindspore.primitive import library, record
from pto.adapters.record import on_operator
from pto.errors import unknown_attribute

__all__ = ["call", "describe", "has_fast_calls", "index_of"]

_indices: dict[str, int] = {}


def has_fast_calls() -> bool:
    """Says whether calls outside graphs run in C++; otherwise they go through ops.Custom."""
    return extension() is not None


def describe() -> str:
    """One line: the version served, and how calls outside graphs run."""
    calls = "eager calls in C++"
    if not has_fast_calls():
        calls = "eager calls through ops.Custom; for C++: python -m pto adapters build mindspore"
    return f"MindSpore {mindspore.__version__}, {len(_indices)} operators, {calls}"


def index_of(name: str) -> int:
    """The place of an operator in the registry; KeyError for an unknown name."""
    return _indices[name]


def call(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """pto.mindspore.NAME(*args, **kwargs)."""
    return function(index_of(name))(*args, **kwargs)


def __getattr__(name: str) -> NoReturn:
    raise unknown_attribute("pto.mindspore", name, _indices)


def _declare(index: int) -> None:
    name = record(index).name
    _indices[name] = index
    # An attribute at once: MindSpore's parser does not ask __getattr__. Names of the module stay.
    globals().setdefault(name, function(index))


library()
importlib.import_module("pto.ops")  # the operator library defines itself
importlib.import_module("pto.models")
on_operator(_declare)
sys.modules.setdefault("pto.mindspore", sys.modules[__name__])
