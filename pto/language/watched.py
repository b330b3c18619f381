# SPDX-License-Identifier: Apache-2.0
"""Watches a traced method: what it reads of its object is a constant of the compilation.

    seen = watched(layer, reads)     # passes for the layer while its method is traced
    seen.eps                         # reads == {("eps",)}
    state(layer, reads)              # (its class, what these reads give now): part of the key

One kernel serves all objects of a class that agree in what the method reads, and the next call
notices a changed attribute: a number, a function, an element of a short NumPy array. Thread safety:
as a trace.
"""

import types
import weakref
from typing import Any, NoReturn

from pto.errors import Error, InvalidType
from pto.language import arguments
from pto.language.captures import MOST
from pto.language.location import fail

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
_COMPARED = (*_FUNCTIONS, types.MethodType, list, dict, set)
_MISSING = object()  # stands for an attribute that does not exist


class _Same:
    """Equal only to itself: stands for a value that cannot be compared."""

    __slots__ = ("what",)

    def __init__(self, what: Any):
        self.what = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.what is other.what

    def __hash__(self) -> int:
        return id(self.what)

    def __repr__(self) -> str:
        return f"a {type(self.what).__qualname__}"


class _Function(weakref.ref):
    """Equal only to one of the same function, which it keeps not alive: that may hold the object.
    Its text is the same in every process."""

    __slots__ = ()

    def __repr__(self) -> str:
        what = self()
        return f"{getattr(what, '__module__', '')}.{getattr(what, '__qualname__', what)}"


class _Kind(type):
    """The class of a watched object as type() gives it, with what the object's class has."""

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._watched_class, name)


class _Watched(metaclass=_Kind):
    __slots__ = ("_watched_object", "_watched_path", "_watched_reads")
    __class__ = property(lambda self: type(self._watched_object))
    _watched_class: type = object

    def __new__(cls, what: Any, path: tuple[str, ...], reads: set) -> "_Watched":
        kind = type(what)
        return object.__new__(
            _Kind(kind.__name__, (_Watched,), {"__slots__": (), "_watched_class": kind})
        )

    def __init__(self, what: Any, path: tuple[str, ...], reads: set):
        for name, value in zip(_Watched.__slots__, (what, path, reads), strict=True):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        what, path = self._watched_object, (*self._watched_path, name)
        value = getattr(what, name, _MISSING)
        if not name.startswith("__") and _is_compared(value):
            self._watched_reads.add(path)
        if isinstance(value, types.MethodType):
            return self._bound(value, path)
        if value is _MISSING:
            return getattr(what, name)  # raises the error of its class
        if _is_compared(value) or hasattr(value, "dtype"):
            return value
        return _Watched(value, path, self._watched_reads)

    def _bound(self, method: types.MethodType, path: tuple[str, ...]) -> types.MethodType:
        """A method as one of a watched object, of this one or another; a class is not watched."""
        owner = method.__self__
        if owner is self._watched_object:
            return types.MethodType(method.__func__, self)
        if isinstance(owner, type):
            return method
        other = _Watched(owner, (*path, "__self__"), self._watched_reads)
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


def watched(what: Any, reads: set) -> Any:
    """The object as a method sees it while it is traced; `reads` gets the paths that it reads."""
    return _Watched(what, (), reads)


def state(what: Any, reads: set) -> tuple:
    """The values that the reads give now, to be compared with other states."""
    return type(what), *((path, _at(what, path)) for path in sorted(reads))


def _at(what: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        what = getattr(what, name, _MISSING)
    return _key(what)


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "tobytes")


def _is_compared(value: Any) -> bool:
    """Says whether the value of an attribute is compared as a whole, not attribute by attribute."""
    if value is _MISSING or isinstance(value, _COMPARED):
        return True
    return _is_array(value) if hasattr(value, "dtype") else _constant(value) is not None


def _key(value: Any) -> Any:
    if value is _MISSING:
        return "no such attribute"
    if isinstance(value, types.MethodType):
        return _key(value.__func__)
    if isinstance(value, _FUNCTIONS):
        return _Function(value)
    if _is_array(value):
        return value.dtype.str, value.shape, value.tobytes() if value.size <= MOST else b""
    if isinstance(value, list | set):
        return type(value), *map(_key, value)
    if isinstance(value, dict):
        return dict, *((key, _key(one)) for key, one in value.items())
    found = _constant(value)
    return _Same(value) if found is None else found


def _constant(value: Any) -> tuple | None:
    """The form of a constant that is compared, in a tuple; None for any other value."""
    try:
        return (arguments.constant_key("", "", value),)
    except Error:
        return None
