# SPDX-License-Identifier: Apache-2.0
"""The function of a compiled graph, from its text: a statement a step.

    run = function_of("def run(args):\\n    v0, = args\\n    return [k0(v0)]\\n", {"k0": program})

compile/replay.py writes such texts, and packaged_model.py reads them from files: check() lets no
other text become a function. Thread safety: any thread.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from pto.adapters.torch import direct

NAME = re.compile(r"(?:v|m|z)\d+")  # tensors
_NAMES = re.compile(NAME.pattern + r"|k\d+|(?:s|u|zuf|zf)\d+|args|int|bool|float|min|max|inf|nan")
_METHODS = {
    "as_strided", "clear", "expand", "permute", "size", "transpose", "unsqueeze", "view",
}  # fmt: skip
_OF_MODULES = {
    "math": {"ceil", "floor", "inf", "log2", "nan", "sqrt", "trunc", "pow"},
    "torch": {"sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not"},
}
_STATEMENTS = (ast.Assign, ast.Delete, ast.Expr, ast.Return)
_EXPRESSIONS = (
    ast.Attribute, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Constant, ast.IfExp, ast.List,
    ast.Name, ast.Subscript, ast.Tuple, ast.UnaryOp, ast.keyword, ast.expr_context, ast.operator,
    ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip


def with_strides(x: torch.Tensor, sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """x in memory with these strides; no copy where only axes of size 1 have others."""
    pairs = zip(sizes, x.stride(), strides, strict=True)
    if all(size == 1 or own == wanted for size, own, wanted in pairs):
        return x.as_strided(sizes, strides)
    made = torch.empty_strided(sizes, strides, dtype=x.dtype, device=x.device)
    return made.copy_(x)


def filled(
    sizes: Sequence[int], strides: Sequence[int], value: float, dtype: torch.dtype
) -> torch.Tensor:
    """A tensor of one number with these strides."""
    return torch.empty_strided(sizes, strides, dtype=dtype).fill_(value)


_HELPERS = {
    "with_strides": with_strides,
    "filled": filled,
    "strided_view": direct.strided_view(),
}


def definition(head: str, lines: Sequence[str]) -> str:
    """The text of a function of these statements."""
    return f"def {head}:\n" + "\n".join(f"    {line}" for line in lines) + "\n"


def function_of(text: str, space: dict[str, Any]) -> Callable[..., Any]:
    """The function that a text defines; `space` has its constants, and becomes its globals."""
    space |= {"torch": torch, "math": math} | _HELPERS
    exec(compile(text, "<pto graph>", "exec"), space)
    return space[text.partition("(")[0].removeprefix("def ")]


def check(text: str, constants: Mapping[str, Any]) -> None:
    """Raises ValueError unless the text is `run(args)` of views, sizes and calls of constants."""
    tree = ast.parse(text)
    if [type(one) for one in tree.body] != [ast.FunctionDef] or tree.body[0].name != "run":
        raise ValueError("the text is no function run")
    function = tree.body[0]
    arguments = function.args
    others = (arguments.posonlyargs, arguments.kwonlyargs, arguments.defaults, arguments.vararg,
              arguments.kwarg, function.decorator_list, function.returns)  # fmt: skip
    if [one.arg for one in arguments.args] != ["args"] or any(others):
        raise ValueError("run has other parameters")
    for statement in function.body:
        if not isinstance(statement, _STATEMENTS):
            raise ValueError(f"a statement is {type(statement).__name__}")
        for node in ast.walk(statement):
            if node is not statement:
                _check_expression(node, constants)


def _check_expression(node: ast.AST, constants: Mapping[str, Any]) -> None:
    if not isinstance(node, _EXPRESSIONS):
        raise ValueError(f"an expression is {type(node).__name__}")
    if isinstance(node, ast.Attribute):
        base = node.value.id if isinstance(node.value, ast.Name) else ""
        if node.attr not in _OF_MODULES.get(base, _METHODS) or not isinstance(node.ctx, ast.Load):
            raise ValueError(f"an attribute is {node.attr}")
    if isinstance(node, ast.Name):
        is_known = node.id in _HELPERS or node.id in _OF_MODULES or _NAMES.fullmatch(node.id)
        if not is_known or (node.id[0] == "k" and node.id not in constants):
            raise ValueError(f"a name is {node.id}")
        if not isinstance(node.ctx, ast.Load) and node.id in {*constants, *_HELPERS, *_OF_MODULES}:
            raise ValueError(f"{node.id} is assigned")
