# SPDX-License-Identifier: Apache-2.0
"""Rewrites the text of a program, so that its loops and branches can be traced: Python tells no one
what a `for`, an `if` or a `while` assigns.

    traced = rewritten(function)        # the same function, see rewrite_statements.py

All else executes as it is, with the user's lines. Thread safety: pure functions.
"""

import ast
import contextlib
import copy
import inspect
import types
import weakref
from typing import Any

from pto.errors import InvalidType
from pto.language import conditions
from pto.language.bound_names import SCOPES
from pto.language.branches import run_if
from pto.language.checks import asserted
from pto.language.code_names import loops_in_call
from pto.language.control import run_loop
from pto.language.location import shown
from pto.language.operation import names_of
from pto.language.repeat import run_while
from pto.language.returns import returned, with_one_return
from pto.language.rewrite_statements import RUNTIME, Statements, arguments
from pto.language.steps import Steps

_CALLS = types.SimpleNamespace(
    asserted=asserted, run_loop=run_loop, run_if=run_if, run_while=run_while,
    known=conditions.known, both=conditions.both, either=conditions.either,
    joined=conditions.joined, negated=conditions.negated, compared=conditions.compared,
    choose=conditions.choose, extreme=conditions.extreme, Steps=Steps, returned=returned,
)  # fmt: skip

_of_calls: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def rewritten(function: types.FunctionType) -> types.FunctionType:
    """The function with its loops over pto.loop, its `if` and `while` as calls."""
    definition = definition_of(function)
    if definition is None:
        raise InvalidType(
            f"@pto.jit: the text of {function.__name__} cannot be read",
            "loops and branches carry the variables that their text assigns, which needs it",
            "put the function into a file, as a def; or use range(), which unrolls",
            _place(function),
        )
    definition = _Super(definition).visit(definition)
    changed = None
    with contextlib.suppress(InvalidType):  # a branch may hold less than the function
        changed = Statements(function).visit(with_one_return(definition))
    changed = changed or Statements(function).visit(definition)
    return _compiled(function, ast.fix_missing_locations(changed))


def _called(value: Any) -> Any:
    """A function as a call runs it: rewritten once, where it has loops."""
    if not loops_in_call(value):
        return value
    if value not in _of_calls:
        _of_calls[value] = rewritten(value)
    return _of_calls[value]


_CALLS.called = _called


def writes_parameters(function: types.FunctionType) -> bool:
    """Says whether the text of a function writes into parts of its parameters."""
    definition, names = definition_of(function), names_of(function)
    return definition is not None and any(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        and _root(node) in names
        for node in ast.walk(definition)
    )  # fmt: skip


def _root(node: ast.expr) -> str:
    """The variable in front of all brackets: `outputs` of outputs[0][:]."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


_CHOOSES = (ast.If, ast.While, ast.IfExp, ast.Assert, ast.BoolOp, ast.Compare)


def has_branches(function: types.FunctionType) -> bool:
    """Says whether the text of a function has `if`, `while`, `assert`, `a if b else c`, or what may
    be a condition: a comparison, `and`, `or`, `not`."""
    definition = definition_of(function)
    return definition is not None and any(
        isinstance(node, _CHOOSES)
        or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
        for node in ast.walk(definition)
    )


def _place(function: types.FunctionType) -> str:
    code = function.__code__
    return f"{shown(code.co_filename)}:{code.co_firstlineno}"


def definition_of(function: types.FunctionType) -> ast.FunctionDef | None:
    """The text of a def, without decorators, annotations and defaults; None where there is none.

    A lambda has none: the line that holds it may begin with the def of another function.
    """
    try:
        lines, first = inspect.getsourcelines(function.__code__)
        is_indented = lines[0][:1].isspace()  # what stands at the margin in it stays there
        tree: Any = ast.parse("".join(["if True:\n", *lines] if is_indented else lines))
    except (OSError, SyntaxError, TypeError):
        return None
    definition = tree.body[0].body[0] if is_indented else tree.body[0]
    name = function.__code__.co_name
    if not isinstance(definition, ast.FunctionDef) or definition.name != name:
        return None
    ast.increment_lineno(definition, first - (2 if is_indented else 1))
    definition = _Mangled(_class_of(function)).visit(definition)
    definition.decorator_list, definition.returns = [], None
    for argument in ast.walk(definition.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    definition.args.defaults = []
    definition.args.kw_defaults = [None] * len(definition.args.kwonlyargs)
    return definition


def _class_of(function: types.FunctionType) -> str:
    """The innermost class around a def, as private names begin with it; "" where there is none."""
    path = function.__qualname__.split(".")[:-1]
    classes = [name for name, inside in zip(path, [*path[1:], ""], strict=False)
               if "<locals>" not in (name, inside)]  # fmt: skip
    return classes[-1].lstrip("_") if classes else ""


class _Mangled(ast.NodeTransformer):
    """Puts the class in front of private names, __width, as Python does inside of a class."""

    _FIELDS = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg",
               ast.FunctionDef: "name"}  # fmt: skip

    def __init__(self, owner: str):
        self.owner = owner

    def visit(self, node: ast.AST) -> Any:
        if not self.owner or isinstance(node, ast.ClassDef):
            return node
        field = self._FIELDS.get(type(node), "")
        name = getattr(node, field, None)
        if isinstance(name, str) and name.startswith("__") and not name.endswith("__"):
            setattr(node, field, f"_{self.owner}{name}")
        return self.generic_visit(node)


class _Super(ast.NodeTransformer):
    """Writes the arguments of super() out, which Python takes from the function around it: bodies
    become functions of their own."""

    def __init__(self, definition: ast.FunctionDef):
        self.definition = definition
        first = [*definition.args.posonlyargs, *definition.args.args][:1]
        self.arguments = [ast.Name(name, ast.Load())
                          for name in ("__class__", *(one.arg for one in first))]  # fmt: skip

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, SCOPES) and node is not self.definition:
            return node
        is_call = isinstance(node, ast.Call) and not node.args and not node.keywords
        if is_call and isinstance(node.func, ast.Name) and node.func.id == "super":
            node.args = [ast.copy_location(one, node) for one in copy.deepcopy(self.arguments)]
        return self.generic_visit(node)


def _compiled(function: types.FunctionType, definition: ast.FunctionDef) -> types.FunctionType:
    """A function of this definition, with the globals and the captured variables of `function`."""
    code = function.__code__
    names = [*code.co_freevars, RUNTIME]
    factory = ast.FunctionDef(
        name="__factory", args=arguments(names), decorator_list=[], type_params=[],
        body=[definition, ast.Return(ast.Name(definition.name, ast.Load()))],
    )  # fmt: skip
    module = ast.fix_missing_locations(ast.Module([factory], []))
    found: dict[str, Any] = {}
    exec(compile(module, code.co_filename, "exec"), found)  # noqa: S102 the user's own text
    inner = next(c for c in found["__factory"].__code__.co_consts if isinstance(c, types.CodeType))
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[RUNTIME] = types.CellType(_CALLS)
    closure = tuple(cells[name] for name in inner.co_freevars)
    made = types.FunctionType(inner, function.__globals__, function.__name__, None, closure)
    made.__wrapped__ = function  # type: ignore[attr-defined]  it needs no second rewriting
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return made
