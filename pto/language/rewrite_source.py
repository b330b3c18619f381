# SPDX-License-Identifier: Apache-2.0
"""Rewrites the text of a program, so that its loops can be traced: Python tells no one what a `for`
assigns.

    for i in pto.loop(n):               def __body(i, total):
        total = total + x[i]                total = total + x[i]
                                            return locals()
                                        total, i = __run_loop(__body, pto.loop(n), ..., locals())

All else executes as it is, with the user's lines. Thread safety: pure functions.
"""

import ast
import inspect
import textwrap
import types
from typing import Any

from pto.errors import InvalidType
from pto.language.control import loop, run_loop
from pto.language.location import shown

_RUN = "__pto_run_loop"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp,
           ast.SetComp, ast.DictComp, ast.GeneratorExp)  # fmt: skip


def rewritten(function: types.FunctionType) -> types.FunctionType:
    """The function with its loops over pto.loop as calls."""
    definition = _definition_of(function)
    if definition is None:
        raise InvalidType(
            f"@pto.jit: the text of {function.__name__} cannot be read",
            "pto.loop carries the variables that the loop's text assigns, which needs the source",
            "put the function into a file, as a def; or use range(), which unrolls",
            _place(function),
        )
    _Loops(function).visit(definition)
    return _compiled(function, ast.fix_missing_locations(definition))


def writes_parameters(function: types.FunctionType) -> bool:
    """Says whether the text of a function writes into parts of its parameters."""
    code = function.__code__
    definition = _definition_of(function)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return definition is not None and any(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name) and node.value.id in names
        for node in ast.walk(definition)
    )  # fmt: skip


def _place(function: types.FunctionType) -> str:
    code = function.__code__
    return f"{shown(code.co_filename)}:{code.co_firstlineno}"


def _definition_of(function: types.FunctionType) -> ast.FunctionDef | None:
    """The text of a def, without decorators, annotations and defaults; None where there is none."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return None
    if not isinstance(tree.body[0], ast.FunctionDef):
        return None
    ast.increment_lineno(tree, first - 1)
    definition = tree.body[0]
    definition.decorator_list, definition.returns = [], None
    for argument in ast.walk(definition.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    definition.args.defaults = []
    definition.args.kw_defaults = [None] * len(definition.args.kwonlyargs)
    return definition


def _compiled(function: types.FunctionType, definition: ast.FunctionDef) -> types.FunctionType:
    """A function of this definition, with the globals and the captured variables of `function`."""
    code = function.__code__
    names = [*code.co_freevars, _RUN]
    factory = ast.FunctionDef(
        name="__factory", args=_arguments(names), decorator_list=[], type_params=[],
        body=[definition, ast.Return(ast.Name(definition.name, ast.Load()))],
    )  # fmt: skip
    module = ast.fix_missing_locations(ast.Module([factory], []))
    found: dict[str, Any] = {}
    exec(compile(module, code.co_filename, "exec"), found)  # noqa: S102 the user's own text
    inner = next(c for c in found["__factory"].__code__.co_consts if isinstance(c, types.CodeType))
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[_RUN] = types.CellType(run_loop)
    closure = tuple(cells[name] for name in inner.co_freevars)
    return types.FunctionType(inner, function.__globals__, function.__name__, None, closure)


def _arguments(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


class _Loops(ast.NodeTransformer):
    """Replaces the loops of one function, the inner ones first."""

    def __init__(self, function: types.FunctionType):
        self.function = function
        self.known = dict(inspect.getclosurevars(function).nonlocals)
        self.count = 0

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        if not self._is_loop(node.iter):
            return node
        self._check(node)
        names = sorted(_assigned(node.body) - {node.target.id})
        self.count += 1
        body_name = f"__pto_body_{self.count}"
        body = ast.FunctionDef(
            name=body_name, args=_arguments([node.target.id, *names]), decorator_list=[],
            type_params=[],
            body=[*node.body, ast.Return(_call("locals"))],
        )  # fmt: skip
        targets = [ast.Name(name, ast.Store()) for name in names]
        call = _call(_RUN, ast.Name(body_name, ast.Load()), node.iter,
                     ast.Constant(tuple(names)), _call("locals"))  # fmt: skip
        replaced: ast.stmt = ast.Expr(call)
        if names:
            replaced = ast.Assign([ast.Tuple(targets, ast.Store())], call)
        for made in (body, replaced):
            for part in ast.walk(made):
                if "lineno" in part._attributes and not hasattr(part, "lineno"):
                    ast.copy_location(part, node.iter)
        return [body, replaced]

    def _is_loop(self, call: ast.expr) -> bool:
        if not isinstance(call, ast.Call):
            return False
        path, at = [], call.func
        while isinstance(at, ast.Attribute):
            path.append(at.attr)
            at = at.value
        if not isinstance(at, ast.Name):
            return False
        found = self.known.get(at.id, self.function.__globals__.get(at.id))
        for name in reversed(path):
            found = getattr(found, name, None)
        return found is loop

    def _check(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name):
            self._refuse(node, "the loop has several variables", "a loop counts one index",
                         "write for i in pto.loop(n)")  # fmt: skip
        if node.orelse:
            self._refuse(node, "the loop has an else", "a loop of the program runs to its end",
                         "put the lines behind the loop")  # fmt: skip
        for jump in _jumps(node.body):
            word = type(jump).__name__.lower()
            self._refuse(
                jump,
                f"a {word} inside of pto.loop",
                "a loop of the program runs to its end, with one number of iterations for all",
                "choose with pto.where or pto.cond what an iteration changes",
            )

    def _refuse(self, node: ast.AST, what: str, why: str, fix: str) -> None:
        place = f"{shown(self.function.__code__.co_filename)}:{node.lineno}"
        raise InvalidType(f"{self.function.__name__}: {what}", why, fix, place)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _assigned(body: list[ast.stmt]) -> set[str]:
    """The variables that statements assign, those of inner functions apart."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.id)
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)
    return {name for name in found if not name.startswith("__pto_")}


def _jumps(body: list[ast.stmt]) -> list[ast.AST]:
    """The statements that leave a loop's body: return and yield, and its own break and continue."""
    found: list[ast.AST] = []
    waiting: list[tuple[ast.AST, bool]] = [(node, False) for node in body]
    while waiting:
        node, is_inner = waiting.pop()
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            found.append(node)
        if isinstance(node, ast.Break | ast.Continue) and not is_inner:
            found.append(node)
        if not isinstance(node, _SCOPES):
            inner = is_inner or isinstance(node, ast.For | ast.While)
            waiting += [(child, inner) for child in ast.iter_child_nodes(node)]
    return sorted(found, key=lambda node: node.lineno)
