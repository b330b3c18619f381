# SPDX-License-Identifier: Apache-2.0
"""Probes: ask the language what an example gives, which element types it takes, and its gradient.

    example = Example("pto.clip(x, -0.5, 1)")
    example.result()        # ("[[-0.5 ...", ""): by the interpreter, so nothing is compiled
    example.types()         # "`x`: bool, integers and floats, which stay"
    example.gradient()      # "by `x`: [[0, 1, 1], [0, 1, 1]]"

An example is an expression, or the body of a function, over the arrays ARRAYS. Thread safety: none.
"""

import ast
import contextlib
import io
import itertools
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cells
import numpy as np

import pto
from pto.language.call_numbers import Tracing
from pto.language.differentiate import differentiate
from pto.language.dtypes import _BY_NAME as KINDS
from pto.language.interpret import pack
from pto.language.results import taken_apart
from pto.language.stepping import NeedsSteps
from pto.language.trace import Trace

ARRAYS = """\
x = np.array([[-2, 0.5, 1], [3, -0.25, 0]], np.float32)
y = np.array([[1, 2, 1], [2, 1.5, 8]], np.float32)
u = np.array([[-1, 0.5, 0.25], [0.75, -0.5, 0]], np.float32)
v = np.array([1, 10, 100], np.float32)
w = np.array([[1, 0], [2, -1], [0, 3]], np.float32)
n = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
m = np.array([[2, 1, 0], [0, 1, 2]], np.int32)
e = np.array([[np.nan, np.inf, -np.inf], [0, 1, 2]], np.float32)
i = np.array([1, 0])
c = np.array([[True, False, True], [False, True, True]])
"""
KNOWN: dict[str, Any] = {}
exec(ARRAYS, {"np": np}, KNOWN)
CANDIDATES = (
    ("x", "y"),
    ("y", "x"),
    ("u", "y"),
    ("n", "m"),
)  # an example takes the first that fits
GROUPS = {
    "integers": [name for name, kind in KINDS.items() if kind.is_integer],
    "signed integers": [name for name, kind in KINDS.items() if kind.kind == "signed"],
    "unsigned integers": [name for name, kind in KINDS.items() if kind.kind == "unsigned"],
    "floats": [name for name, kind in KINDS.items() if kind.is_float],
}
_folder = tempfile.TemporaryDirectory()
_numbers = itertools.count()


class Example:
    """An expression, or the body of a function, which runs under @pto.jit."""

    def __init__(self, code: str):
        self.code = code
        body = f"return {code}" if is_expression(code) else code
        names = [node for node in ast.walk(ast.parse(_function([], body)))
                 if isinstance(node, ast.Name)]  # fmt: skip
        used = {node.id for node in names} - {
            node.id for node in names if isinstance(node.ctx, ast.Store)
        }
        self.arrays = [name for name in KNOWN if name in used]
        self.parameters = self.arrays or ["x"]
        path = Path(_folder.name, f"example_{next(_numbers)}.py")  # loops read their text
        path.write_text(_function(self.parameters, body))
        defined: dict[str, Any] = {"pto": pto}
        exec(compile(path.read_text(), str(path), "exec"), defined)
        self.function = defined["example"]

    def run(self) -> tuple[Any, str]:
        """(the result, what it printed), by the interpreter."""
        before, pto.config.interpret = pto.config.interpret, True
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                found = self.function(*(KNOWN[name].copy() for name in self.parameters))
        finally:
            pto.config.interpret = before
        return found, printed.getvalue()

    def result(self) -> tuple[str, str]:
        """The text of the result, and what the example printed."""
        found, printed = self.run()
        return shown(found), printed

    def tracing(self, kinds: dict[str, str]) -> Tracing:
        """The function traced for arrays of these element types."""
        of = self.function.compiled
        about = [(kinds.get(name, str(pto.dtype(KNOWN[name].dtype))), KNOWN[name].shape)
                 for name in self.parameters]  # fmt: skip
        given = [(kind, shape, None, False) for kind, shape in about]

        def traced(packed: list | None) -> Tracing:
            return Tracing("example", of.traced_function(), given, [None] * len(given), (),
                           of.writes, False, packed)  # fmt: skip

        try:
            return traced(None)
        except NeedsSteps:
            pairs = zip(self.parameters, about, strict=True)
            with contextlib.redirect_stdout(io.StringIO()):
                return traced([pack(_whole(KNOWN[name], kind), kind) for name, (kind, _) in pairs])

    def results_of(self, names: list[str], kind: str) -> list[str] | None:
        """The element types of the results where these arrays have one; None: it is refused."""
        try:
            return [str(x.dtype) for x in self.tracing(dict.fromkeys(names, kind)).outputs]
        except pto.Error:
            return None

    def types(self) -> str:
        """Which element types the arrays may have, and which the result then has."""
        clauses = []
        for letter in "fib":
            names = [name for name in self.arrays if KNOWN[name].dtype.kind == letter]
            if names:
                found = {kind: self.results_of(names, kind) for kind in KINDS}
                accepted = {kind: results for kind, results in found.items() if results}
                text = named([*accepted]) if clauses else _clause(accepted)
                clauses.append(f"{joined(f'`{name}`' for name in names)}: {text}")
        return "; ".join(clauses)

    def accepted(self, name: str, place: int) -> list[str]:
        """The element types that a parameter of the call may be, at this place or by its name."""
        found = []
        for kind in KINDS:
            call = ast.parse(self.code, mode="eval").body
            assert isinstance(call, ast.Call)
            call.keywords = [one for one in call.keywords if one.arg != name]
            value = ast.parse(f"pto.dtype({kind!r})", mode="eval").body
            if place < len(call.args):
                call.args[place] = value
            else:
                call.keywords.append(ast.keyword(name, value))
            if Example(ast.unparse(call)).results_of([], "") is not None:
                found.append(kind)
        return found

    def gradient(self) -> str:
        """By which arrays the sum of the results has a gradient, and which; or why it has none."""
        try:
            traced = self.tracing({})
            trace, outputs = traced.trace, [x for x in traced.outputs if x.dtype.is_float]
            inputs = [x for x in trace.inputs if x.dtype.is_float]
            if not self.arrays:
                return "none: it takes no tensor"
            if not outputs or not inputs:
                verb, those = ("takes", trace.inputs) if outputs else ("gives", traced.outputs)
                return f"none: it {verb} {joined(dict.fromkeys(str(x.dtype) for x in those))}"
            if trace.steps is not None:
                return "none: the call runs in steps"
            with trace.active():
                found = differentiate(outputs, [pto.ones_like(x) for x in outputs], inputs)
                graph, _ = trace.finish(found)
        except pto.Error as error:
            return f"none: {error.what}"
        values = pto.interpret(graph, *(KNOWN[name] for name in self.parameters))
        values = values if isinstance(values, list) else [values]
        names = [trace.input_names[id(x)] for x in inputs]
        parts = [f"by `{name}`: {_flat(value)}" for name, value in zip(names, values, strict=True)
                 if np.any(value)]  # fmt: skip
        return "; ".join(parts) or "0: the result changes in jumps, if at all"


def outside(code: str) -> str:
    """What lines outside of a traced function print, and the value of the last expression."""
    names = {"pto": pto, "np": np, **{name: array.copy() for name, array in KNOWN.items()}}
    here = str(Path(_folder.name, f"example_{next(_numbers)}.py"))
    with contextlib.chdir(_folder.name):
        text = cells.output(code, here, names)
    return re.sub(r"^```(?:text)?\n?", "", text, flags=re.M).strip()


def is_expression(code: str) -> bool:
    try:
        ast.parse(code, mode="eval")
    except SyntaxError:
        return False
    return True


def _whole(array: np.ndarray, kind: str) -> np.ndarray:
    """The array with numbers that an element type has."""
    if KINDS[kind].is_float:
        return array
    return array != 0 if kind == "bool" else np.abs(array).astype(np.int64)


def _function(parameters: list[str], body: str) -> str:
    return f"@pto.jit\ndef example({', '.join(parameters)}):\n{textwrap.indent(body, '    ')}\n"


def shown(value: Any) -> str:
    """A result as text: an array, or several by their names or one below the other."""
    if hasattr(value, "_fields"):
        return "\n".join(f"{name}:\n{shown(one)}" for name, one in value._asdict().items())
    if isinstance(value, tuple | list):
        return "\n".join(map(shown, value))
    if value is None:
        return ""
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if array.dtype.kind == "f":
        array = array + 0  # no -0
    return np.array2string(array, precision=4, suppress_small=True)


def _flat(value: Any) -> str:
    text = np.array2string(np.asarray(value) + 0, precision=3, suppress_small=True, separator=", ")
    return re.sub(r"\.?\s*(?=[,\]])|(?<=\[)\s+", "", re.sub(r"\s+", " ", text))


def joined(words: Any) -> str:
    """Words with commas, and `and` in front of the last."""
    *front, last = [*words]
    return f"{', '.join(front)} and {last}" if front else last


def named(kinds: list[str]) -> str:
    """A set of element types in words."""
    if not kinds:
        return "none"
    left, words = [*kinds], []
    for word, group in GROUPS.items():
        if set(group) <= set(left):
            words.append(word)
            left = [kind for kind in left if kind not in group]
    return joined([*left, *words]) if len(kinds) < len(KINDS) else "every type"


def _clause(accepted: dict[str, list[str]]) -> str:
    """The accepted types, by what the results have then."""
    fixed = [len({*results}) == 1 for results in zip(*accepted.values(), strict=True)]
    if all(fixed):
        results = next(iter(accepted.values()))
        return f"{named([*accepted])}; the result is {joined(dict.fromkeys(results))}"
    by_result: dict[str, list[str]] = {}
    for kind, results in accepted.items():
        same = ["the same" if one == kind and not is_fixed else one
                for one, is_fixed in zip(results, fixed, strict=True)]  # fmt: skip
        by_result.setdefault(joined(dict.fromkeys(same)), []).append(kind)
    for result, kinds in [*by_result.items()]:  # "integers (i64)" also says so of i64
        stay = by_result.get("the same", [])
        if result in stay:
            left = [kind for kind in stay if kind != result]
            more = sorted([*kinds, result], key=[*KINDS].index)
            if len(named(left) + named(more)) < len(named(stay) + named(kinds)):
                by_result |= {"the same": left, result: more}
    return ", ".join(f"{named(kinds)} ({text})" for text, kinds in by_result.items() if kinds)


def session(code: str, printed: str, result: str) -> str:
    """Lines of code as one types them, with a prompt in front of each statement, and answers.

    The last statement gives the result; those in front of it print.
    """
    starts = []
    for node in ast.parse(code).body:
        decorators = getattr(node, "decorator_list", [])
        starts.append(min(one.lineno for one in (node, *decorators)))
    lines = [f"{'>>>' if number in starts else '...'} {line}".rstrip()
             for number, line in enumerate(code.splitlines(), 1)]  # fmt: skip
    last = starts[-1] - 1
    lines[last] = lines[last].replace(">>> return ", ">>> ")
    answers = [printed.rstrip()] if printed else []
    return "\n".join([*lines[:last], *answers, *lines[last:], *filter(None, [result.rstrip()])])


# --- shapes --------------------------------------------------------------------------------------


def shape_of(function: Callable, kind: str, shapes: list, *more: Any, **by_name: Any) -> Any:
    """The shape of the first result of a function on tensors of these shapes; None: refused."""
    trace = Trace("probe")
    given = [trace.input(f"t{i}", kind, shape) for i, shape in enumerate(shapes)]
    try:
        with trace.active():
            return taken_apart(function(*given, *more, **by_name))[0][0].shape
    except pto.Error:
        return None


def rules(function: Callable, kind: str, count: int, parameters: Any) -> Iterator[str]:
    """The sentences about shapes that hold of a function of `count` tensors, by trying some."""
    box = (2, 3, 4)

    def gives(shapes: list, *more: Any, **by_name: Any) -> Any:
        return shape_of(function, kind, shapes, *more, **by_name)

    axis = parameters.get("dim")
    is_plain = count == 1 and (axis is None or axis.default is not axis.empty)
    if is_plain and all(gives([s]) == s for s in ((), (5,), (2, 3), box)):
        yield "any; the result has the same"
    if is_plain and gives([()]) is None and all(gives([s]) == s for s in ((2, 3), box)):
        least = "one axis" if gives([(5,)]) == (5,) else "two axes"
        yield f"at least {least}; the result has the same"
    pairs = [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3))]
    if count == 2 and all(gives([*pair]) == (2, 3) for pair in pairs) \
            and gives([(2, 3), (2, 4)]) is None:  # fmt: skip
        yield "any that broadcast, as in NumPy"
    if axis and count == 1 and gives([box], 1) == box:
        yield "any with an axis `dim`; the result has the same"
    if axis and count == 1 and gives([box], 1) == (2, 4):
        keeps = "keepdim" in parameters and gives([box], 1, keepdim=True) == (2, 1, 4)
        every = axis.default is None and gives([box]) == ()
        yield (
            "the result lacks the axes `dim`"
            + (", or all axes where none is named" if every else "")
            + ("; with `keepdim` they stay with size 1" if keeps else "")
        )
