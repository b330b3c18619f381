# SPDX-License-Identifier: Apache-2.0
"""@operation: checks the arguments of every function of the language before its body runs.

    @operation
    def mean(x: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor: ...

    mean(x)                  # traced: records operations
    mean(numpy.ones((2, 3))) # on arrays, outside a traced function: compiled like one and run

The annotations say what an argument must be: Tensor, bool, str, float (a number) or float | Tensor;
the body checks other annotations.
"""

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, get_args

from pto.errors import InvalidType
from pto.language.arguments import TRACED, classify
from pto.language.location import describe, fail
from pto.language.tensor import Tensor

Result = TypeVar("Result")
_TAKES_MORE = 0x04  # code flag: *args
_compiled: Callable[[Callable], Callable] | None = None
_SENTENCES = {
    Tensor: (
        "a tensor",
        "pass a parameter of a function under @pto.jit, what it computed, or outside it an array",
    ),
    bool: ("a bool", "pass True or False"),
    str: ("a string", "pass a str"),
    float: ("a number", "pass an int or a float"),
    float | Tensor: ("a number or a tensor", "pass an int, a float or a tensor"),
}


def names_of(function: Callable) -> tuple[str, ...]:
    """The names of a plain function's parameters, those by name only the last."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def operation(function: Callable[..., Result]) -> Callable[..., Result]:
    """Wraps a function of the language: checks by annotations, and calls on arrays."""
    names = names_of(function)
    kinds = {name: found for name in names if (found := _kind(function.__annotations__.get(name)))}
    positional = names[: function.__code__.co_argcount]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        is_traced = any(isinstance(v, Tensor) for v in (*args, *kwargs.values()))
        is_tensor = _is_traced if is_traced else _is_array
        for name, value in (*zip(positional, args, strict=False), *kwargs.items()):
            kind, optional = kinds.get(name, (Tensor, True))
            is_none = optional and value is None
            if name in kinds and not is_none and not _fits(value, kind, is_tensor):
                _refuse(function.__name__, name, value, kind)
        return function(*args, **kwargs) if is_traced else _on_arrays(function, args, kwargs)

    return checked


def compile_with(compiled: Callable[[Callable], Callable]) -> Callable:
    """Sets what makes a function of the language run on arrays: jit.py passes it."""
    global _compiled
    _compiled = compiled
    return compiled


def method(*names: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Makes a function also a method of Tensor: under its own name, or under these."""

    def attach(function: Callable[..., Result]) -> Callable[..., Result]:
        checked = operation(function)
        for name in names or (function.__name__,):
            setattr(Tensor, name, checked)
        return checked

    return attach


def must_be_traced(name: str, x: Any, fix: str) -> None:
    """Refuses arrays and others, for a function of the language that does not run on arrays."""
    if not isinstance(x, Tensor):
        fail(
            f"{name}: {describe(x)} is no traced tensor",
            f"pto.{name} works on the tensors of a function under @pto.jit",
            fix,
            InvalidType,
        )


def a_sequence(name: str, role: str, value: Any) -> tuple:
    """The members of a tuple or list; raises InvalidType for anything else."""
    if not isinstance(value, tuple | list):
        fail(f"{name}: {role}: {describe(value)}", "several values come in a tuple or list",
             "pass a tuple or list", InvalidType)  # fmt: skip
    return tuple(value)


def _kind(annotation: Any) -> tuple[Any, bool] | None:
    """The kind to check and whether None is one too."""
    if annotation == float | Tensor:
        return annotation, False
    [*members] = get_args(annotation) or (annotation,)
    kinds = [m for m in members if m is not type(None)]
    return (kinds[0], len(members) > 1) if kinds[0] in _SENTENCES and len(kinds) == 1 else None


def _is_traced(value: Any) -> bool:
    return isinstance(value, Tensor)


def _is_array(value: Any) -> bool:
    return classify(type(value)) > TRACED


def _fits(value: Any, kind: Any, is_tensor: Callable[[Any], bool]) -> bool:
    if kind is Tensor:
        return is_tensor(value)
    if kind == float | Tensor:
        return is_tensor(value) or _fits(value, float, is_tensor)
    if kind is bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if kind is float:
        return (
            isinstance(value, int | float | Tensor)
            or type(value).__module__ == "numpy"
            and (getattr(value, "ndim", None) == 0)
        )
    return isinstance(value, kind)


def _refuse(function: str, name: str, value: Any, kind: Any) -> NoReturn:
    what, fix = _SENTENCES[kind]
    if kind is Tensor and _is_array(value):
        fix = "make it a parameter: a traced function reads what it captures only once"
    fail(f"{function}: {name} is {describe(value)}", f"{name} must be {what}", fix, InvalidType)


def _on_arrays(function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    values = (*args, *kwargs.values())
    if not any(map(_is_array, values)):
        given = ", ".join(map(describe, values)) or "none"
        fail(
            f"{function.__name__}: no argument is a traced tensor or an array; they are {given}",
            "pto's functions compute on the tensors of a traced function, or on arrays",
            "call it on a parameter of a function under @pto.jit, or on a NumPy or torch array",
            InvalidType,
        )
    if function.__code__.co_flags & _TAKES_MORE:
        fail(
            f"{function.__name__}: the tensor is {describe(values[0])}",
            "outside a traced function it would only change the shape that an array has",
            f"use the array's own {function.__name__}",
            InvalidType,
        )
    assert _compiled is not None
    return _compiled(function)(*args, **kwargs)
