# SPDX-License-Identifier: Apache-2.0
"""Handles calls of operators that the compiled call leaves: traced, a framework's, or mistaken."""

import functools
from typing import Any, NoReturn

from pto.errors import InvalidType, InvalidValue
from pto.language import adapters
from pto.language.arguments import (
    CONSTANT,
    STRUCTURE,
    UNKNOWN,
    adapter,
    classify,
    is_typed,
    refuse,
)
from pto.language.location import fail
from pto.language.tensor import Tensor
from pto.schema import checked

_STRICT = {"torch"}  # adapters of libraries that take no NumPy arrays beside their own


def call(operator: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result inside a traced function or by a framework's adapter; raises what is wrong."""
    if "out" in kwargs and operator.member("bounded") and "out" not in operator.by_name:
        raise InvalidValue(
            f"{operator.name}: called with out=, but the size of its result is not known before it "
            "ran",
            "out must have the size of the result",
            "call without out=, and copy the result to its place",
        )
    name = _one_library(args, kwargs)
    if not name:
        given = [t for v in (*args, *kwargs.values()) for t in (v if _is_list(v) else [v])]
        for value in given:  # a packed weight
            if hasattr(type(value), "call_operator"):
                return value.call_operator(operator, operator.bind(args, kwargs))
        if any(isinstance(t, Tensor) for t in given):
            build = operator.member("build") or _refuse_tracing(operator.name)
            return build(*operator.bind(args, kwargs).values())
        name = _adapter_of(operator.name, given) or _refuse_call(
            operator, operator.bind(args, kwargs)
        )
    framework = adapters.load(name)
    try:
        return framework.call(operator.name, args, kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if "why:" not in str(error):  # the framework's own text: ours says more
            _check_kinds(operator, operator.bind(args, kwargs))
        raise


_NUMBERS = frozenset({int, float, bool, str, type(None)})


def _one_library(args: tuple, kwargs: dict[str, Any]) -> str:
    """The adapter of a call whose values are arrays of one type, lists of these and numbers: most
    calls."""
    kinds: set[type] = set()
    for value in (*args, *kwargs.values()):
        if _is_list(value):
            kinds.update(map(type, value))
        else:
            kinds.add(type(value))
    kinds -= _NUMBERS
    return _adapter_of_plain(kinds.pop()) if len(kinds) == 1 else ""


@functools.cache
def _adapter_of_plain(kind: type) -> str:
    """The adapter of arrays of this type; "" of traced tensors, packed weights and lists."""
    is_ours = issubclass(kind, Tensor) or hasattr(kind, "call_operator")
    return adapter(kind) if is_typed(kind) and not is_ours else ""


def _refuse_tracing(name: str) -> NoReturn:
    fail(
        f"{name}: called on a traced tensor, but its kernel is written by hand in C++",
        "a traced function becomes one kernel of pto's operations and cannot contain another",
        f"split the function: call pto.ops.{name} on arrays, between two functions",
        InvalidType,
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple | list)


def _adapter_of(function: str, values: list) -> str:
    """The adapter that takes a call with these values, "" for none."""
    arrays = [v for v in values if is_typed(v)]
    found = {name: v for v in arrays if (name := adapter(type(v)))}
    if len(found) > 1 or (_STRICT & found.keys() and not all(adapter(type(v)) for v in arrays)):
        other = next(v for v in arrays if adapter(type(v)) != adapter(type(arrays[0])))
        refuse(function, "an argument", other, "mixed libraries", type(arrays[0]).__name__)
    return next(iter(found), "")


def _check_kinds(operator: Any, values: dict[str, Any]) -> int:
    """Raises what is wrong with the kinds of the values; returns how many arrays there are."""
    count = 0
    for argument in operator.arguments:
        value = checked(operator.name, operator.schema, argument, values[argument.name])
        members = (value if _is_list(value) else [value]) if argument.is_tensor else []
        for member in members if value is not None or not argument.optional else []:
            if classify(type(member)) in (UNKNOWN, CONSTANT, STRUCTURE):
                refuse(operator.name, argument.name, member, "no array", "")
            count += 1
    return count


def _refuse_call(operator: Any, values: dict[str, Any]) -> NoReturn:
    if _check_kinds(operator, values) == 0:
        refuse(operator.name, operator.name, None, "no tensor", "")
    raise InvalidValue(
        f"{operator.name}: an attribute does not fit into 64 bits",
        f"the signature is {operator.schema}",
        "pass a smaller number",
    )
