# SPDX-License-Identifier: Apache-2.0
"""Explanation: what becomes of a call of a jitted function, as a text whose parts are data.

    found = softmax.explain(x)
    print(found)                # graph, also after each pass, steps, memory, hints, C++
    found.steps[0].operations   # of the first kernel
    found.memory.peak(1)        # bytes of values at one time

Thread safety: plain values.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pto import _core
from pto.cells import ShownAsText
from pto.config import config
from pto.errors import nearest
from pto.language.choices import Choice, choices_of
from pto.language.location import fail
from pto.language.plan import KINDS, Copy, MemoryPlan, Plan, Step, Value
from pto.language.results import Form
from pto.language.tuned import with_choices
from pto.language.upper_bounds import bytes_of, type_text

if TYPE_CHECKING:
    from pto.language.jit import Jit


class Explanation(ShownAsText, str):
    """The text of explain(), with its parts as data.

    `levels` has the text of the graph by the name of its stage, "graph" the first; `graph` is the
    one that is traced, `fused` the one that becomes code. `reason` says why the interpreter runs
    the graph, where it does: then there are no steps. `constants` says of each parameter that is a
    pto.Constant why it is not packed, and "" of one that is.
    """

    levels: dict[str, str]
    graph: _core.Graph
    fused: _core.Graph
    steps: tuple[Step, ...]
    memory: MemoryPlan
    choices: tuple[Choice, ...]
    cpp: str
    constants: dict[str, str]
    reason: str
    plan: Plan

    def every_step(self) -> Iterator[Step]:
        """The steps and those of their bodies, in the order of the text."""
        return (inner for one in self.steps for inner in one.all())

    def steps_of(self, kind: str) -> list[Step]:
        """The steps of one kind: "kernel", "product", "loop", "while", "branch", "write" ..."""
        found = [step for step in self.every_step() if step.kind == kind]
        if not found and kind not in KINDS:
            fail(f"steps_of: no step is of the kind {kind!r:.60}", nearest(str(kind), KINDS),
                 'name a kind, such as "kernel"; every_step() gives all steps')  # fmt: skip
        return found


def explain(jit: "Jit", args: tuple, kwargs: dict[str, Any]) -> Explanation:
    """Explains a call of a jitted function."""
    tensors, constants, numbers = jit.describe_call(*args, **kwargs)
    graph, form = jit._graph(tensors, constants, numbers)
    graph = with_choices(jit, graph)
    stages: dict[str, str] = {}
    found = _core.explain(graph, lambda stage, text: stages.update({stage: text.rstrip()}),
                          [t[2] for t in tensors if t], target=config.target)  # fmt: skip
    inputs = [about for about in graph.inputs if not about[3]]
    packed = _packed(jit, form, found)
    plan = Plan(found, _sizes(jit, args, kwargs, inputs, tensors), [about[0] for about in inputs])
    choices = tuple(choices_of(plan))
    cpp = stages.pop("C++", "")
    parts = dict(stages)
    if not found["reason"]:
        parts["steps"] = "\n".join(step_lines(plan, plan.steps))
        parts["memory of values"] = "\n".join(_memory_lines(plan))
        parts["choices"] = "\n".join(map(str, choices))
        if packed:
            parts["constants"] = "\n".join(
                f"{name}: {f'not packed: {why}' if why else PACKED}" for name, why in packed.items()
            )
        parts["C++"] = cpp
    parts["memory of the result"] = _costs(graph)
    parts["products of f32"] = (
        f"matmul_precision = {config.matmul_precision!r}: {_core.way_of_floats()}"
    )
    made = Explanation("\n\n".join(f"==== {name} ====\n{text}" for name, text in parts.items()))
    made.levels, made.graph, made.fused = stages, graph, found["graph"]
    made.steps, made.memory, made.choices = plan.steps, plan.memory, choices
    made.cpp, made.reason, made.plan = cpp, found["reason"], plan
    made.constants = packed
    return made


PACKED = "packed once, when a call sees it again unchanged; products read the packed copy"


def _packed(jit: "Jit", form: Form, found: dict[str, Any]) -> dict[str, str]:
    """Why constants are not packed, by name; "" of those that are."""
    why = {name: "" if is_packed else why for name, is_packed, why in found.get("constants", ())}
    written = form.written if jit.writes else ()
    nowhere = found["reason"] or "no product has it, or a part of it, on its right"
    return {name: "the function writes it" if name in written else why.get(name, nowhere)
            for name in jit.constant_parameters}  # fmt: skip


def _sizes(jit: "Jit", args: tuple, kwargs: dict[str, Any], inputs: list,
           tensors: list) -> dict[int, int]:  # fmt: skip
    """The sizes of the arguments, by the number of their symbol."""
    values = dict(zip(jit.parameters, args, strict=False)) | kwargs
    given = [values.get(name) for name, t in zip(jit.parameters, tensors, strict=True) if t]
    sizes: dict[int, int] = {}
    for (_, _, shape, _), value in zip(inputs, given, strict=True):
        for size, number in zip(shape, getattr(value, "shape", ()), strict=False):
            if isinstance(size, _core.Dim) and size.op == 1:
                sizes.setdefault(size.value, int(number))
    return sizes


def step_lines(plan: Plan, steps: tuple[Step, ...], indent: str = "") -> Iterator[str]:
    """Steps as text, bodies indented; numbers and addresses are counted."""
    quiet = sum(step.is_quiet for step in steps)
    for step in steps:
        if step.is_quiet:
            continue
        yield indent + _step_line(plan, step)
        if step.why:
            line = f" ({step.why_line})" if step.why_line else ""
            yield f"{indent}    in order: {step.why}{line}"
        if step.nest:
            yield f"{indent}    {step.nest}"
        yield from (f"{indent}    ends: {reason}" for reason in step.ends)
        yield from step_lines(plan, step.steps, indent + "  ")
    if quiet:
        yield f"{indent}({quiet} steps that compute numbers and addresses)"


_ON_ITS_THREAD = ", on the thread of an iteration of the loop around it"


def _step_line(plan: Plan, step: Step) -> str:
    text = step.title
    if step.kind == "loop":
        trips = f", {step.trips} iterations" if step.trips is not None else ""
        text += f" {step.order}{trips}{_ON_ITS_THREAD if step.inside else ''}"
    else:
        text += f": {' '.join(step.operations)} : {step.type}" if step.operations else ""
        text += f" over [{', '.join(step.axes)}]" if step.axes else ""
    if step.workers:
        text += f", at most {step.workers} tasks"
    if step.tiles_per_task:
        text += f", tasks of {step.tiles_per_task} tiles"
    if step.places:
        text += f" -> {', '.join(plan.place_name(place) for place in step.places)}"
    return text + (f" @ {', '.join(step.lines)}" if step.lines else "")


def _memory_lines(plan: Plan) -> Iterator[str]:
    memory = plan.memory
    for value in memory.values:
        where = f" @ {value.line}" if value.line else ""
        yield f"{value.name}: {value.type}, {_bytes_text(value)}{where}"
    for place, users in memory.shared.items():
        yield f"one memory, {place}: {'; '.join(users)}"
    for output, name in memory.in_place:
        yield f"output {output} is computed in the memory of {name} where the array allows it"
    for copy in memory.copies:
        yield _copy_line(copy)
    threads = _core.num_threads()
    peak, more = memory.peak(threads), plan.sizes.unbounded
    if peak is None:
        names = ", ".join(f"s{s} ({line})" for s, line in more.items())
        yield f"peak: depends on data; sizes without a bound: {names}"
    else:
        yield f"peak: {peak} bytes on {threads} threads, {memory.peak(1)} on one"


def _bytes_text(value: Value) -> str:
    if value.bytes is None:
        return f"{value.size} bytes, from data"
    shown = "" if value.size == str(value.bytes) else f"{value.size} = "
    return f"{shown}{value.bytes} bytes"


def _copy_line(copy: Copy) -> str:
    where = f" @ {copy.line}" if copy.line else ""
    size = "" if copy.bytes is None else f", {copy.bytes} bytes"
    maybe = ", unless it lies there already" if copy.may_be_none else ""
    return f"copy of {copy.type}{size}{maybe}{where}"


def _costs(graph: _core.Graph) -> str:
    """Says how many bytes each output takes."""
    lines = []
    for place, (kind, shape) in enumerate(graph.outputs):
        extent = " * ".join([str(n) for n in shape] + [str(bytes_of((kind, ())))])
        lines.append(f"output {place}: {type_text((kind, shape))}, {extent} bytes")
    return "\n".join(lines)
