# SPDX-License-Identifier: Apache-2.0
"""Finds what a traced function reads beside its parameters: places whose values become constants.

    EPSILON = 1e-5
    def scale(x): return x * EPSILON
    captured(scale, ())     # (((globals, "EPSILON"),), ())

    found = fingerprint(scale, ())
    found.text          # the same in every process with the same source and values
    found.is_current()  # False once a captured value is another one

The search does not run the function but follows the names in its code: global names, closures,
attributes of modules, classes and plain objects, elements of short dicts, lists and NumPy arrays,
and the same in functions that it calls. Each call of a jitted function compares the values
(bindings/captures.cpp) and compiles anew if one has changed; where another object stands on the way
to a value, it searches again. Not seen: elements of other arrays, sets and deques, those that a
dict gets later, what getattr() reaches, and code of libraries. Places that the function itself
assigns, such as a counter of traces, do not count.
"""

import dis
import enum
import functools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pto import _core
from pto.language.closures import closure_of, is_empty
from pto.language.dtypes import DType
from pto.language.types import number

_CONSTANTS = (bool, int, float, str, bytes, type(None), tuple, DType, enum.Enum)
_FRAMEWORKS = frozenset(
    ["pto", "numpy", "ml_dtypes", "scipy", "torch", "tensorflow", "jax", "onnxruntime", "mindspore"]
)
_LIBRARIES = _FRAMEWORKS | sys.stdlib_module_names - {"__main__"}
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_STORES = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")
_CHANGES = {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "sort"}
_KEYS = (str, int, float, bytes)  # of dicts: a look-up runs no code of a user
MOST = 64  # elements of a dict, list or array that are compared
_MISSING = object()

# (a dict, cell, class or list; a name, a key or an index), or (an array; None): its bytes.
Place = tuple[Any, Any]
Places = tuple[Place, ...]


def captured(function: types.FunctionType, classes: Iterable[type]) -> tuple[Places, Places]:
    """The places of numbers, texts, functions and arrays that a call of `function` may read; and
    those of the objects on the way to them. `classes` are those of the objects of a method."""
    search = _Search(function, classes)
    return search.places(search.found), search.places(search.links)


class Fingerprint(NamedTuple):
    """Identifies a function with all that it captures, so that equal functions share an operator.

    Numbers, texts and tuples of these count by value; any other object equals only itself.
    """

    text: str  # for all processes
    objects: tuple[Any, ...]  # tell functions of this process apart
    values: tuple[tuple[Place, Any], ...]

    @property
    def key(self) -> tuple:
        return self.text, tuple(map(id, self.objects))

    def is_current(self) -> bool:
        """Says whether every captured value is still the object, or the bytes, that it was."""
        now = ((_value_at(place), value) for place, value in self.values)
        return all(a is b or (type(a) is type(b) is bytes and a == b) for a, b in now)


def fingerprint(function: types.FunctionType, classes: Iterable[type]) -> Fingerprint:
    """The fingerprint of a Python function, of a method for objects of these classes."""
    search = _Search(function, classes)
    print_ = _Print(list(search.functions))
    for one in search.functions.values():
        print_.function(one)
    places = search.places(search.found)
    values = [(place, _value_at(place)) for place in places]
    links = [(place, _value_at(place)) for place in search.places(search.links)]
    for place, value in values:
        print_.texts.append(f"name {place[1]}")
        print_.value(value)
    for _, value in links:
        print_.value(value)
    return Fingerprint("\n".join(print_.texts), tuple(print_.objects), (*values, *links))


def _value_at(place: Place) -> Any:
    """The value now, or _MISSING; runs no descriptor."""
    owner, name = place
    if name is None:
        return owner.tobytes()
    if isinstance(owner, dict):
        return owner.get(name, _MISSING)
    if isinstance(owner, list):
        return owner[name] if name < len(owner) else _MISSING
    if isinstance(owner, types.CellType):
        return _MISSING if is_empty(owner) else owner.cell_contents
    return next((vars(base)[name] for base in owner.__mro__ if name in vars(base)), _MISSING)


class _Print:
    """Writes functions and values as text, and lists the objects that no text stands for."""

    def __init__(self, functions: list[int]):
        self.texts: list[str] = []
        self.objects: list[Any] = []
        self.functions = functions  # their ids

    def function(self, function: types.FunctionType) -> None:
        self.texts.append(f"def {function.__module__}.{function.__qualname__}")
        for code in codes(function.__code__):
            self.texts.append(f"code {code.co_code.hex()} {code.co_names} {code.co_varnames}")
            constants = [x for x in code.co_consts if not isinstance(x, types.CodeType)]
            self.texts.append(_text(constants))
        self.value(function.__defaults__ or ())
        self.value(tuple((function.__kwdefaults__ or {}).items()))

    def value(self, value: Any) -> None:
        inner = function_of(value)
        if value is _MISSING:
            self.texts.append("missing")
        elif value is None or type(value) in (bool, int, float, str, bytes):
            self.texts.append(f"{type(value).__name__} {value!r}")
        elif isinstance(value, tuple):
            self.texts.append(f"tuple {len(value)}")
            for one in value:
                self.value(one)
        elif id(inner) in self.functions and isinstance(value, types.FunctionType | _core.Callable):
            self.texts.append(f"function {self.functions.index(id(inner))}")
        elif isinstance(value, types.ModuleType):
            self.texts.append(f"module {value.__name__}")
        else:
            what = value if isinstance(value, types.FunctionType) else type(value)
            self.texts.append(f"a {what.__module__}.{what.__qualname__}")
            self.objects.append(value)


def _text(constant: Any) -> str:
    """The text of a constant of code, whose sets have no order of their own."""
    if isinstance(constant, frozenset):
        return f"frozenset({sorted(map(_text, constant))})"
    if isinstance(constant, tuple | list):
        return f"[{', '.join(map(_text, constant))}]"
    return repr(constant)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def _is_of(libraries: frozenset[str], module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in libraries


def of_library(module: object) -> bool:
    """Says whether a module is none of the user's."""
    return _is_of(_LIBRARIES, module)


def function_of(value: Any) -> Any:
    """The function behind a jitted one, a method, a property or a partial call; else the value."""
    if isinstance(value, _core.Callable):
        return getattr(value, "__wrapped__", value)
    if isinstance(value, types.MethodType | classmethod | staticmethod):
        return value.__func__
    if isinstance(value, property):
        return value.fget
    return value.func if isinstance(value, functools.partial) else value


class _Search:
    """Walks through functions and the objects that they name, until nothing new is found."""

    def __init__(self, function: types.FunctionType, classes: Iterable[type]):
        self.found: dict[tuple[int, Any], Place] = {}
        self.links: dict[tuple[int, Any], Place] = {}  # of objects, or of nothing yet
        self.attributes: set[tuple[int, Any]] = set()  # of both
        self.elements: set[tuple[int, Any]] = set()
        self.functions: dict[int, types.FunctionType] = {}
        self.objects: dict[int, Any] = {}
        self.names: dict[str, None] = {}  # names that are read: globals, or attributes of anything
        self.assigned: set[str] = set()  # attributes
        self.assigns_elements = False
        self._function(function)
        for one in classes:
            self._object(one)
        size = None
        while size != (size := (len(self.functions), len(self.objects), len(self.names))):
            for value in [*self.objects.values()]:
                self._attributes(value)

    def places(self, found: dict[tuple[int, Any], Place]) -> Places:
        """Leaves out what the functions assign themselves."""
        own = {key for key in self.attributes if key[1] in self.assigned}
        if self.assigns_elements or _CHANGES & self.names.keys():
            own |= self.elements
        return tuple(place for key, place in found.items() if key not in own)

    def _function(self, function: types.FunctionType) -> None:
        if id(function) in self.functions:
            return
        self.functions[id(function)] = function
        assigned, read = set(), {}
        for code in codes(function.__code__):
            self.names |= dict.fromkeys(code.co_names)
            for step in dis.get_instructions(code):
                if step.opname in _GLOBALS:
                    read[step.argval] = None
                self.assigns_elements |= step.opname == "STORE_SUBSCR"
                if step.opname in _STORES:
                    kept = self.assigned if step.opname.endswith("_ATTR") else assigned
                    kept.add(step.argval)
        for name in read:
            if name in function.__globals__ and name not in assigned:
                self._value(function.__globals__, name, function.__globals__[name])
        for name, cell in closure_of(function).items():
            if name not in assigned:
                self._value(cell, name, cell.cell_contents)

    def _value(self, owner: object, name: Any, value: Any) -> None:
        """Visits the value at a place."""
        if isinstance(value, types.MethodType):
            self._object(value.__self__)
        inner = function_of(value)
        if isinstance(inner, types.FunctionType):
            self.found[id(owner), name] = owner, name
            if not _is_of(_LIBRARIES, inner.__module__):
                self._function(inner)
        elif isinstance(value, _CONSTANTS) or number(value) is not None:
            self.found[id(owner), name] = owner, name
        elif self._object(value):
            self.links[id(owner), name] = owner, name
        elif not isinstance(value, types.ModuleType):  # an array, whose size may be read
            self.found[id(owner), name] = owner, name
            if type(value).__module__ == "numpy" and getattr(value, "size", MOST + 1) <= MOST:
                self.found[id(value), None] = value, None

    def _object(self, value: Any) -> bool:
        """Says whether it is an object whose attributes are searched."""
        if isinstance(value, types.ModuleType):
            foreign = _is_of(_LIBRARIES, value.__name__)
        else:  # a SimpleNamespace of a user is of the standard library
            foreign = _is_of(_FRAMEWORKS, getattr(type(value), "__module__", ""))
        if not foreign:
            self.objects[id(value)] = value
        return not foreign

    def _attributes(self, value: Any) -> None:
        if type(value) in (dict, list):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for name, element in [*pairs] if len(value) <= MOST else []:
                if type(name) in _KEYS:
                    self.elements.add((id(value), name))
                    self._value(value, name, element)
            if type(value) is list:  # it may get another element
                self.elements.add((id(value), len(value)))
                self.links[id(value), len(value)] = value, len(value)
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
                    self.attributes.add((id(kind), name))
                    self._value(kind, name, vars(base)[name])
                    if isinstance(own, dict):  # the object may get its own
                        self.attributes.add((id(own), name))
                        self.links[id(own), name] = own, name
