# SPDX-License-Identifier: Apache-2.0
"""Turns the loops and branches of a function's text into calls with functions.

    if n > 2:                           def __pto_then_1(y):
        y = y * 2                           y = y * 2
                                            return locals()
                                        def __pto_else_1(y):
                                            return locals()
                                        y, = __pto.run_if(n > 2, __pto_then_1, ..., locals())

The calls (control.py, branches.py, conditions.py) execute in Python what is known while tracing.
`break` and `continue` become flags (jumps.py). An `if` or `while` that is left with return or raise
stays; its condition must be known. Thread safety: pure functions.
"""

import ast
import types
from collections.abc import Callable
from typing import Any

from pto.errors import InvalidType
from pto.language.bound_names import (
    RUNTIME,
    SCOPES,
    assigned,
    breaks_of,
    leaves_of,
    own_nodes,
    readers,
)
from pto.language.closures import closure_of
from pto.language.code_names import loops_in_call
from pto.language.control import loop
from pto.language.jumps import Flags, assign, flags_of, holds_not, placed, without_jumps
from pto.language.location import shown

_TIED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)  # to the function around them
_ORDERED = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


class Statements(ast.NodeTransformer):
    """Replaces the loops and branches of one function, the inner ones first."""

    def __init__(self, function: types.FunctionType):
        self.function = function
        self.known = {name: cell.cell_contents for name, cell in closure_of(function).items()}
        self.outside: list[dict[str, type]] = []  # global and nonlocal names of each function
        self.readers: list[dict[ast.AST, tuple[str, set[str]]]] = []  # of each function
        self.count = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.outside.append({name: type(one) for one in own_nodes(node.body)
                             if isinstance(one, ast.Global | ast.Nonlocal)
                             for name in one.names})  # fmt: skip
        self.readers.append(readers(node.body))
        self.generic_visit(node)
        self.readers.pop()
        self.outside.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node

    # --- statements ------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> Any:
        kind = self._loop_of(node.iter)
        if kind is None:
            self.generic_visit(node)
            return node
        flags = self._check(node, 2 if kind.takes_pairs else 1)
        node.body = without_jumps(node.body, flags)
        if flags.left:
            return self._left_loop(node, flags)
        self.generic_visit(node)
        targets = [one.id for one in getattr(node.target, "elts", [node.target])]
        names = self._variables(node.body, but=set(targets))
        body = self._function("body", [*targets, *names], node.body, node.iter)
        call = _call("run_loop", _name(body), node.iter, _texts(names), _locals())
        return _placed([body, _assignment(names, call)], node.iter)

    def _left_loop(self, node: ast.For, flags: Flags) -> Any:
        """A loop that a break may leave, as a `while` over its index: steps.py."""
        self.count += 1
        steps, at = f"_steps_{self.count}", f"_at_{self.count}"
        begin = _assignment([steps], ast.Tuple([_call("Steps", node.iter)], ast.Load()))
        lead = [*_placed([begin], node.iter), *_text(f"{at} = {steps}.first", node.iter)]
        [loop] = _text(f"while not {flags.left} and {steps}.goes({at}): pass", node.iter)
        loop.body = [*_text(f"{node.target.id} = {steps}.index({at})", node.iter), *node.body,
                     *_text(f"{at} = {steps}.after({at})", node.iter)]  # fmt: skip
        made = self._while(loop, {node.target.id})
        return [*lead, assign(flags.left, False, node), *made]

    def visit_If(self, node: ast.If) -> Any:
        if found := _jumps([*node.body, *node.orelse]) or _raises([*node.body, *node.orelse]):
            return self._kept(node, found[0])
        self._visit_with_test(node)
        names = self._variables([*node.body, *node.orelse])
        then = self._function("then", names, node.body, node.test)
        other = self._function("else", names, node.orelse, node.test)
        call = _call("run_if", node.test, _name(then), _name(other), _texts(names), _locals())
        return _placed([then, other, _assignment(names, call)], node.test)

    def visit_While(self, node: ast.While) -> Any:
        flags = flags_of(node.body, self._next())
        found = leaves_of(node.body) if flags else _jumps(node.body)
        if found:
            return self._kept(node, found[0])
        if _has(node.test, ast.NamedExpr):
            return self._kept(node, node.test)
        node.body = without_jumps(node.body, flags)
        if not flags.left:
            return self._while(node)
        node.test = ast.BoolOp(ast.And(), [holds_not(flags.left, node.test), node.test])
        _placed([node.test], node)
        if node.orelse:
            node.orelse = _placed([ast.If(holds_not(flags.left, node.test), node.orelse, [])], node)
        return [assign(flags.left, False, node), *self._while(node)]

    def _while(self, node: ast.While, but: set[str] = frozenset()) -> list[ast.stmt]:
        self._visit_with_test(node)
        names = self._variables(node.body, but)
        test = self._function("test", names, [ast.Return(node.test)], node.test)
        body = self._function("body", names, node.body, node.test)
        call = _call("run_while", _name(test), _name(body), _texts(names), _locals())
        return _placed([test, body, _assignment(names, call), *node.orelse], node.test)

    def visit_Assert(self, node: ast.Assert) -> Any:
        text = ast.Constant(ast.unparse(node.test)) if node.msg is None else node.msg
        written = _written(text)
        self._visit_with_test(node)
        call = _call("asserted", node.test, _lambda(node.msg or text), ast.Constant(written))
        return _placed([ast.Expr(call)], node.test)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self._visit_with_test(node)
        if _has(node, *_TIED):
            return node
        ways = [_lambda(node.body), _lambda(node.orelse)]
        return _placed([_call("choose", node.test, *ways)], node.test)[0]

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`a and b` as a value: one of them, where it is no condition."""
        self.generic_visit(node)
        word = ast.Constant("and" if isinstance(node.op, ast.And) else "or")
        return _unless_tied(node, lambda: _call("joined", word, *map(_lambda, node.values)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        made = _unless_tied(node, lambda: _condition(node))
        self.generic_visit(made)
        return made

    visit_Compare = visit_UnaryOp

    def visit_Call(self, node: ast.Call) -> Any:
        """Lets Python's min and max compare sizes and numbers of the call, too; a plain function
        with loops runs with its own text rewritten."""
        self.generic_visit(node)
        if loops_in_call(self._value_of(node.func)):
            node.func = _placed([_call("called", node.func)], node.func)[0]
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max") and not node.keywords:
            return _placed([_call("extreme", node.func, *node.args)], node)[0]
        return node

    def _visit_with_test(self, node: Any) -> None:
        """Visits a statement or expression whose test asks for truth alone."""
        node.test = _unless_tied(node.test, lambda: _condition(node.test))
        self.generic_visit(node)

    def _kept(self, node: Any, reason: ast.AST) -> Any:
        """A statement that stays, with a condition that must be known while tracing."""
        self.generic_visit(node)
        kind = type(node).__name__.lower()
        is_walrus = reason is node.test
        why = ":= in its condition" if is_walrus else f"a {type(reason).__name__.lower()} inside"
        if not _has(node.test, ast.NamedExpr):
            test = _call("known", _lambda(node.test), ast.Constant(f"an {kind} with {why}"
                         if kind == "if" else f"a {kind} with {why}"))  # fmt: skip
            node.test = _placed([test], node.test)[0]
        return node

    # --- their parts -----------------------------------------------------------------------------

    def _variables(self, body: list[ast.stmt], but: set[str] = frozenset()) -> list[str]:
        outside = self.outside[-1] if self.outside else {}
        return sorted(assigned(body) - but - outside.keys())

    def _function(self, kind: str, names: list[str], body: list[ast.stmt], at: ast.expr) -> Any:
        """A function of these variables that runs the statements and returns its locals()."""
        self.count += 1
        is_branch = kind in ("then", "else")
        self._check_readers(body, assigned(body) if is_branch else set(names))
        outside = self.outside[-1] if self.outside else {}
        declared = [outside[name]([name]) for name in sorted(assigned(body) & outside.keys())]
        end = [] if kind == "test" else [ast.Return(_locals())]
        return ast.FunctionDef(
            name=f"__pto_{kind}_{self.count}", args=arguments(names), decorator_list=[],
            type_params=[], body=[*declared, *body, *end],
        )  # fmt: skip

    def _check_readers(self, body: list[ast.stmt], changed: set[str]) -> None:
        """Refuses a use of a function defined in front of the body that reads what this changes."""
        nodes = [node for one in body for node in ast.walk(one)]
        for reader, (name, read) in self.readers[-1].items():
            uses = [one for one in nodes if isinstance(one, ast.Name) and one.id == name]
            stale = sorted(read & changed)
            if uses and stale and reader not in nodes:
                what = f"{name} reads {stale[0]}, which a loop or branch changes"
                why = (
                    "a loop or branch has variables of its own; a function defined in front of "
                    "it finds the former value"
                )
                self._refuse(uses[0], what, why, f"pass {stale[0]} to {name}")

    def _loop_of(self, call: ast.expr) -> type[loop] | None:
        """pto.loop or its like, where the text calls it."""
        found = self._value_of(call.func) if isinstance(call, ast.Call) else None
        return found if isinstance(found, type) and issubclass(found, loop) else None

    def _value_of(self, at: ast.expr) -> Any:
        """The value of a name outside the function, or None: `loop`, `pto.loop`."""
        path = []
        while isinstance(at, ast.Attribute):
            path.append(at.attr)
            at = at.value
        if not isinstance(at, ast.Name):
            return None
        found = self.known.get(at.id, self.function.__globals__.get(at.id))
        for name in reversed(path):
            found = getattr(found, name, None)
        return found

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _check(self, node: ast.For, count: int) -> Flags:
        targets = getattr(node.target, "elts", [node.target])
        if len(targets) != count or not all(isinstance(one, ast.Name) for one in targets):
            self._refuse(node, f"the variables of the loop: {ast.unparse(node.target)}",
                         "pto.loop counts one index; pto.loop_unroll gives an index and how many "
                         "iterations the body makes",
                         "write for i in pto.loop(n), or for i, k in pto.loop_unroll(n, "
                         "unroll_list=[8])")  # fmt: skip
        if node.orelse:
            self._refuse(node, "the loop has an else", "a loop of the program runs to its end",
                         "put the lines behind the loop")  # fmt: skip
        flags = flags_of(node.body, self._next())
        leaves = leaves_of(node.body)
        if flags is None or (flags.left and count == 2):
            leaves += [
                one for one in _jumps(node.body) if flags is None or isinstance(one, ast.Break)
            ]
        for jump in leaves:
            word = type(jump).__name__.lower()
            self._refuse(
                jump,
                f"a {word} inside of pto.loop",
                "a loop of the program is left by a break or continue of its own, below `if` and "
                "`with`; its versions of several iterations run to their end",
                "let an if choose what an iteration changes, and return behind the loop",
            )
        return flags

    def _refuse(self, node: ast.AST, what: str, why: str, fix: str) -> None:
        place = f"{shown(self.function.__code__.co_filename)}:{node.lineno}"
        raise InvalidType(f"{self.function.__name__}: {what}", why, fix, place)


def arguments(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _unless_tied(node: ast.expr, make: Callable[[], ast.expr]) -> ast.expr:
    """The expression in the place of another, at its line; that itself where it is tied."""
    return node if _has(node, *_TIED) else _placed([make()], node)[0]


def _condition(test: ast.expr) -> ast.expr:
    """A condition whose `and`, `or`, `not` and comparisons also take traced values and sizes."""
    if isinstance(test, ast.BoolOp):
        name = "both" if isinstance(test.op, ast.And) else "either"
        return _call(name, *(_lambda(_condition(value)) for value in test.values))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _call("negated", _condition(test.operand))
    if isinstance(test, ast.Compare) and all(type(op) in _ORDERED for op in test.ops):
        return _call("compared", _texts([_ORDERED[type(op)] for op in test.ops]), test.left,
                     *map(_lambda, test.comparators))  # fmt: skip
    return test


def _placed(made: list[ast.stmt], at: ast.expr) -> list[ast.stmt]:
    """The nodes, those without a line at that of `at`."""
    return [placed(one, at) for one in made]


def _text(text: str, at: ast.expr) -> list[ast.stmt]:
    """The statements of a text, at the line of `at`."""
    made = ast.parse(text).body
    for part in (part for one in made for part in ast.walk(one)):
        if "lineno" in part._attributes:
            ast.copy_location(part, at)
    return made


def _assignment(names: list[str], call: ast.expr) -> ast.stmt:
    if not names:
        return ast.Expr(call)
    targets = [ast.Name(name, ast.Store()) for name in names]
    return ast.Assign([ast.Tuple(targets, ast.Store())], call)


def _call(name: str, *given: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load())
    return ast.Call(function, list(given), [])


def _locals() -> ast.Call:
    return ast.Call(ast.Name("locals", ast.Load()), [], [])


def _name(function: ast.FunctionDef) -> ast.Name:
    return ast.Name(function.name, ast.Load())


def _texts(names: list[str]) -> ast.Constant:
    return ast.Constant(tuple(names))


def _lambda(value: ast.expr) -> ast.Lambda:
    return ast.Lambda(arguments([]), value)


def _written(text: ast.expr) -> str:
    """A text as it is written: "x is {x[0]}"."""
    if not isinstance(text, ast.JoinedStr):
        return ast.unparse(text)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else
                   f"{{{ast.unparse(part.value)}}}" for part in text.values)  # fmt: skip


def _has(node: ast.AST, *kinds: type) -> bool:
    return any(isinstance(one, kinds) for one in ast.walk(node))


def _raises(body: list[ast.stmt]) -> list[ast.AST]:
    """The statements that raise; those below another condition or loop belong to that."""
    found = own_nodes(body, (*SCOPES, ast.If, ast.While, ast.For))
    return [one for one in found if isinstance(one, ast.Raise)]


def _jumps(body: list[ast.stmt]) -> list[ast.AST]:
    """The statements that leave a body: return and yield, and its own break and continue."""
    return sorted((*leaves_of(body), *breaks_of(body)), key=lambda node: node.lineno)
