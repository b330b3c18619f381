# SPDX-License-Identifier: Apache-2.0
"""A compiled graph: its plan, the function that runs it, and the errors of its steps.

`graphs()` has the graphs of the process that are alive. Thread safety: any thread may run a graph.
"""

import contextlib
import pathlib
import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from pto import _core
from pto.adapters.torch import direct
from pto.adapters.torch.compile.attention_pattern import recognise_attention
from pto.adapters.torch.compile.checks import is_check, seen
from pto.adapters.torch.compile.in_aten import Values
from pto.adapters.torch.compile.mutations import write_in_place
from pto.adapters.torch.compile.options import Options
from pto.adapters.torch.compile.plan import ATEN, Step, name_of, planned
from pto.adapters.torch.compile.replay import Replay
from pto.errors import Error, Failure, InvalidPosition
from torch import fx

NOT_PACKED = (
    "no weight is packed: what tells who owns a tensor is not built for this PyTorch; run"
    " python -m pto adapters build torch"
)
_graphs: "weakref.WeakSet[CompiledGraph]" = weakref.WeakSet()
_count = 0
_PRECISIONS = {"f32": None, "bf16": "medium"}
_CHECKS = {"hashed": "compared", "trusted": "trusted"}  # "checked": as pto.config.weights says
_OF_ATEN = re.compile(r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)")
_WORDS = "position {} along axis {}, which has the size {}"
_OURS = re.compile(_WORDS.format(*[r"(-?\d+)"] * 3))
observers: "list[Callable[[CompiledGraph, list], list]]" = []  # run graphs in their own way


def graphs() -> "list[CompiledGraph]":
    """The compiled graphs that are alive, in the order in which they were made."""
    return sorted(_graphs, key=lambda one: one.number)


class CompiledGraph:
    """One graph of AOTAutograd; `kind` is "inference", "forward" or "backward".

    `run(list)` takes the graph's inputs, empties the list and returns the results. Raises Failure
    for a step of ATen where the option fallback is "error".
    """

    def __init__(
        self, kind: str, options: Options, module: fx.GraphModule, constants: set[fx.Node]
    ):
        global _count
        self.kind, self.options, self.module, self.number = kind, options, module, _count
        _count += 1
        write_in_place(module.graph)
        if options.bits == "free":
            recognise_attention(module.graph)
        precision = _PRECISIONS[options.precision]
        self.of, self.steps = planned(module.graph, constants, precision)
        programs = [step.program for step in self.steps if step.program is not None]
        weights = any(one.is_constant for made in programs for one in made.recipe.parameters)
        if weights and not direct.knows_owners():
            warnings.warn(f"torch.compile: {NOT_PACKED}", RuntimeWarning, stacklevel=2)
        if options.fallback == "error":
            self._refuse_fallback()
        self.replay = Replay(module.graph, module, self.of, self.steps)
        self.function = self.replay.function()
        if options.dump:
            self._dump(pathlib.Path(options.dump))
        _graphs.add(self)
        self.run = _guarded(self)

    def _refuse_fallback(self) -> None:
        for step in self.steps:
            if step.kind == ATEN and not is_check(step.node):  # which computes nothing
                raise Failure(
                    f"torch.compile: {name_of(step.node)} would run in ATen: {step.reason}",
                    "the option fallback is 'error', which asks that every step is ours",
                    "leave fallback out, or change the model there",
                    line_of(step.node),
                )

    def _dump(self, folder: pathlib.Path) -> None:
        name = f"graph{self.number}_{self.kind}"
        (folder / f"{name}.fx.txt").write_text(self.module.print_readable(print_output=False))
        (folder / f"{name}.py.txt").write_text(self.replay.source)
        for place, step in enumerate(self.steps):
            if step.program is not None:
                (folder / f"{name}_step{place}.pto.txt").write_text(str(step.program.graph))


def _guarded(graph: CompiledGraph) -> Any:
    """The function of a graph; an error in a step names the model's line."""
    function, check = graph.function, _CHECKS.get(graph.options.weights)

    def run(args: list) -> list:
        before = _core.exchange_thread_weight_check(check) if check else None
        try:
            if observers:
                return observers[-1](graph, args)
            return function(args)
        except Exception as error:
            _name_line(graph, error)
            raise
        finally:
            if check:
                _core.exchange_thread_weight_check(before)

    run.graph, run._boxed_call = graph, True
    return run


def _name_line(graph: CompiledGraph, error: Exception) -> None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not graph.function.__code__:
        trace = trace.tb_next
    if trace is None:
        return
    line = trace.tb_lineno - 2
    step = graph.replay.called[line] if 0 <= line < len(graph.replay.called) else None
    if step is None:
        return
    if isinstance(error, InvalidPosition):
        _word_as_pytorch(graph, step, trace.tb_frame.f_locals, error)
    elif is_check(step.node):
        _show_values(graph, step.node, trace.tb_frame.f_locals, error)
    line = line_of(step.node)
    if isinstance(error, Error):
        if step.group is not None:  # its program knows no names of the graph
            known = {f"x{place}": node.name for place, node in enumerate(step.group.inputs)}
            texts = error.what, error.why, error.fix
            error.what, error.why, error.fix = (
                re.sub(r"\bx\d+\b", lambda found: known.get(found[0], found[0]), text)
                for text in texts
            )
        error.location = line or error.location
        error.args = (error.what, error.why, error.fix, error.location)
    else:
        error.add_note(f"in {name_of(step.node)}, step of the compiled graph, at {line}")


def _show_values(
    graph: CompiledGraph, check: fx.Node, names: dict[str, Any], error: Exception
) -> None:
    with contextlib.suppress(Exception), torch.no_grad():  # what cannot be told: the check failed
        if found := seen(graph, check, names):
            error.args = (f"{error}: {found}",)


def _word_as_pytorch(
    graph: CompiledGraph, step: Step, names: dict[str, Any], error: InvalidPosition
) -> None:
    """Lets an error name what the model's line knows: the axis of a tensor, where a formula has
    joined those of x[i, j] and found a position along the joined one."""
    values = Values(graph, names, wide=False)
    try:
        with torch.no_grad():
            for node in step.nodes:
                values.compute(node)
    except Exception as of_aten:
        if found := _OF_ATEN.search(str(of_aten)):
            error.what = _OURS.sub(_WORDS.format(*found.groups()), error.what)
    if found := _OURS.search(error.what):
        last = int(found[3]) - 1
        error.why, error.fix = "an axis without elements has no positions", "pass no position"
        if last >= 0:
            error.why = f"positions are from 0 to {last}; those in brackets from {-last - 1}"
            error.fix = f"pass positions that exist: index.clamp(0, {last})"


def line_of(node: fx.Node) -> str:
    """The model's line of a node, "file.py:12", or ""."""
    text = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in text.splitlines()]
    found = [one for one in lines if one.startswith("File ") and "<eval_with_key>" not in one]
    if not found:
        return ""
    file, line = found[-1].split(", ")[:2]
    return f"{file[5:].strip(chr(34))}:{line.removeprefix('line ').strip()}"
