# SPDX-License-Identifier: Apache-2.0
"""Watches a traced method: what it reads of its object is a constant of the compilation.

    seen = watched(layer, reads)     # passes for the layer while its method is traced
    seen.eps                         # reads == {("eps",)}
    state(layer, reads)              # (its class, what these reads give now): part of the key

One kernel serves all objects of a class that agree in what the method reads, and the next call
notices a changed attribute. Thread safety: as a trace.
"""

import types
from typing import Any, NoReturn

from pto.errors import Error, InvalidType
from pto.language import arguments
from pto.language.location import fail

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)


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


class _Watched:
    __slots__ = ("_watched_object", "_watched_path", "_watched_reads")
    __class__ = property(lambda self: type(self._watched_object))

    def __init__(self, what: Any, path: tuple[str, ...], reads: set):
        for name, value in zip(_Watched.__slots__, (what, path, reads), strict=True):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        what, path = self._watched_object, (*self._watched_path, name)
        value = getattr(what, name)
        if isinstance(value, types.MethodType) and value.__self__ is what:
            return types.MethodType(value.__func__, self)
        if isinstance(value, _FUNCTIONS) or hasattr(value, "dtype"):
            return value
        if _constant(value) is None and not isinstance(value, list | dict | set):
            return _Watched(value, path, self._watched_reads)
        self._watched_reads.add(path)
        return value

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
        try:
            what = getattr(what, name)
        except AttributeError:
            return "no such attribute"
    return _key(what)


def _key(value: Any) -> Any:
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
