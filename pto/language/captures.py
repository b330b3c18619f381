# SPDX-License-Identifier: Apache-2.0
"""Finds what a traced function reads beside its parameters: places whose values become constants.

    EPSILON = 1e-5
    def scale(x): return x * EPSILON
    pto.jit(scale).captured()   # (((globals, "EPSILON"),), (), ())

    found = fingerprint(scale, ())
    found.text          # the same in every process with the same source and values
    found.is_current()  # False once a captured value is another one

The search (capture_search.py) does not run the function but follows the names in its code: global
names, closures, attributes of modules, classes and plain objects, elements of containers and
arrays, and the same in functions that it calls, with their defaults and codes. Each call of a
jitted function compares the values (bindings/captures.cpp) and compiles anew if one has changed;
where another object stands on the way to a value, it searches again. Not seen: what code of
libraries and methods that dataclass() writes read, whose fields may be many and change often; and
elements beyond MOST_ELEMENTS and MOST_BYTES, of which a warning tells. Places
that the function itself changes while it is traced, such as a counter of traces, do not count.
"""

import contextlib
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from pto import _core
from pto.language.capture_search import (
    MISSING,
    OF_FUNCTIONS,
    Key,
    Place,
    Places,
    Search,
    contents,
    function_of,
    value_at,
)
from pto.language.code_reads import CodeReads, codes
from pto.language.location import user_line, warn_at


def _same(a: Any, b: Any) -> bool:
    """Says whether a value is the object, the bytes or the elements that it was."""
    if type(a) is type(b) is tuple and len(a) == len(b):
        return all(x is y for x, y in zip(a, b, strict=True))
    return a is b or (type(a) is type(b) is bytes and a == b)


class Capturing:
    """A compiled function knows what it captures, and what of it the function changes itself."""

    contents = staticmethod(contents)  # bindings/captures.cpp asks for it
    __name__: str
    __wrapped__: Callable
    reads: dict[type, set]  # by the classes of a method's objects
    own: dict[Key, Place]  # changed while it was traced
    grown: dict[Key, Place]  # new since
    code: CodeReads  # names that it and what it calls read
    told: set[str]  # those of what is too large to be compared

    def captured(self) -> tuple[Places, Places, Places]:
        """The places, beside its parameters, whose values are constants of the kernels; those of
        the objects on the way to them; and which of the first do not count."""
        search = Search(self.__wrapped__, tuple(self.reads))
        for name, size in search.large.items():
            if name not in self.told:
                self.told.add(name)
                _warn_of_large(self.__name__, name, size)
        places = {key: place for key, place in search.found.items() if key not in self.grown}
        links = tuple(place for key, place in search.links.items() if not self.is_own(key))
        own = tuple(place for key, place in places.items() if key in self.own)
        return tuple(places.values()), links, own

    def is_own(self, key: Key) -> bool:
        """Says whether the function was seen to change what is at a place."""
        return key in self.own or key in self.grown

    @contextlib.contextmanager
    def noting_own(self, *objects: Any) -> Iterator[None]:
        """Notes the places that change while the function is traced here, as a method of objects,
        and the names that it reads."""
        search = Search(self.__wrapped__, tuple(self.reads), objects)
        places = {**search.found, **search.links}
        self.code.merge(search.code)
        before = {key: value_at(places[key]) for key in search.suspects if key in places}
        try:
            yield
        finally:
            own = [key for key, value in before.items()
                   if not _same(value, value_at(places[key]))]  # fmt: skip
            self.own |= {key: places[key] for key in own}
            if own:
                search = Search(self.__wrapped__, tuple(self.reads), objects)
                places = {**search.found, **search.links}
                self.grown |= {key: places[key] for key in search.suspects & places.keys()
                               if key not in before}  # fmt: skip


def _warn_of_large(function: str, name: str, size: str) -> None:
    text = (
        f"{function}: captures {name}, {size}, which no call compares"
        "\n  why: what a function captures is a constant of its compilation; each call compares "
        "what is small, but keeps what it read of this"
        "\n  fix: make it a parameter; or, where it never changes, a tuple, or an array whose "
        "flags.writeable is False"
    )
    warn_at(user_line(), text)


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
        """Says whether every captured value is still what it was."""
        return all(_same(value_at(place), value) for place, value in self.values)


def fingerprint(
    function: types.FunctionType, classes: Iterable[type], is_own: Callable[[Key], bool]
) -> Fingerprint:
    """The fingerprint of a Python function, of a method for objects of these classes, without what
    it changes itself."""
    search = Search(function, classes)
    print_ = _Print(list(search.functions))
    for one in search.functions.values():
        print_.function(one)
    places = [place for key, place in search.found.items() if not is_own(key)]
    links = [place for key, place in search.links.items() if not is_own(key)]
    values = [(place, value_at(place)) for place in (*places, *links)]
    for number, ((owner, name), value) in enumerate(values):
        if isinstance(owner, types.FunctionType) and name in OF_FUNCTIONS:
            continue  # written already
        if number < len(places):
            print_.texts.append(f"name {name}")
        print_.value(value)
    return Fingerprint("\n".join(print_.texts), tuple(print_.objects), tuple(values))


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
        if value is MISSING:
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
