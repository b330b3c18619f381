# SPDX-License-Identifier: Apache-2.0
"""Refuses a body that keeps state where no loop or branch carries it, and would read a stale value.

    state = {"n": 0}
    for i in pto.loop(8):
        state["n"] = state["n"] + 1         # refused: the body is traced once
        n = n + 1                           # carried

Lists, dicts, sets, objects, and variables of outer functions that a body can reach are compared
before and after its tracing; those that it makes itself, or only reads, are no concern. A variable
whose value is no tensor, number or tuple may be assigned anew in a body that does not read it
first.

Thread safety: as a trace.
"""

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.capture_search import function_of, of_library
from pto.language.carried import Undefined
from pto.language.closures import closure_of
from pto.language.code_reads import codes
from pto.language.location import describe, fail
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.language.ways import Way

_VALUES = (bool, int, float, str, bytes, type(None))
_MOST = 64  # elements of an array that is compared
_MISSING = object()
_PLAIN = types.SimpleNamespace
_BODIES = {
    "loop": ("the body of a loop",
             "it is traced once for all iterations, which carry variables and tensors alone; each "
             "would see what the first one saw"),
    "branch": ("a path of a branch",
               "both paths are traced, so the change would hold whichever of them runs"),
}  # fmt: skip


class NotCarried(Undefined):
    """Stands for the former value of a variable that a body changes."""

    def __init__(self, name: str, value: Any):
        what = f"{name} is read in the body of a loop that changes it"
        why = (
            f"in front of the loop it is {describe(value)}; a loop carries tensors, numbers and "
            "tuples of them from one iteration to the next"
        )
        fix = f"let {name} be a tensor, number or tuple; or assign it in the body before it is read"
        self.__dict__.update(_name=name, _told=(what, why, fix))


def held(kind: str, body: Callable, outer: dict[str, Any]) -> Callable:
    """The body of a loop or branch, with an error where it changes what it reaches from outside."""

    def run(*args: Any, **kwargs: Any) -> Any:
        before = [*_states(outer | {"": body})]
        found = body(*args, **kwargs)
        for path, owner, state in before:
            _compare(kind, state, _state(path, owner))
        return found

    return run


def check_names(trace: Trace, given: dict[str, Any], entered: dict[str, Any],
                found: dict[str, Any], body: Callable) -> None:  # fmt: skip
    """Refuses a body that reads a variable which it changes and which is not carried.

    It is traced a second time, without the values of such variables, where there are any.
    """
    changed = {
        name: NotCarried(name, value)
        for name, value in given.items()
        if entered[name] is value and not isinstance(value, Undefined)
        and not is_same(found.get(name, value), value)
    }  # fmt: skip
    if not changed:
        return
    trace.trials += 1
    try:
        again = Way(trace, "again", lambda: body(entered | changed)).found
    finally:
        trace.trials -= 1
    for name, nothing in changed.items():
        if again.get(name) is nothing:  # whether it was assigned hung on its value
            nothing.described()


def is_same(a: Any, b: Any) -> bool:
    """Says whether two values known while tracing are one; -0.0 is not 0.0."""
    if isinstance(a, _core.Dim):
        return a.same(b)
    if a is b or type(a) is not type(b):
        return a is b
    return repr(a) == repr(b) if type(a) is float else type(a) in _VALUES and a == b


def _states(outer: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Lists all that can be reached from variables and may change, with what it holds now."""
    seen: set[int] = set()
    waiting = [*outer.items()]
    for path, value in waiting:
        if id(value) not in seen:
            seen.add(id(value))
            if state := _state(path, value):
                waiting += state.items()
            if state or isinstance(value, list | dict | set | deque):
                yield path, value, state


def _state(path: str, value: Any) -> dict[str, Any]:
    """Returns what a value holds, by name; nothing where that cannot change, or is no concern."""
    function, kind = function_of(value), type(value)
    if isinstance(function, types.FunctionType):
        return _named(function) | {path: getattr(value, "__self__", None)}
    if isinstance(value, dict):
        return {f"{path}[{key!r}]": one for key, one in value.items()}
    if isinstance(value, list | tuple | set | deque):
        return {f"{path}[{place}]": one for place, one in enumerate(value)}
    if kind.__module__ == "numpy" and getattr(value, "size", _MOST + 1) <= _MOST:
        return {path: value.tobytes()}
    if isinstance(value, type) or of_library(kind.__module__) and kind is not _PLAIN:
        return {}
    slots = [name for base in kind.__mro__ for name in vars(base).get("__slots__", ())]
    own = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    own |= getattr(value, "__dict__", {})
    return {f"{path}.{name}": one for name, one in own.items()
            if not isinstance(getattr(kind, name, None), functools.cached_property)}  # fmt: skip


def _named(function: types.FunctionType) -> dict[str, Any]:
    """The values of variables around a function of the user's that its code names."""
    if of_library(function.__module__):
        return {}
    names = {name for code in codes(function.__code__) for name in code.co_names}
    found = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
    return found | {name: cell.cell_contents for name, cell in closure_of(function).items()}


def _compare(kind: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    for path in before | after:
        a, b = before.get(path, _MISSING), after.get(path, _MISSING)
        if not is_same(a, b):
            body, why = _BODIES[kind]
            fail(
                f"{body} changes {path}: {_shown(a)} becomes {_shown(b)}",
                why,
                "keep it in a variable that the body assigns: n = n + 1; or in a tensor: "
                "t = pto.zeros([8]) in front of it, t[i] = value inside",
                InvalidType,
            )


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    return repr(value) if isinstance(value, Tensor) else describe(value)
