# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors as arguments of a program: `pto.jit(add)([a, b], [c])`.

A parameter that the text uses as a list (`inputs[0]`, a loop over it, `a, b = inputs`) gets a list
of traced tensors. Any other one stands for the tensor of a list of one. A function with a parameter
for each tensor gets them one by one.

Thread safety: as of a jitted function.
"""

import ast
import types
from collections.abc import Callable
from typing import Any

from pto.errors import InvalidType
from pto.language.location import user_line
from pto.language.operation import names_of


def flattened(function: Callable, definition: ast.FunctionDef | None, names: list[str],
              required: int, counts: tuple) -> types.FunctionType:  # fmt: skip
    """The function of all tensors one by one; `counts` has the length of each list, else None.

    `required` of the parameters with these names have no default.
    """
    total = sum(1 if count is None else count for count in counts)
    if not required <= len(counts) <= len(names):
        if not required <= total <= len(names):
            raise InvalidType(
                f"{function.__name__}: {len(counts)} arguments with {total} tensors for "
                f"{len(names)} parameters",
                "each parameter gets a list, or a tensor",
                f"pass {required} arguments, or {required} tensors in lists",
                user_line(),
            )
        return _built(function, names[:total], names[:total], names[:total])
    flat, given = [], []
    for name, count in zip(names, counts, strict=False):
        own = [name] if count is None else [f"{name}_{i}" for i in range(count)]
        flat += own
        is_one = count is None or (count == 1 and not _is_used_as_list(definition, name))
        given.append(own[0] if is_one else f"[{', '.join(own)}]")
    return _built(function, names, flat, given)


def _built(function: Callable, parameters: list[str], flat: list[str],
           given: list[str]) -> types.FunctionType:  # fmt: skip
    """A function of the names in `flat`; `given` has the expression for each parameter."""
    by_name = names_of(function)[function.__code__.co_argcount :]
    passed = [f"{name}={one}" if name in by_name else one
              for name, one in zip(parameters, given, strict=False)]  # fmt: skip
    text = f"def {function.__name__}({', '.join(flat)}):\n    return __of({', '.join(passed)})\n"
    names: dict[str, Any] = {"__of": function}
    exec(compile(text, "<lists of tensors>", "exec"), names)  # noqa: S102 names of parameters
    return names[function.__name__]


def _is_used_as_list(definition: ast.FunctionDef | None, name: str) -> bool:
    if definition is None:
        return True

    def is_it(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == name

    return any(_as_list(node, is_it) for node in ast.walk(definition))


def _as_list(node: ast.AST, is_it: Callable[[ast.AST], bool]) -> bool:
    """Says whether a node uses a variable in a way that a tensor would not be used."""
    if isinstance(node, ast.Subscript):
        at = node.slice
        return is_it(node.value) and isinstance(at, ast.Constant) and isinstance(at.value, int)
    if isinstance(node, ast.For | ast.comprehension):
        return is_it(node.iter)
    if isinstance(node, ast.Starred):
        return is_it(node.value)
    if isinstance(node, ast.Assign):
        several = any(isinstance(target, ast.Tuple | ast.List) for target in node.targets)
        return is_it(node.value) and several
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("len", "enumerate", "zip") and any(map(is_it, node.args))
    return False
