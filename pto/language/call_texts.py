# SPDX-License-Identifier: Apache-2.0
"""Calls as text, for command lines and lists of what to package: "gelu(f32[:, :], 'tanh')".

    callables = functions_of(["softmax(f32[:, :])", "gelu(bf16[:, 64])"], [my_module, pto.ops])
    pto.package(callables, "kernels.pto")

A tensor is its element type and sizes; `:` is any size. f32[()] has no axes. Other arguments are
Python's literals, by place or by name. An operator has the name of its class or of its schema.
Thread safety: pure functions.
"""

import ast
import functools
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from pto.errors import InvalidValue, nearest
from pto.language.annotations import DYN, TensorType
from pto.language.dtypes import dtype
from pto.language.location import describe
from pto.language.op import Operator

MOST_ELEMENTS = 1 << 24
_FORM = "a call is written as in softmax(f32[:, 64], eps=1e-5)"


def functions_of(texts: Iterable[str], modules: list[Any]) -> dict[Any, list]:
    """{function: examples} of calls; a name is looked up in the modules, in this order, of which
    pto.ops is the last."""
    found: dict[Any, list] = {}
    for text in texts:
        name, args, kwargs = parsed(text)
        function = _function(name, modules)
        arguments = getattr(function, "arguments", ())  # of an operator
        names = getattr(function, "parameters", [a.name for a in arguments])
        example = {**dict(zip(names, args, strict=False)), **kwargs} if kwargs else args
        found.setdefault(function, []).append(example)
    return found


def expanded(lines: Iterable[str]) -> list[str]:
    """The calls of a list: # begins a comment, T is f32 and bf16, R one, two and three sizes, of
    which the first, a batch, is also 1."""
    calls = []
    for line in (line.partition("#")[0].strip() for line in lines):
        kinds = ("f32", "bf16") if re.search(r"\bT\[", line) else ("",)
        ranks = (":", ":, :", "1, :", ":, :, :", "1, :, :") if "[R]" in line else ("",)
        calls += [re.sub(r"\bT\[", f"{kind}[", line).replace("[R]", f"[{rank}]")
                  for kind in kinds for rank in ranks if line]  # fmt: skip
    return calls


def runs_of(texts: Iterable[str], modules: list[Any]) -> list[Callable[[], Any]]:
    """Functions that make these calls of operators once, with arrays of ones; free sizes are 2."""
    runs: list[Callable[[], Any]] = []
    for text in texts:
        name, args, kwargs = parsed(text)
        function = _function(name, modules)
        if not isinstance(function, Operator):
            raise InvalidValue(f"{name!r:.80} is no operator", f"it is {describe(function)}",
                               "name a member of pto.ops")  # fmt: skip
        kwargs = {key: _array(value) for key, value in kwargs.items()}
        runs.append(functools.partial(function, *map(_array, args), **kwargs))
    return runs


def _array(value: Any) -> Any:
    if not isinstance(value, TensorType):
        return value
    import numpy  # types alone need none

    from pto.language.dtypes import numpy_type

    shape = [size if isinstance(size, int) else 2 for size in value.sizes or ()]
    if math.prod(shape) > MOST_ELEMENTS:
        raise InvalidValue(f"{value!r} has {math.prod(shape)} elements",
                           f"the call is made with an array of at most {MOST_ELEMENTS}",
                           "write a colon for a size that is free")  # fmt: skip
    return numpy.ones(shape).astype(numpy_type(str(value.kind)))


def parsed(text: str) -> tuple[str, tuple, dict[str, Any]]:
    """The name of the function, and its arguments by place and by name."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or any(one.arg is None for one in call.keywords):
            raise ValueError("it is no call")
        args = tuple(_value(one) for one in call.args)
        return ast.unparse(call.func), args, {one.arg: _value(one.value) for one in call.keywords}
    except (SyntaxError, ValueError, TypeError, LookupError, RecursionError, MemoryError) as error:
        why = f"{error.args[0] if error.args else error}; {_FORM}"
        raise InvalidValue(f"the call {text.strip()!r:.80} cannot be read", why,
                           "correct it, and quote it for the shell") from None  # fmt: skip


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Subscript):
        index = node.slice
        sizes = index.elts if isinstance(index, ast.Tuple) else [index]
        return TensorType((*map(_size, sizes), dtype(ast.unparse(node.value).removeprefix("pto."))))
    return ast.literal_eval(node)


def _size(node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        if node.lower or node.upper or node.step:
            raise ValueError("a size is a number or a colon")
        return DYN
    size = ast.literal_eval(node)
    if type(size) is not int or size < 0:
        raise ValueError("a size is a number or a colon")
    return size


def _function(name: str, modules: list[Any]) -> Any:
    absent = object()
    for module in modules[-1:] if name.startswith("pto.ops.") else modules:
        found = module
        for part in name.removeprefix("pto.ops.").split("."):
            found = getattr(found, part, absent)
        found = found if callable(found) else _operator(name, module) or found
        if found is not absent and not callable(found):
            raise InvalidValue(f"{name!r:.80} is {describe(found)}", "it names no function to call",
                               "name one, as in pto.ops.gelu for one of ours")  # fmt: skip
        if found is not absent:
            return found
    known = {one for module in modules for one in dir(module)
             if one[0] != "_" and callable(getattr(module, one))}  # fmt: skip
    raise InvalidValue(f"there is no function {name!r:.80}", nearest(name, known),
                       "name one of the module, or of pto.ops")  # fmt: skip


def _operator(name: str, module: Any) -> Any:
    """The operator of a module whose schema has this name, with its namespace or without."""
    defined = (one for one in vars(module).values() if isinstance(one, Operator))
    return next((one for one in defined if name in (one.name, one.name.rpartition("::")[2])), None)
