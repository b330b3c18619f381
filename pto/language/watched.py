# SPDX-License-Identifier: Apache-2.0
"""Watches a traced method: what it reads of its object is a constant of the compilation.

    seen = watched(layer, reads, code)   # passes for the layer while its method is traced
    seen.eps                             # reads == {("eps",)}
    state(layer, reads, code)            # (its class, what these reads give): part of the key

One kernel serves all objects of a class that agree in what the method reads, and the next call
notices a changed attribute: a number, a function, an element of an array that is not large. Where
code asks which object an attribute is, by `is` or a built-in comparison, that counts too. What
reads `__dict__` or the class sees them as they are. Thread safety: as a trace.
"""

import collections
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from pto.errors import Error, InvalidType
from pto.language import arguments
from pto.language.capture_search import MOST_BYTES, bytes_of, contents, is_array, of_library
from pto.language.closures import closure_of
from pto.language.code_reads import CodeReads
from pto.language.location import fail

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
_COMPARED = (*_FUNCTIONS, types.MethodType, functools.partial, list, tuple, dict, set, frozenset,
             collections.deque, bytearray)  # fmt: skip
_SPECIAL = {"__len__", "__getitem__", "__iter__", "__next__", "__contains__", "__bool__"}
_MISSING = object()  # stands for an attribute that does not exist


class _Same:
    """Equal only to itself: stands for a value that cannot be compared, which it keeps alive only
    where it must."""

    __slots__ = ("of", "kind", "number")

    def __init__(self, what: Any):
        self.kind, self.number = type(what), id(what)
        try:
            self.of: Any = weakref.ref(what)
        except TypeError:
            self.of = lambda: what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and (what := self.of()) is not None and what is other.of()

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"a {self.kind.__qualname__}"


class _Function(weakref.ref):
    """Equal only to one of the same function, which it keeps not alive: that may hold the object.
    Its text is the same in every process."""

    __slots__ = ()

    def __repr__(self) -> str:
        what = self()
        return f"{getattr(what, '__module__', '')}.{getattr(what, '__qualname__', what)}"


# Attributes of ours: torch.compile looks at objects before they have them.
_OWN = {"_watched_object", "_watched_path", "_watched_reads", "_watched_code", "_watched_class"}


class _Kind(type):
    """The class of a watched object as type() gives it, with what the object's class has."""

    def __getattr__(cls, name: str) -> Any:
        if name in _OWN:
            raise AttributeError(name)
        value = getattr(cls._watched_class, name, _MISSING)
        if not name.startswith("__") and _is_compared(value):
            cls._class_reads.add((*cls._class_path, "__class__", name))
        return getattr(cls._watched_class, name) if value is _MISSING else value

    @property
    def __dict__(cls) -> Any:  # type: ignore[override]
        return cls._watched_class.__dict__


class _Watched(metaclass=_Kind):
    __slots__ = ("_watched_object", "_watched_path", "_watched_reads", "_watched_code")
    __class__ = property(lambda self: type(self._watched_object))
    _watched_class: type = object

    def __new__(cls, what: Any, path: tuple[str, ...], reads: set, code: CodeReads) -> "_Watched":
        kind = type(what)
        members = {"_watched_class": kind, "_class_reads": reads, "_class_path": path}
        members |= {name: getattr(kind, name) for name in _SPECIAL if hasattr(kind, name)}
        made = object.__new__(_Kind(kind.__name__, (_Watched,), {"__slots__": (), **members}))
        # Not in __init__, whose frame would show torch.compile an object without its slots.
        for name, value in zip(_Watched.__slots__, (what, path, reads, code), strict=True):
            object.__setattr__(made, name, value)
        return made

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:
            raise AttributeError(name)
        what, path = self._watched_object, (*self._watched_path, name)
        value = getattr(what, name, _MISSING)
        if (name == "__dict__" or not name.startswith("__")) and _is_compared(value):
            self._watched_reads.add(path)
        if isinstance(value, types.MethodType):
            return self._bound(value, path)
        if value is _MISSING:
            return getattr(what, name)  # raises the error of its class
        if _is_compared(value) or hasattr(value, "dtype"):
            return value
        if self._watched_code.compares_objects:  # as it is, for `is`
            self._watched_reads.add(path)
            return value
        return _Watched(value, path, self._watched_reads, self._watched_code)

    def _bound(self, method: types.MethodType, path: tuple[str, ...]) -> types.MethodType:
        """A method as one of a watched object, of this one or another; a class is not watched."""
        owner = method.__self__
        if owner is self._watched_object:
            return types.MethodType(method.__func__, self)
        if isinstance(owner, type):
            return method
        other = _Watched(owner, (*path, "__self__"), self._watched_reads, self._watched_code)
        return types.MethodType(method.__func__, other)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        fail(
            f"writing {name} of an object",
            "a method is traced once for many calls; it computes new tensors and changes nothing",
            "return the new value, and set it outside of the compiled method",
            InvalidType,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return type(self._watched_object).__call__(self, *args, **kwargs)

    def _by_class(self, name: str, *others: Any) -> Any:
        """Calls a special method of the class; a built-in one gets the objects as they are, which
        count as a whole."""
        own = getattr(type(self._watched_object), name)
        if isinstance(own, types.FunctionType):
            return own(self, *others)
        return own(*map(self._whole, (self, *others)))

    def _whole(self, one: Any) -> Any:
        if not isinstance(one, _Watched):
            return one
        self._watched_reads.add(one._watched_path)
        return one._watched_object

    def __ne__(self, other: object) -> Any:
        if type(self._watched_object).__ne__ is not object.__ne__:
            return self._by_class("__ne__", other)
        equal = self == other
        return equal if equal is NotImplemented else not equal


def _special_method(name: str) -> Callable:
    return lambda self, *others: self._by_class(name, *others)


for _name in ("__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"):
    setattr(_Watched, _name, _special_method(_name))


def watched(what: Any, reads: set, code: CodeReads) -> Any:
    """The object as a method sees it while it is traced; `reads` gets the paths that it reads, and
    `code` knows how the method and what it calls look at objects."""
    return _Watched(what, (), reads, code)


def state(what: Any, reads: set, code: CodeReads) -> tuple:
    """The values that the reads give now, to be compared with other states; `code` has the names
    that the method and what it calls read of any object."""
    keys = _Keys(code, what)
    return type(what), *((path, keys.at(what, path)) for path in sorted(reads))


def _is_compared(value: Any) -> bool:
    """Says whether the value of an attribute is compared as a whole, not attribute by attribute."""
    if value is _MISSING or isinstance(value, _COMPARED):
        return True
    return is_array(value) if hasattr(value, "dtype") else _constant(value) is not None


class _Keys:
    """Makes what is compared of values. An object inside of a container equals only itself, with
    equal attributes of the names that code reads."""

    def __init__(self, code: CodeReads, what: Any):
        self.code = code
        self.seen = {id(what)}  # each object is looked into once

    def at(self, what: Any, path: tuple[str, ...]) -> Any:
        for name in path:
            what = getattr(what, name, _MISSING)
        return self.key(what, path[-1] in self.code.whole) if path else _Same(what)

    def key(self, value: Any, is_whole: bool = True) -> Any:
        if value is _MISSING:
            return "no such attribute"
        if isinstance(value, types.MethodType):
            return self.key(value.__func__)
        if isinstance(value, types.FunctionType):
            return _Function(value), *self._captured(value)
        if isinstance(value, _FUNCTIONS):
            return _Function(value)
        if is_array(value) and hasattr(value, "dtype"):
            is_compared = is_whole and bytes_of(value) <= MOST_BYTES
            return str(value.dtype), tuple(value.shape), contents(value) if is_compared else b""
        is_container = isinstance(value, _COMPARED)
        if not is_container and (found := _constant(value)) is not None:
            return found
        return _Same(value) if id(value) in self.seen else self._of_object(value)

    def _captured(self, function: types.FunctionType) -> tuple:
        """Keys of all that a function of the user reads beside its parameters."""
        if id(function) in self.seen or of_library(function.__module__):
            return ()
        self.seen.add(id(function))
        around = function.__globals__
        read = [around[name] for name in function.__code__.co_names if name in around]
        cells = [cell.cell_contents for cell in closure_of(function).values()]
        given = (function.__defaults__ or (), function.__kwdefaults__ or {})
        return tuple(map(self.key, (*read, *cells, *given)))

    def _of_object(self, value: Any) -> Any:
        self.seen.add(id(value))
        if isinstance(value, functools.partial):
            return functools.partial, *map(self.key, (value.func, value.args, value.keywords))
        if isinstance(value, dict):
            return dict, *((key, self.key(one)) for key, one in value.items())
        if isinstance(value, bytearray):
            return bytearray, bytes(value)
        if isinstance(value, _COMPARED):
            return type(value), *map(self.key, value)
        own = getattr(value, "__dict__", None)
        read = [name for name in own if name in self.code.names] if isinstance(own, dict) else []
        return _Same(value), *((n, self.key(own[n], n in self.code.whole)) for n in read)


def _constant(value: Any) -> tuple | None:
    """The form of a constant that is compared, in a tuple; None for any other value."""
    if arguments.classify(type(value)) == arguments.UNKNOWN:
        return None  # without the text of an error
    try:
        return (arguments.constant_key("", "", value),)
    except Error:
        return None
