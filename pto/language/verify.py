# SPDX-License-Identifier: Apache-2.0
"""verify(): checks everything that the compiler makes of a call against the interpreter.

    report = pto.verify(softmax, x)
    assert report.is_equal, report        # its text names what deviates

Each pass is compared with the graph before it, bit by bit, and the compiled function with the
traced graph, within the interpreter's bounds. The arrays of the call stay as they are.

Thread safety: as that of a call of the function.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from pto import _core
from pto.cells import ShownAsText, preformatted, table
from pto.config import config
from pto.errors import Error, InvalidType
from pto.language.copies import copies_of, filled
from pto.language.interpret import interpret, pack, unpack
from pto.language.jit import Jit
from pto.language.jit_call import bound_by_name
from pto.language.location import describe, user_line
from pto.language.program import Program
from pto.language.recording import refuse_interpreted
from pto.language.results import Form, taken_apart
from pto.language.tools import Tools, unbound
from pto.language.written import check as check_written

COMPILED = "compiled form"
_ATTEMPTS, _COMPILED_ATTEMPTS = 600, 40  # to shrink what a pass does, and the compiled form


@dataclasses.dataclass(frozen=True)
class Deviation:
    """Where the first stage differs; `error` where it gives no values at all."""

    stage: str  # a pass, or "compiled form"
    tensor: str  # the parameter that is written, or "output 0"
    index: tuple[int, ...]
    expected: Any
    got: Any
    operation: str
    line: str
    program: str  # that shows it, as small as could be found
    error: str = ""

    def __str__(self) -> str:
        where = f"{self.tensor}, element {list(self.index)}"
        rows = {"error": self.error} if self.error else {
            "tensor": where, "expected": self.expected, "got": self.got}  # fmt: skip
        rows |= {"operation": self.operation, "line": self.line or "unknown"}
        lines = [f"  {name:<10} {value}" for name, value in rows.items()]
        return "\n".join([*lines, "  This program shows it:", self.program.rstrip()])


@dataclasses.dataclass(frozen=True)
class Report(ShownAsText):
    """The findings of verify(): (stage, how it agrees) of each, up to the first that deviates."""

    name: str
    stages: tuple[tuple[str, str], ...]
    deviation: Deviation | None = None

    @property
    def is_equal(self) -> bool:
        return self.deviation is None

    def __str__(self) -> str:
        lines = [f"  {stage:<24} {how}" for stage, how in self.stages]
        return "\n".join([self._head(), *lines, *([str(self.deviation)] if self.deviation else [])])

    def _cells(self) -> Iterator[str]:
        yield preformatted(self._head())
        yield table(("stage", "how it agrees"), self.stages)
        if self.deviation:
            yield preformatted(str(self.deviation))

    def _head(self) -> str:
        if self.deviation is None:
            return f"{self.name}: every stage computes what its graph means"
        return f"{self.name}: the stage {self.deviation.stage} is wrong, a defect of OpenPTO"


@dataclasses.dataclass(frozen=True)
class _Difference:
    output: int
    index: tuple[int, ...] = ()
    expected: Any = None
    got: Any = None
    error: str = ""


def verify(function: Any, *args: Any, **kwargs: Any) -> Report:
    """Compares each stage of this call with the interpreter; all runs on copies of the arrays.

    Raises Error where the call itself is one: the interpreter refuses its arguments, say.

    Example:
        @pto.jit
        def double(x):
            return x + x

        print(pto.verify(double, x).is_equal)
    """
    return _verified(function, args, kwargs, True)


def verify_passes(function: Any, *args: Any, **kwargs: Any) -> Report:
    """As verify(), without the compiled form: no C++ compiler runs."""
    return _verified(function, args, kwargs, False)


def _verified(function: Any, args: tuple, kwargs: dict[str, Any], is_compiled: bool) -> Report:
    function, args, kwargs = _plain(function, args, kwargs)
    if is_compiled:
        refuse_interpreted("verify", function.__name__)
    compiled = function.compiled
    graph, form = compiled.trace_with_form(*args, **kwargs)
    given = bound_by_name(compiled, args, kwargs)
    call = _Call(graph, form, {name: given[name] for name, *_ in graph.inputs})
    check_written(graph.name, {name: given[name] for name in call.written})
    found: list[tuple[str, str]] = []
    for stage, check in call.checks(lambda: _run(function, compiled, given, form)):
        if stage == COMPILED and not is_compiled:
            break
        how, difference = check()
        if difference is not None:
            deviation = call.deviation(stage, difference)
            return Report(graph.name, (*found, (stage, "deviates")), deviation)
        found.append((stage, how))
    return Report(graph.name, tuple(found))


def _plain(function: Any, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """The compiled function for these arguments, and the arguments it gets."""
    function, args = unbound(function, args)
    if not isinstance(function, Tools):
        raise InvalidType(
            f"verify: the function is {describe(function)}",
            "what is compared is compiled code, which functions under @pto.jit have",
            "pass a function under @pto.jit, then the arguments of its call",
            user_line(),
        )
    return function.plain(args, kwargs)


def _run(function: Any, compiled: Jit, given: dict[str, Any], form: Form) -> list:
    """The results of a call on copies: the returned tensors, then the written ones."""
    copies = copies_of(given)
    result = function(*(copies[name] for name in compiled.parameters))
    if not isinstance(function, Program):
        return taken_apart(result)[0]
    if "idle" in form.keys:
        return [0]
    returned = taken_apart(result)[0] if "returned" in form.keys else []
    return [*returned, *(copies[name] for name in form.written)]


class _Call:
    """A graph with the values of its inputs."""

    def __init__(self, graph: _core.Graph, form: Form, values: dict[str, Any]):
        self.graph = graph
        self.kinds = {name: (dtype, dims) for name, dtype, dims, _ in graph.inputs}
        self.values = {name: pack(value, self.kinds[name][0]) for name, value in values.items()}
        self.written = form.written
        count = len(graph.outputs) - len(self.written)
        self.names = [*(f"output {place}" for place in range(count)), *self.written]

    def checks(self, run: Callable[[], list]) -> list[tuple[str, Callable]]:
        """(stage, a function that says how it agrees, and the first difference) in order."""
        inputs = list(self.values.values())
        stages = _stages(self.graph)
        found = [(stage, lambda stage=stage, cuts=cuts: (
                     "within bounds" if cuts else "bit-equal",
                     _of_pass(stage, cuts, stages, inputs)))
                 for stage, cuts, _ in _core.passes()]  # fmt: skip
        interpret(self.graph, *(unpack(one) for one in inputs))  # refuses what a call may not do

        def compiled() -> tuple[str, _Difference | None]:
            if stages[1]:  # no pass is wrong, so the call is: an output's size from data, say
                raise stages[1]
            return "within bounds", _compared(self.graph, inputs, True, lambda: self._packed(run()))

        return [("graph", lambda: ("reads back", _text_of(self.graph))), *found,
                (COMPILED, compiled)]  # fmt: skip

    def _packed(self, results: list) -> list[tuple]:
        kinds = (kind for kind, _ in self.graph.outputs)
        return [pack(value, kind) for value, kind in zip(results, kinds, strict=True)]

    def deviation(self, stage: str, found: _Difference) -> Deviation:
        small = self._shrunk(stage)
        operation, line = small.origins[0] if small != self.graph else (
            self.graph.origins[found.output])  # fmt: skip
        return Deviation(stage, self.names[found.output], found.index, found.expected, found.got,
                         operation, line, str(small), found.error)  # fmt: skip

    def _shrunk(self, stage: str) -> _core.Graph:
        """The smallest graph found for which the stage deviates on some values."""
        left = _COMPILED_ATTEMPTS if stage == COMPILED else _ATTEMPTS

        def fails(graph: _core.Graph) -> bool:
            nonlocal left
            left -= 1
            return left >= 0 and any(self._deviates(stage, graph, fill) for fill in range(2))

        return _core.shrink(self.graph, fails)

    def _deviates(self, stage: str, graph: _core.Graph, fill: int) -> bool:
        try:
            inputs = filled(graph, self.values, self.kinds, fill)
            if stage == "graph":
                return _text_of(graph) is not None
            if stage == COMPILED:
                return _has_call(graph) and _of_compiled(graph, inputs) is not None
            cuts = {name: cuts for name, cuts, _ in _core.passes()}[stage]
            return _of_pass(stage, cuts, _stages(graph), inputs) is not None
        except (Error, ValueError, TypeError, ArithmeticError):  # these values do not fit
            return False


def _text_of(graph: _core.Graph) -> _Difference | None:
    """The difference between a graph and what its text says."""
    try:
        return None if _core.Graph.parse(str(graph)) == graph else _Difference(0, error="differs")
    except Error as error:
        return _Difference(0, error=str(error))


def _of_pass(
    stage: str, cuts: bool, stages: tuple[dict[str, str], Error | None], inputs: list[tuple]
) -> _Difference | None:
    """The first difference between the graph after a pass and that before it."""
    texts, error = stages
    names = list(texts)
    if stage not in texts:
        return _Difference(0, error=str(error)) if error and len(names) == _place(stage) else None
    text = texts[names[names.index(stage) - 1]]
    if text == texts[stage]:
        return None
    before = _core.Graph.parse(text)
    return _compared(before, inputs, cuts, lambda: list(
        _core.interpret(_core.Graph.parse(texts[stage]), inputs)))  # fmt: skip


def _place(stage: str) -> int:
    return 1 + [name for name, *_ in _core.passes()].index(stage)


def _stages(graph: _core.Graph) -> tuple[dict[str, str], Error | None]:
    """The text of each stage, the graph first; and the error that ended them."""
    texts: dict[str, str] = {}
    try:
        _core.explain(graph, texts.__setitem__, target=config.target)
    except Error as error:
        return texts, error
    return texts, None


def _has_call(graph: _core.Graph) -> bool:
    """Whether calls may have this graph: one takes an array, and its code can be written."""
    return not all(is_number for *_, is_number in graph.inputs) and _stages(graph)[1] is None


def _of_compiled(graph: _core.Graph, inputs: list[tuple]) -> _Difference | None:
    """The first difference between a compiled graph and the graph."""
    run = _OfGraph(graph)
    values = [unpack(one) for one in inputs]
    values = [float(one) if about[3] else one
              for one, about in zip(values, graph.inputs, strict=True)]  # fmt: skip
    kinds = [kind for kind, _ in graph.outputs]
    return _compared(graph, inputs, True, lambda: [
        pack(value, kind) for value, kind in zip(run(*values), kinds, strict=True)])  # fmt: skip


def _compared(
    graph: _core.Graph, inputs: list[tuple], has_bounds: bool, run: Callable[[], list[tuple]]
) -> _Difference | None:
    """The first difference between what a graph means and what `run` gives."""
    if has_bounds:
        wanted = _core.interpret_with_bounds(graph, inputs)
    else:
        wanted = [(one, None) for one in _core.interpret(graph, inputs)]
    try:
        found = run()
    except Error as error:
        return _Difference(0, error=str(error))
    for place, ((want, bounds), got) in enumerate(zip(wanted, found, strict=True)):
        if want[:2] != got[:2]:
            return _Difference(
                place, (), *(f"{kind}{list(shape)}" for kind, shape, _ in (want, got))
            )
        at = _core.first_difference(want, got, bounds)
        if at is not None:
            return _difference(place, at, unpack(want), unpack(got))
    return None


def _difference(place: int, at: int, want: Any, got: Any) -> _Difference:
    import numpy

    index = tuple(int(one) for one in numpy.unravel_index(at, want.shape))
    return _Difference(place, index, want[index].item(), got[index].item())


class _OfGraph(Jit):
    """The compiled form of a graph; call it with its inputs."""

    def __init__(self, graph: _core.Graph):
        self.graph = graph
        names = tuple(name for name, *_ in graph.inputs)
        from pto.language import arguments

        self.bind_function(graph.name, names, (), arguments, False)

    def captured(self) -> tuple:
        return (), ()

    def specialise(self, tensors: list, constants: list, numbers: list[bool]) -> tuple:
        strides = [about[2] for about in tensors if about]
        program = _core.compile(self.graph, strides, target=config.target)
        return program, tuple, 0
