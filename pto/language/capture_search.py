# SPDX-License-Identifier: Apache-2.0
"""Searches a function for the places of what it reads beside its parameters: see captures.py.

    search = Search(function, ())
    search.found       # places of numbers, texts, functions, arrays; contents of lists and dicts
    search.links       # places of the objects on the way to them
    search.suspects    # those among both that the function may assign itself

Thread safety: as that of what it reads.
"""

import array
import collections
import contextvars
import enum
import functools
import os
import sys
import types
from collections.abc import Iterable
from typing import Any

from pto import _core
from pto.language.closures import closure_of, is_empty
from pto.language.code_reads import CodeReads, is_installed
from pto.language.dtypes import DType
from pto.language.types import number

_CONSTANTS = (bool, int, float, str, bytes, type(None), DType, enum.Enum)
_FRAMEWORKS = frozenset(
    ["pto", "numpy", "ml_dtypes", "scipy", "torch", "tensorflow", "jax", "onnxruntime", "mindspore"]
)
_LIBRARIES = _FRAMEWORKS | sys.stdlib_module_names - {"__main__"}
_KEYS = (str, int, float, bytes)  # of dicts: a look-up runs no code of a user
_MAKERS = {"__init__", "__new__", "__post_init__"}
_ENVIRONMENT = {"environ", "getenv", "environb", "getenvb"}
_OF_MODULES = ("_parameters", "_buffers", "_modules")
_WRITTEN = "<string>"  # the file of the methods that dataclass() writes
_WRAPPERS = (collections.UserDict, collections.UserList)
_BUFFERS = (bytearray, array.array)
_CONTAINERS = (dict, list, set, collections.deque)
OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
MOST = 64  # elements of a dict or list with a place of their own
MOST_ELEMENTS = 4096  # of a container whose elements are compared
MOST_OBJECTS = 4096  # whose attributes and elements are searched
MOST_BYTES = 1 << 16  # of an array whose elements are compared
MISSING = object()

# (a dict, cell, class, list, function or object with slots; a name, a key or an index), or
# (an array or container; None): its contents.
Place = tuple[Any, Any]
Places = tuple[Place, ...]
Key = tuple[int, Any]  # the owner's id and the name


def value_at(place: Place) -> Any:
    """The value now, or MISSING; runs no code of a user."""
    owner, name = place
    if name is None:
        return contents(owner)
    if isinstance(owner, dict):
        return dict.get(owner, name, MISSING)
    if isinstance(owner, list):
        return list.__getitem__(owner, name) if name < list.__len__(owner) else MISSING
    if isinstance(owner, types.CellType):
        return MISSING if is_empty(owner) else owner.cell_contents
    if isinstance(owner, types.FunctionType):
        return getattr(owner, name)
    if isinstance(owner, type):
        return next((vars(base)[name] for base in owner.__mro__ if name in vars(base)), MISSING)
    try:
        return object.__getattribute__(owner, name)
    except AttributeError:
        return MISSING


def contents(owner: Any) -> Any:
    """The bytes of an array; in a tuple the elements of a container, or the value of a variable of
    the context."""
    if isinstance(owner, contextvars.ContextVar):
        return (owner.get(None),)
    if isinstance(owner, dict):
        return (*dict.keys(owner), *dict.values(owner))
    if isinstance(owner, _CONTAINERS):
        return tuple(owner)
    return _bytes_of_tensor(owner) if _is_torch(owner) else owner.tobytes() if hasattr(
        owner, "tobytes") else bytes(owner)  # fmt: skip


def _bytes_of_tensor(tensor: Any) -> Any:
    """The bytes of a torch tensor, read without PyTorch's dispatcher, which a mode may watch."""
    import ctypes

    dense = tensor.detach().contiguous()
    return ctypes.string_at(dense.data_ptr(), dense.nbytes)


def _is_torch(value: Any) -> bool:
    """Says whether it is a plain tensor or parameter of PyTorch in this machine's memory."""
    torch = sys.modules.get("torch")
    if torch is None or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return value.device.type == "cpu" and value.layout is torch.strided


def _is_torch_module(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def is_array(value: Any) -> bool:
    """Says whether its bytes are elements that may change."""
    numpy = sys.modules.get("numpy")
    kinds = (*_BUFFERS, numpy.ndarray, numpy.generic) if numpy else _BUFFERS
    return isinstance(value, kinds) or _is_torch(value)


def bytes_of(array: Any) -> int:
    """The size of an array."""
    return memoryview(array).nbytes if isinstance(array, _BUFFERS) else array.nbytes


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
    has_func = isinstance(value, functools.partial | functools.cached_property)
    return value.func if has_func else value


class Search:
    """Walks through functions and the objects that they name, until nothing new is found."""

    def __init__(self, function: types.FunctionType, classes: Iterable[type],
                 objects: Iterable[Any] = ()):  # fmt: skip
        self.found: dict[Key, Place] = {}
        self.links: dict[Key, Place] = {}  # of objects, or of nothing yet
        self.large: dict[str, Any] = {}  # what is too large to be compared
        self.attributes: set[Key] = set()  # of both
        self.elements: set[Key] = set()
        self.functions: dict[int, types.FunctionType] = {}
        self.objects: dict[int, Any] = {}
        self.bases: dict[type, dict[str, type]] = {}  # see _bases()
        self.kinds: set[tuple[type, int]] = set()  # whose special methods are visited
        self.made: set[int] = set()  # ids of classes that a function may call
        self.code = CodeReads()
        self.own: set[int] = set()  # ids of these containers
        self._function(function)
        for one in (*classes, *objects):
            self._object(one)
        size = None
        while size != (size := (len(self.functions), len(self.objects), len(self.made),
                                self.code.size)):  # fmt: skip
            for value in [*self.objects.values()]:
                self._elements(value)
                self._attributes(value)
        if self.code.compares_objects:  # which object it is counts, too
            self.found |= self.links
        for places in (self.found, self.links):
            for key in [key for key in places if key[0] in self.own]:
                del places[key]

    @property
    def suspects(self) -> set[Key]:
        """Places that the functions may assign themselves."""
        own = {key for key in self.attributes if key[1] in self.code.assigned}
        return own | self.elements if self.code.changes_elements else own

    def _function(self, function: types.FunctionType) -> None:
        if id(function) in self.functions:
            return
        is_root = not self.functions
        self.functions[id(function)] = function
        read, assigned = self.code.add(function.__code__)
        for name in read:
            if name in function.__globals__ and name not in assigned:
                self._value(function.__globals__, name, function.__globals__[name])
        for name, cell in closure_of(function).items():
            if name not in assigned:
                self._value(cell, name, cell.cell_contents)
        for name in () if is_root else OF_FUNCTIONS:  # the root's are bound when it is made
            if value := getattr(function, name):
                self.found[id(function), name] = function, name
                self._visit(value)
        if vars(function):
            self.objects[id(function)] = function

    def _value(self, owner: object, name: Any, value: Any, label: str = "") -> None:
        """Notes the place of a value, and visits it; elements have a `label`."""
        kept = self._visit(value, label or name, bool(label) or name in self.code.whole)
        if kept is not None:
            kept[id(owner), name] = owner, name
        if isinstance(value, type) and id(value) in self.objects:
            self.made.add(id(value))
        if name in self.code.changed and isinstance(value, _CONTAINERS):
            self.own.add(id(value))

    def _visit(self, value: Any, name: str = "", is_whole: bool = True) -> dict[Key, Place] | None:
        """Visits a value; returns where its place belongs, None for a module of a library."""
        if self._reads_environment(value):
            self._object(os.environ._data)  # whose elements are compared as those of any dict
        if isinstance(value, types.MethodType):
            self._object(value.__self__)
        if isinstance(value, functools.partial):
            self._leaves(value.args)
            self._object(value.keywords)
        inner = function_of(value)
        if isinstance(inner, types.FunctionType):
            if not of_library(inner.__module__):
                self._function(inner)
        elif inner is not value:
            self._visit(inner)
        elif isinstance(value, tuple | frozenset):
            self._leaves(value)
        elif isinstance(value, _CONSTANTS) or number(value) is not None:
            return self.found
        elif isinstance(value, contextvars.ContextVar):
            self._leaves(contents(value))
            self.found[id(value), None] = value, None
        elif is_array(value):
            if is_whole:
                self._array(value, name)
        elif self._object(value):
            return self.links
        elif isinstance(value, types.ModuleType):
            return None
        return self.found

    def _reads_environment(self, value: Any) -> bool:
        if value is os:
            return not _ENVIRONMENT.isdisjoint(self.code.names)
        return any(value is getattr(os, name) for name in _ENVIRONMENT if hasattr(os, name))

    def _leaves(self, value: tuple | frozenset) -> None:
        """Visits what lies in tuples, at any depth."""
        todo: list[Any] = [value]
        while todo:
            one = todo.pop()
            if isinstance(one, tuple | frozenset):
                todo += one
            elif not isinstance(one, _CONSTANTS):
                self._visit(one)

    def _array(self, value: Any, name: str) -> None:
        size = bytes_of(value)
        if size <= MOST_BYTES:
            self.elements.add((id(value), None))
            self.found[id(value), None] = value, None
        elif getattr(getattr(value, "flags", None), "writeable", True):
            self.large[name] = f"an array of {size} bytes"

    def _object(self, value: Any) -> bool:
        """Says whether it is an object whose attributes are searched."""
        if isinstance(value, types.ModuleType):
            foreign = _is_of(_LIBRARIES, value.__name__)
        else:  # a SimpleNamespace of a user is of the standard library
            foreign = _is_of(_FRAMEWORKS, getattr(type(value), "__module__", ""))
            foreign = foreign and not _is_torch_module(value)
        if len(self.objects) >= MOST_OBJECTS:
            self.large["what its names lead to"] = f"more than {MOST_OBJECTS} objects"
        elif not foreign and id(value) not in self.objects:
            self.objects[id(value)] = value
            if isinstance(value, _WRAPPERS):
                self._value(vars(value), "data", value.data)
        return not foreign

    def _elements(self, value: Any) -> None:
        """Notes the elements of a container; a class may say itself how it is walked through."""
        if not isinstance(value, _CONTAINERS) or (id(value), None) in self.found:
            return
        if id(value) in self.own:  # a list of what was traced holds nothing that the function reads
            return
        if isinstance(value, set | collections.deque) and type(value).__iter__ not in (
            set.__iter__, collections.deque.__iter__):  # fmt: skip
            return
        if len(value) > MOST_ELEMENTS:
            self.large[type(value).__name__] = f"{len(value)} elements"
            return
        self.elements.add((id(value), None))
        self.found[id(value), None] = value, None
        if isinstance(value, dict):
            pairs = [*dict.items(value)]
        else:
            pairs = [*enumerate(list.__iter__(value) if isinstance(value, list) else value)]
        has_places = isinstance(value, dict | list) and len(value) <= MOST
        for key, element in pairs:
            if has_places and type(key) in _KEYS:
                self.elements.add((id(value), key))
                self._value(value, key, element, "an element")
            else:
                self._visit(element)

    def _attributes(self, value: Any) -> None:
        own = None if isinstance(value, type) else getattr(value, "__dict__", None)
        own = own if isinstance(own, dict) else None
        dicts = [own, *map(own.get, _OF_MODULES)] if own else [own]  # those of torch.nn.Module
        kind = value if isinstance(value, type) else type(value)
        bases = {} if isinstance(value, types.ModuleType) else self._bases(kind)
        for name in [*self.code.names]:
            found = next((d for d in dicts if isinstance(d, dict) and name in d), None)
            if found is not None:
                self.attributes.add((id(found), name))
                self._value(found, name, found[name])
            elif name in bases and not of_library(bases[name].__module__):
                self._of_class(value, kind, own, name, vars(bases[name])[name])
            elif name in self.code.by_text and own is not None:  # it may get one later
                self.links[id(own), name] = own, name
        self._special_methods(kind, bases, id(value) in self.made)

    def _bases(self, kind: type) -> dict[str, type]:
        """The names in a class and its bases, with the first base that has it."""
        if kind not in self.bases:
            self.bases[kind] = {
                name: base for base in reversed(kind.__mro__) for name in vars(base)}  # fmt: skip
        return self.bases[kind]

    def _special_methods(self, kind: type, bases: dict[str, type], is_made: bool) -> None:
        """Visits the methods of an object that are called without their names."""
        wanted = self.code.special | _MAKERS if is_made else self.code.special
        if (kind, len(wanted)) in self.kinds:
            return
        self.kinds.add((kind, len(wanted)))
        for name in sorted(wanted & bases.keys()):
            inner = function_of(vars(bases[name])[name])
            code = getattr(inner, "__code__", None)
            if code and not is_installed(code) and code.co_filename != _WRITTEN:
                self._visit(inner)

    def _of_class(self, value: Any, kind: type, own: Any, name: str, member: Any) -> None:
        """Notes an attribute that the class of an object has."""
        if isinstance(member, types.MemberDescriptorType) and value is not kind:  # a slot
            place = value, name
            if not isinstance(value, dict | list | types.CellType | types.FunctionType):
                self.attributes.add((id(value), name))
                self.links[id(value), name] = place
                if (now := value_at(place)) is not MISSING:
                    self._value(value, name, now)
            return
        self.attributes.add((id(kind), name))
        self._value(kind, name, member)
        if isinstance(own, dict):  # the object may get its own
            self.attributes.add((id(own), name))
            self.links[id(own), name] = own, name
