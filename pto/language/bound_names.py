# SPDX-License-Identifier: Apache-2.0
"""Which variables the text of a function assigns and inner functions read, and how it is left.

    assigned(body)                 # {"y", "k"}
    readers(body)                  # {<def scaled>: ("scaled", {"factor", "z"})}

Thread safety: pure functions.
"""

import ast
from collections.abc import Iterable

RUNTIME = "__pto"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp,
          ast.SetComp, ast.DictComp, ast.GeneratorExp)  # fmt: skip
_LEAVES = (ast.Return, ast.Yield, ast.YieldFrom)


def own_nodes(body: Iterable[ast.AST], closed: tuple[type, ...] = SCOPES) -> list[ast.AST]:
    """All nodes of statements, without those inside of `closed` nodes (inner functions)."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, closed):
            waiting += ast.iter_child_nodes(node)
    return found


def leaves_of(body: Iterable[ast.AST]) -> list[ast.AST]:
    """The statements that leave the function around a body: return and yield."""
    found = [one for one in own_nodes(body) if isinstance(one, _LEAVES)]
    return sorted(found, key=lambda node: node.lineno)


def breaks_of(body: Iterable[ast.AST]) -> list[ast.AST]:
    """The break and continue statements of a body, not those of loops in it."""
    found = own_nodes(body, (*SCOPES, ast.For, ast.While))
    return [one for one in found if isinstance(one, ast.Break | ast.Continue)]


def assigned(body: list[ast.AST]) -> set[str]:
    """The variables that statements assign, those of inner functions apart."""
    found: set[str] = set()
    for node in own_nodes(body):
        found |= set(_bound(node))
    return {name for name in found if not name.startswith(RUNTIME)}


def _bound(node: ast.AST) -> list[str]:
    """The names that one node binds."""
    if isinstance(node, ast.Name):
        return [node.id] if isinstance(node.ctx, ast.Store | ast.Del) else []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.alias):
        return [] if node.name == "*" else [(node.asname or node.name).partition(".")[0]]
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return [node.name] if node.name else []
    return [node.rest] if isinstance(node, ast.MatchMapping) and node.rest else []


def readers(body: list[ast.stmt]) -> dict[ast.AST, tuple[str, set[str]]]:
    """The functions that statements define, each with its name and the variables around it that it
    reads, directly or through another."""
    found: dict[ast.AST, tuple[str, set[str]]] = {}
    for node in own_nodes(body):
        if isinstance(node, ast.FunctionDef):
            found[node] = node.name, _read(node.args, node.body)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            read = _read(node.value.args, [node.value.body])
            found |= {target: (ast.unparse(target), read) for target in node.targets}
    for _ in found:
        for _, read in found.values():
            read |= {each for name, more in found.values() if name in read for each in more}
    return found


def _read(parameters: ast.arguments, body: list[ast.AST]) -> set[str]:
    """The variables around a function of these parameters and statements that it reads."""
    own = {one.arg for one in ast.walk(parameters) if isinstance(one, ast.arg)} | assigned(body)
    named: set[str] = set()
    for one in own_nodes(body):
        own -= {*one.names} if isinstance(one, ast.Nonlocal) else set()
        named |= {one.id} if isinstance(one, ast.Name) else _read_inside(one)
    return named - own


def _read_inside(node: ast.AST) -> set[str]:
    """The variables around an inner function or comprehension that it reads; else none."""
    if not isinstance(node, SCOPES):
        return set()
    if isinstance(node, ast.ClassDef):  # its functions see the variables around it alone
        return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return _read(ast.arguments([], [], None, [], [], None, []), [*ast.iter_child_nodes(node)])
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    around = [node.args, *getattr(node, "decorator_list", ())]
    named = {one.id for part in around for one in ast.walk(part) if isinstance(one, ast.Name)}
    return named | _read(node.args, body)
