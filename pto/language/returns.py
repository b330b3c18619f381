# SPDX-License-Identifier: Apache-2.0
"""Turns the returns of a function's branches into one at its end.

    if n[0] > 2:                        if n[0] > 2:
        return x * 2                        _result = x * 2
    y = x + 1                           else:
    return y                                y = x + 1
                                            _result = y
                                        return __pto.returned(_result)

A return below a loop, `with` or `try` stays. Where both ways of an `if` may go on, a few statements
behind it stand on both.

Thread safety: pure functions; they make new nodes.
"""

import ast
import copy
from typing import Any

from pto.errors import InvalidType
from pto.language.bound_names import RUNTIME, leaves_of
from pto.language.carried import Undefined
from pto.language.jumps import placed
from pto.language.location import fail

_RESULT = "_result"
_SHORT = 4  # statements that may stand on both ways of an if


class _Stays(Exception):
    """A function whose returns cannot move."""


def with_one_return(definition: ast.FunctionDef) -> ast.FunctionDef:
    """A copy of the function with one return for those of its branches."""
    return _OneReturn().visit(copy.deepcopy(definition))


def returned(value: Any) -> Any:
    """The result that the paths of a function give it; fails where they have none in common."""
    parts = value if isinstance(value, tuple | list) else [value]
    for part in parts:
        if isinstance(part, Undefined):
            fail("the paths of an if return different things", f"{part.why}: what runs is known "
                 "only at the call", "return tensors of one type and shape on each path; cast or "
                 "broadcast one of them", InvalidType)  # fmt: skip
    return value


class _OneReturn(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        branches = [one for one in node.body if isinstance(one, ast.If) and leaves_of([one])]
        if branches:
            try:
                body = _finished(node.body)
            except _Stays:
                return node
            function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), "returned", ast.Load())
            result = ast.Call(function, [ast.Name(_RESULT, ast.Load())], [])
            node.body = [*body, placed(ast.Return(result), branches[0])]
        return node


def _ends(body: list[ast.stmt]) -> bool:
    """Says whether each path of a body ends in a return or raise."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return isinstance(last, ast.Return | ast.Raise)


def _finished(body: list[ast.stmt]) -> list[ast.stmt]:
    """The body with the result assigned at the end of each path."""
    for place, node in enumerate(body):
        if isinstance(node, ast.Return):
            return [*body[:place], _assign(node.value, node)]
        if not leaves_of([node]):
            continue
        if not isinstance(node, ast.If):
            raise _Stays
        rest, changed = body[place + 1 :], copy.copy(node)
        ways = [way for way in (node.body, node.orelse) if not _ends(way)]
        if len(ways) > 1 and len(rest) > _SHORT:
            raise _Stays
        changed.body, changed.orelse = (
            _finished([*way, *copy.deepcopy(rest)] if way in ways else way)
            for way in (node.body, node.orelse)
        )
        return [*body[:place], changed]
    if body and isinstance(body[-1], ast.Raise):
        return body
    return [*body, _assign(None, body[-1])] if body else [_assign(None, None)]


def _assign(value: ast.expr | None, at: ast.stmt | None) -> ast.stmt:
    made = ast.Assign([ast.Name(_RESULT, ast.Store())], value or ast.Constant(None))
    return placed(made, at) if at is not None else made
