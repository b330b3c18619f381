# SPDX-License-Identifier: Apache-2.0
"""Binds jitted methods to their objects, as Python does, also inside torch.compile.

torch.compile checks before a call that its trace still holds, but it does not see what a jitted
method reads of its object. While it traces, the attributes that the method names are therefore
arguments of the call: a changed attribute compiles anew. Thread safety: as of the method.
"""

import functools
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any

from pto.errors import InvalidValue
from pto.language import adapters

_CONSTANTS = (bool, int, float, str, tuple, list, dict)


def is_in_class(function: Callable) -> bool:
    """Says whether a function was defined in the body of a class."""
    return "." in getattr(function, "__qualname__", "").rpartition("<locals>.")[2]


def is_compiling() -> bool:
    """Says whether torch.compile traces; its adapter puts PyTorch's own answer here."""
    return False


def graphs() -> Any:
    """The adapter's part for torch.compile, None where that is not loaded."""
    if "torch._dynamo.trace_rules" not in sys.modules:
        return None
    return adapters.load("torch.graphs")


def keep_in_graphs(function: Any) -> None:
    """Makes calls of a function nodes of the graphs of torch.compile, where that is loaded."""
    if there := graphs():
        there.keep_in_graphs(function)


class InGraph:
    """A method inside torch.compile: called with its object, the attributes, then the arguments."""

    def __init__(self, method: Any, names: list[str]):
        self.method, self.names, self.__name__ = method, names, method.__name__

    def __hash__(self) -> int:
        keep_in_graphs(self)
        return object.__hash__(self)

    def __call__(self, instance: Any, attributes: list, *args: Any, **kwargs: Any) -> Any:
        for value in attributes:
            if type(value).__name__ in ("SymInt", "SymFloat"):
                float(value)  # makes it one of what PyTorch checks before the next call
        result = self.method(instance, *args, **kwargs)
        for path in sorted(self.method.reads[type(instance)]):
            if path[0].startswith("__") or not isinstance(_value_at(instance, path), _CONSTANTS):
                continue
            if path[0] not in self.names:
                self.names.append(path[0])
            elif len(path) == 1:
                continue
            raise InvalidValue(
                f"{self.method.__name__}: reads self.{'.'.join(path)} inside torch.compile",
                "torch.compile watches the attributes that the method itself names",
                "call the method once before, and keep what it reads in attributes of self",
            )
        return result


def _value_at(instance: Any, path: tuple[str, ...]) -> Any:
    return functools.reduce(lambda one, name: getattr(one, name, None), path, instance)


class Method:
    """Binds a jitted method to its object. Dynamo traces the text of __get__."""

    def __init__(self, function: Callable, *args: Any):
        super().__init__(function, *args)
        self.attribute_names = list(function.__code__.co_names)
        self.in_graph = InGraph(self, self.attribute_names)

    def __hash__(self) -> int:
        graphs()
        return object.__hash__(self)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if is_compiling():
            own = instance.__dict__
            found = [getattr(instance, name) for name in self.attribute_names if name in own]
            attributes = [value for value in found if isinstance(value, _CONSTANTS)]
            return functools.partial(self.in_graph, instance, attributes)
        return MethodType(self, instance)
