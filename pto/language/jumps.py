# SPDX-License-Identifier: Apache-2.0
"""Turns `break` and `continue` of a loop's body into flags, which branches carry.

    if x[i] < 0:                        if x[i] < 0:
        continue                            _skip_1 = True
    if x[i] == key:                     if not _skip_1:
        break                               if x[i] == key:
    n = n + 1                                   _break_1 = _skip_1 = True
                                            if not _skip_1:
                                                n = n + 1

Thread safety: pure functions; they make new nodes.
"""

import ast
import copy
from dataclasses import dataclass

from pto.language.bound_names import breaks_of


@dataclass(frozen=True)
class Flags:
    """The names of the flags of one loop; None where it has no such statement."""

    left: str | None  # by a break
    skip: str | None  # by a continue

    @property
    def guard(self) -> str:
        """The flag under which the rest of an iteration does not run."""
        return self.skip or self.left or ""


def flags_of(body: list[ast.stmt], number: int) -> Flags | None:
    """The flags for a body; None where a jump stands in a statement that no flag can leave."""
    found = breaks_of(body)
    kinds = {type(one) for one in found}
    if len(found) != len(_movable(body)):
        return None
    return Flags(f"_break_{number}" if ast.Break in kinds else None,
                 f"_skip_{number}" if ast.Continue in kinds else None)  # fmt: skip


def without_jumps(body: list[ast.stmt], flags: Flags) -> list[ast.stmt]:
    """The body with flags in the place of its jumps; an iteration begins with a false `skip`."""
    made = _guarded(body, flags)
    return [assign(flags.skip, False, body[0]), *made] if flags.skip else made


def assign(name: str, value: bool, at: ast.AST) -> ast.stmt:
    """`name = value`, at the line of `at`."""
    target = ast.Name(name, ast.Store())
    return placed(ast.Assign([target], ast.Constant(value)), at)


def holds_not(name: str, at: ast.AST) -> ast.expr:
    """`not name`."""
    return placed(ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load())), at)


def _guarded(body: list[ast.stmt], flags: Flags) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for place, node in enumerate(body):
        if isinstance(node, ast.Break | ast.Continue):  # what stands behind it never runs
            names = {flags.guard} | ({flags.left} if isinstance(node, ast.Break) else set())
            return made + [assign(name, True, node) for name in sorted(filter(None, names))]
        if not _movable([node]):
            made.append(node)
            continue
        changed = copy.copy(node)
        changed.body = _guarded(node.body, flags)
        if isinstance(node, ast.If):
            changed.orelse = _guarded(node.orelse, flags)
        made.append(changed)
        if rest := _guarded(body[place + 1 :], flags):
            made.append(placed(ast.If(holds_not(flags.guard, node), rest, []), node))
        return made
    return made


def _movable(body: list[ast.stmt]) -> list[ast.stmt]:
    """The break and continue statements of a body that stand below `if` and `with` alone."""
    inside = [one for node in body if isinstance(node, ast.If | ast.With)
              for one in ast.iter_child_nodes(node)]  # fmt: skip
    own = [one for one in body if isinstance(one, ast.Break | ast.Continue)]
    return own + _movable(inside) if inside else own


def placed(node: ast.AST, at: ast.AST) -> ast.AST:
    """The node; its parts without a line get that of `at`."""
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            ast.copy_location(inner, at)
    return node
