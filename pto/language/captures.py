# SPDX-License-Identifier: Apache-2.0
"""Finds what a traced function reads beside its parameters: places whose values become constants.

    EPSILON = 1e-5
    def scale(x): return x * EPSILON
    captured(scale)     # ((globals, "EPSILON"),)

It does not run the function but follows the names in its code: global names, closures, attributes
of modules, classes and plain objects, elements of short dicts and lists, and the same in functions
that it calls. Each call of a jitted function compares the values (bindings/captures.cpp) and
compiles anew if one has changed. Not seen: elements that a dict or list gets later, what getattr()
reaches, and code of libraries. What the function itself assigns, such as a counter of traces, does
not count.
"""

import dis
import enum
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

from pto import _core
from pto.language.dtypes import DType
from pto.language.types import number

_CONSTANTS = (bool, int, float, str, bytes, type(None), tuple, DType, enum.Enum)
_FRAMEWORKS = frozenset(
    ["pto", "numpy", "ml_dtypes", "scipy", "torch", "tensorflow", "jax", "onnxruntime", "mindspore"]
)
_LIBRARIES = _FRAMEWORKS | sys.stdlib_module_names - {"__main__"}
_STORES = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")
_CHANGES = {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "sort"}
_MOST = 64  # elements of a dict or list

Place = tuple[Any, str | int]  # (a dict, cell, class or list; a name or an index)


def captured(function: types.FunctionType) -> tuple[Place, ...]:
    """The places of numbers, texts and functions that a call of `function` may read."""
    return _Search(function).places()


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _is_of(libraries: frozenset[str], module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in libraries


def _function_of(value: Any) -> Any:
    """The function behind a jitted one, a method, a property or a partial call; else the value."""
    if isinstance(value, _core.FastCall):
        return value.__wrapped__
    if isinstance(value, types.MethodType | classmethod | staticmethod):
        return value.__func__
    if isinstance(value, property):
        return value.fget
    return value.func if isinstance(value, functools.partial) else value


class _Search:
    """Walks through functions and the objects that they name, until nothing new is found."""

    def __init__(self, function: types.FunctionType):
        self.found: dict[tuple[int, str | int], Place] = {}
        self.attributes: set[tuple[int, str | int]] = set()  # of `found`
        self.elements: set[tuple[int, str | int]] = set()
        self.functions: dict[int, types.FunctionType] = {}
        self.objects: dict[int, Any] = {}
        self.names: dict[str, None] = {}  # names that are read: globals, or attributes of anything
        self.assigned: set[str] = set()  # attributes
        self.assigns_elements = False
        self._function(function)
        size = None
        while size != (size := (len(self.functions), len(self.objects), len(self.names))):
            for value in [*self.objects.values()]:
                self._attributes(value)

    def places(self) -> tuple[Place, ...]:
        own = {key for key in self.attributes if key[1] in self.assigned}
        if self.assigns_elements or _CHANGES & self.names.keys():
            own |= self.elements
        return tuple(place for key, place in self.found.items() if key not in own)

    def _function(self, function: types.FunctionType) -> None:
        if id(function) in self.functions:
            return
        self.functions[id(function)] = function
        assigned, read = set(), {}
        for code in _codes(function.__code__):
            read |= dict.fromkeys(code.co_names)
            for step in dis.get_instructions(code):
                self.assigns_elements |= step.opname == "STORE_SUBSCR"
                if step.opname in _STORES:
                    kept = self.assigned if step.opname.endswith("_ATTR") else assigned
                    kept.add(step.argval)
        self.names |= read
        for name in read:
            if name in function.__globals__ and name not in assigned:
                self._value(function.__globals__, name, function.__globals__[name])
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            if name not in assigned and cell != types.CellType():  # an empty one has no contents
                self._value(cell, name, cell.cell_contents)

    def _value(self, owner: object, name: str | int, value: Any) -> None:
        """Visits the value at a place."""
        if isinstance(value, types.MethodType):
            self._object(value.__self__)
        inner = _function_of(value)
        if isinstance(inner, types.FunctionType):
            if not _is_of(_LIBRARIES, inner.__module__):
                self.found[id(owner), name] = owner, name
                self._function(inner)
        elif isinstance(value, _CONSTANTS) or number(value) is not None:
            self.found[id(owner), name] = owner, name
        else:
            self._object(value)

    def _object(self, value: Any) -> None:
        if isinstance(value, types.ModuleType):
            foreign = _is_of(_LIBRARIES, value.__name__)
        else:  # a SimpleNamespace of a user is of the standard library
            foreign = _is_of(_FRAMEWORKS, getattr(type(value), "__module__", ""))
        if not foreign:
            self.objects[id(value)] = value

    def _attributes(self, value: Any) -> None:
        if type(value) in (dict, list):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for name, element in [*pairs] if len(value) <= _MOST else []:
                if type(name) in (str, int):
                    self.elements.add((id(value), name))
                    self._value(value, name, element)
            return
        own = None if isinstance(value, type) else getattr(value, "__dict__", None)
        kind = value if isinstance(value, type) else type(value)
        for name in [*self.names]:
            if isinstance(own, dict) and name in own:
                self.attributes.add((id(own), name))
                self._value(own, name, own[name])
            elif not isinstance(value, types.ModuleType):
                base = next((base for base in kind.__mro__ if name in vars(base)), None)
                if base and not _is_of(_LIBRARIES, base.__module__):
                    self.attributes.add((id(base), name))
                    self._value(base, name, vars(base)[name])
