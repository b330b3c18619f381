# SPDX-License-Identifier: Apache-2.0
"""Fingerprint: identifies a function, so that equal functions share an operator.

    found = fingerprint(function)
    found.text          # the same in every process with the same source
    found.is_current()  # False once a value that the function captures is another one

It covers the code and what the code names: cells, globals, functions and so on. Numbers, texts and
tuples of these count by value; any other object equals only itself. Thread safety: immutable.
"""

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pto import _core

_MISSING = object()


@dataclass(frozen=True)
class Fingerprint:
    """`text` for all processes, `objects` that tell functions of this process apart."""

    text: str
    objects: tuple[Any, ...]
    captured: tuple[tuple[Callable[[], Any], Any], ...]  # how to read a value, and what it was

    @property
    def key(self) -> tuple:
        return self.text, tuple(map(id, self.objects))

    def is_current(self) -> bool:
        """Says whether every captured value is still the object that it was."""
        return all(read() is value for read, value in self.captured)


def fingerprint(function: Callable) -> Fingerprint:
    """The fingerprint of a Python function."""
    walk = _Walk()
    walk.function(function)
    return Fingerprint("\n".join(walk.texts), tuple(walk.objects), tuple(walk.captured))


class _Walk:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.objects: list[Any] = []
        self.captured: list[tuple[Callable[[], Any], Any]] = []
        self.seen: set[int] = set()

    def function(self, function: Callable) -> None:
        if id(function) in self.seen:
            self.texts.append("again")
            return
        self.seen.add(id(function))
        code = function.__code__
        self.texts.append(f"def {function.__module__}.{function.__qualname__}")
        self.code(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.capture(name, _cell_reader(cell))
        for name in sorted(_global_names(code)):
            self.capture(name, _global_reader(function.__globals__, name))
        for default in (function.__defaults__ or (), function.__kwdefaults__ or {}):
            self.value(tuple(default.items()) if isinstance(default, dict) else default)

    def code(self, code: types.CodeType) -> None:
        self.texts.append(f"code {code.co_code.hex()} {code.co_names} {code.co_varnames}")
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.code(constant)
            else:
                self.texts.append(repr(constant))

    def capture(self, name: str, read: Callable[[], Any]) -> None:
        value = read()
        if value is _MISSING:  # a builtin, or a name that is not there yet
            return
        self.captured.append((read, value))
        self.texts.append(f"name {name}")
        self.value(value)

    def value(self, value: Any) -> None:
        if isinstance(value, _core.FastCall):
            value = value.__wrapped__
        if value is None or isinstance(value, bool | int | float | str | bytes):
            self.texts.append(f"{type(value).__qualname__} {value!r}")
        elif isinstance(value, tuple):
            self.texts.append(f"tuple {len(value)}")
            for one in value:
                self.value(one)
        elif isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, types.ModuleType):
            self.texts.append(f"module {value.__name__}")
        else:
            self.texts.append(f"a {type(value).__module__}.{type(value).__qualname__}")
            self.objects.append(value)


def _cell_reader(cell: Any) -> Callable[[], Any]:
    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # empty
            return _MISSING

    return read


def _global_reader(names: dict[str, Any], name: str) -> Callable[[], Any]:
    return lambda: names.get(name, _MISSING)


def _global_names(code: types.CodeType) -> Iterator[str]:
    """The names that the code and what is defined in it use: globals, and attributes too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
