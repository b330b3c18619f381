# SPDX-License-Identifier: Apache-2.0
"""pto.torch.explain(): the steps that a call of a compiled model runs, with times and reasons.

    print(pto.torch.explain(model, **batch))

explain() compiles a plain model first. It makes the call four times, so that everything is
compiled and packed, and shows the last call. Thread safety: one thread verifies or explains at a
time; graphs that other threads run meanwhile are shown too.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from pto import _core
from pto.adapters.torch import direct
from pto.adapters.torch.compile import fragments
from pto.adapters.torch.compile.compiled import NOT_PACKED, CompiledGraph, line_of, observers
from pto.adapters.torch.compile.plan import ATEN, PROGRAM, Step, name_of
from pto.cells import ShownAsText
from pto.errors import InvalidType
from pto.language.location import describe, user_line
from torch._dynamo.utils import counters

_CHANGES = {
    "checked": "changes of weights are seen, but for writes of a few elements through .data or a "
    "NumPy view: pto.repack(w), or the option weights='hashed'",
    "hashed": "every change of a weight is seen: each call reads all its bytes",
    "trusted": "weights are trusted: no change in place is seen, unless pto.repack(w) tells of it",
}  # fmt: skip
_REDUCING = ("mm", "sum", "mean", "softmax", "conv", "norm", "attention", "cumsum", "prod", "var",
             "upsample")  # fmt: skip


@dataclass(frozen=True)
class ShownStep:
    """A step of a run: the model's line, its kind, its operations, its time.

    `bytes` are those that it reads and writes, None where unknown; `why` says why ATen runs it, or
    why a call does not.
    """

    line: str
    kind: str
    operations: tuple[str, ...]
    us: float
    bytes: int | None
    why: str

    def __str__(self) -> str:
        about = " ".join(dict.fromkeys(self.operations))
        about = about if len(about) <= 48 else f"{about[:45]}..."
        file = "/".join(self.line.rsplit("/", 2)[-1:])
        size = "" if self.bytes is None else f"{self.bytes / 1e6:.2f} MB"
        return f"{about:<50}{file:<34}{self.kind:<10}{self.us:>9.1f} us {size:>10}  {self.why}"


@dataclass(frozen=True)
class ShownGraph:
    """One graph that the call ran."""

    kind: str
    steps: tuple[ShownStep, ...]
    source: str
    weights: str = "checked"  # the option

    @property
    def has_our_bits(self) -> bool:
        """Says whether no step of ATen sums, so that threads and batches change no bit."""
        return not any(
            one.kind == ATEN and any(word in op for op in one.operations for word in _REDUCING)
            for one in self.steps
        )

    def __str__(self) -> str:
        lines = [f"{self.kind} graph, {len(self.steps)} steps"]
        lines += [f"{place:>3} {step}" for place, step in enumerate(self.steps)]
        law = "hold" if self.has_our_bits else "are not ours: steps of ATen sum"
        return "\n".join([*lines, f"bits for any number of threads and any batch {law}"])


@dataclass(frozen=True)
class Explanation(ShownAsText):
    """The graphs that a call ran, the graph breaks, and what was compiled and packed for it.

    PyTorch tells of breaks, and we of what is `left` to eager mode, when it captures a model: at
    the first call.
    """

    graphs: tuple[ShownGraph, ...]
    breaks: tuple[str, ...]
    packed_bytes: int  # of all weights of the process
    peak_bytes: int  # of results and of programs' own memory, at one time of a call
    recompilations: int
    left: tuple[str, ...] = ()  # lines of functions that eager mode runs, being small

    @property
    def steps(self) -> tuple[ShownStep, ...]:
        return tuple(step for graph in self.graphs for step in graph.steps)

    def share_of_aten(self) -> float:
        """ATen's part of the time of the steps, 0 to 1."""
        total = sum(step.us for step in self.steps)
        return sum(step.us for step in self.steps if step.kind == ATEN) / total if total else 0.0

    def __str__(self) -> str:
        count = len(self.graphs)
        none = "no breaks" if count == 1 else "breaks were told when the model was captured"
        breaks = "; ".join(self.breaks) or none
        lines = [f"{count} graph{'s' if count != 1 else ''}, {breaks}", *map(str, self.graphs)]
        packed = f"packed weights {self.packed_bytes / 1e6:.1f} MB"
        peak = f"at most {self.peak_bytes / 1e6:.2f} MB of values at once"
        if not direct.knows_owners():
            packed = NOT_PACKED
        seen = " ".join(dict.fromkeys(_CHANGES[graph.weights] for graph in self.graphs))
        share = f"{100 * self.share_of_aten():.1f} % of the time in ATen"
        about = f"{packed}; {peak}; {share}; recompiled {self.recompilations} times"
        if self.left:
            lines.append(f"eager mode runs, being small: {', '.join(self.left)}")
        return "\n".join([*lines, about, seen])


@contextmanager
def observed(see: Callable[[CompiledGraph, list], list]) -> Iterator[None]:
    """Lets `see` run each graph of a block."""
    observers.append(see)
    try:
        yield
    finally:
        observers.remove(see)


def as_compiled(model: Callable[..., Any]) -> Callable[..., Any]:
    """The model where it is compiled already, else a compiled form."""
    if not callable(model):
        raise InvalidType(
            f"the model is {describe(model)}", "a model is a torch.nn.Module or a function",
            "pass one, then the arguments of its call", user_line(),
        )  # fmt: skip
    is_compiled = isinstance(model, torch._dynamo.eval_frame.OptimizedModule) or hasattr(
        model, "_torchdynamo_orig_callable"
    )
    return model if is_compiled else torch.compile(model, backend="pto")


def _peak_bytes(call: Callable[[], Any]) -> int:
    """The most bytes that a call takes from our allocator at one time."""
    _core.reset_peak_live_bytes()
    before = _core.memory_stats()["live_bytes"]
    call()
    return _core.memory_stats()["peak_live_bytes"] - before


def explain(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """The steps of model(*args, **kwargs); it raises what the model raises.

    It shows backward graphs only where the model itself runs them. The peak counts what other
    threads allocate meanwhile, and not what ATen does.
    """
    breaks, left_before = dict(counters["graph_break"]), len(fragments.left)
    run = as_compiled(model)
    run(*args, **kwargs)
    first = counters["stats"]["unique_graphs"]
    run(*args, **kwargs)
    peak = _peak_bytes(lambda: run(*args, **kwargs))
    shown: list[ShownGraph] = []

    def see(graph: CompiledGraph, given: list) -> list:
        times: dict[int, float] = {}
        run_observed = graph.replay.observed()
        before = [time.perf_counter()]

        def note(place: int, names: dict) -> None:
            now = time.perf_counter()
            times[place] = now - before[0]
            before[0] = time.perf_counter()

        results = run_observed(given, note)
        steps = [_shown(graph, step, times.get(at, 0.0)) for at, step in enumerate(graph.steps)]
        shown.append(
            ShownGraph(graph.kind, tuple(steps), graph.replay.source, graph.options.weights)
        )
        return results

    with observed(see):
        run(*args, **kwargs)
    new = [reason for reason, n in counters["graph_break"].items() if n > breaks.get(reason, 0)]
    again = max(0, counters["stats"]["unique_graphs"] - first)
    packed = _core.packed_weight_bytes()
    left = tuple(dict.fromkeys(fragments.left[left_before:]))
    return Explanation(tuple(shown), tuple(new), packed, peak, again, left)


def _shown(graph: CompiledGraph, step: Step, seconds: float) -> ShownStep:
    names = tuple(name_of(node) for node in step.nodes)
    lines = [line for node in step.nodes if (line := line_of(node))]
    line = lines[0] if lines else ""
    read = step.group.inputs if step.kind == PROGRAM else graph.of.reads(step.node)
    values = [*read, *(step.group.results if step.kind == PROGRAM else [step.node])]
    sizes = [graph.of.promise(v).bytes for v in values
             if isinstance(v.meta.get("val"), torch.Tensor)]  # fmt: skip
    total = None if None in sizes else sum(sizes)
    if step in graph.replay.once:
        return ShownStep(line, step.kind, names, 0.0, total, "it reads no input, so it ran once")
    return ShownStep(line, step.kind, names, 1e6 * seconds, total, step.reason)
