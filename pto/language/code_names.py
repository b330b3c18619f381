# SPDX-License-Identifier: Apache-2.0
"""Finds what the code of a function names: its loops, and the functions that it calls.

    has_loops(f)            # f, or a plain function that f calls, loops over pto.loop
    loops_in_call(g)        # g is such a function, whose text has to be read

Thread safety: pure functions.
"""

import types
from collections.abc import Iterator
from typing import Any

from pto.language.capture_search import of_library
from pto.language.closures import closure_of
from pto.language.control import loop


def has_loops(function: types.FunctionType) -> bool:
    """Says whether the code of a function names pto.loop or pto.loop_unroll, or that of a plain
    function which it names."""
    return any(_is_loop(value) for one in with_called(function) for value in named(one))


def loops_in_call(value: Any) -> bool:
    """Says whether a value is a plain function of the user's with loops of the program."""
    return _is_plain(value) and has_loops(value)


def with_called(function: types.FunctionType) -> list[types.FunctionType]:
    """A function and the plain ones that it names, which run as parts of it, and so on."""
    found = {function: None}
    waiting = [function]
    while waiting:
        new = [value for value in named(waiting.pop()) if _is_plain(value) and value not in found]
        found |= dict.fromkeys(new)
        waiting += new
    return [*found]


def named(function: types.FunctionType) -> Iterator[Any]:
    """The values that the code of a function names, by themselves or in a module."""
    code = function.__code__
    found = [function.__globals__.get(name) for name in code.co_names]
    found += [cell.cell_contents for cell in closure_of(function).values()]
    for value in found:
        yield value
        if isinstance(value, types.ModuleType):
            yield from (vars(value).get(name) for name in code.co_names)


def _is_loop(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, loop)


def _is_plain(value: Any) -> bool:
    """Says whether it is a Python function without a mark, and of no library."""
    return (isinstance(value, types.FunctionType) and not of_library(value.__module__)
            and not hasattr(value, "__wrapped__"))  # fmt: skip
