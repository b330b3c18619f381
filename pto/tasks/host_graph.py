# SPDX-License-Identifier: Apache-2.0
"""HostGraph: a captured run at level host that runs again without its orchestration.

    graph = rt.capture("pipeline", args)      # orchestrates, runs nothing
    graph.replay(args)                        # other arrays of the same kind too
    graph.svg()                               # a picture of its tasks; also at the end of a cell

The graph owns what the orchestration allocated. If the arguments' structure, element types, shapes,
strides, overlaps or numbers differ from the capture, or a private array is shared now, the graph
captures anew, warns, and counts it in `recaptures`. A replay copies private arrays in first
and, if tasks write them, back afterwards.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy

from pto import _core
from pto.errors import Failure
from pto.graphviz import Drawn
from pto.tasks.arguments import Arg, TensorHandle
from pto.tasks.host_context import Context, HostKernel, Node
from pto.tasks.picture import dot_of
from pto.tasks.run import HostReport
from pto.tasks.shared import PrivateCopies, bounds_of, numpy_of

if TYPE_CHECKING:
    from pto.tasks.host_runtime import HostRuntime


class RecordedNode(Node):
    """A task of a recording; it has not run."""

    @property
    def done(self) -> bool:
        return False


class RecordingContext(Context):
    """Puts tasks into a recording instead of running them."""

    def record_to(self, recording: Any) -> None:
        self._recording = recording

    def wait(self, what: Any) -> None:
        raise Failure(
            "the orchestration waits for a result of its tasks", "a capture runs no tasks",
            "let tasks compute it, or run the orchestration without capture",
        )  # fmt: skip

    def _enter_gate(self, *gate: Any) -> int:
        return self._recording.add_gate(self._engine, *gate)

    def _enter(self, kernel: HostKernel, core: list, ids: list[int], site: str) -> int | None:
        number = self._recording.add(self._engine, kernel.number, kernel.name, core, ids, site)
        return None if number < 0 else number

    def _node(self, number: int) -> Node:
        return RecordedNode(number, self)


class HostGraph(Drawn):
    """Made by Runtime.capture(); replays follow the other runs of the runtime."""

    def __init__(
        self, runtime: "HostRuntime", name: str, orch: Callable, kernels: dict, args: Any
    ) -> None:
        self.name, self.recaptures = name, 0
        self._runtime, self._orch, self._kernels = runtime, orch, kernels
        self.report: HostReport | None = None
        self._capture(args)

    @property
    def tasks(self) -> int:
        return self._recording.tasks

    def dot(self) -> str:
        """The tasks and their dependencies in Graphviz's language."""
        return dot_of(*self._recording.nodes())

    def replay(self, args: Any = None, deadline: float | None = None) -> None:
        """Runs the tasks on these arguments and waits; raises the first cause of a failure."""

        def replay(begin: Callable, end: Callable) -> None:
            self._replay(args, begin, end)

        work = self._runtime.work_of_replay(self.name, replay, deadline)
        self._runtime.execute(self.name, work)

    def _capture(self, args: Any) -> None:
        memory = self._runtime._memory
        arrays, self._key = _arrays_of(args, memory)
        shared = [bounds_of(a) for a in arrays if a.size and memory.holds(a)]
        recording = _core.HostRecording(_merged(shared))
        copies = PrivateCopies(memory)
        views = {i: copies.view_of(a) for i, a in enumerate(arrays)
                 if a.size and not memory.holds(a)}  # fmt: skip
        self._first = len(copies)  # the first copy of the orchestration's own arrays
        context = RecordingContext(self._runtime, self._runtime._engine, self._kernels, copies)
        context.record_to(recording)
        try:
            self._orch(context, args)
        finally:
            context.end()
        self._recording, self._copies, self._context = recording, copies, context
        self._views = views
        self._written = {i for i, view in views.items() if copies.is_written(view)}

    def _replay(self, args: Any, begin: Callable, end: Callable) -> None:
        memory = self._runtime._memory
        arrays, key = _arrays_of(args, memory)
        if key != self._key:
            warnings.warn(
                f"graph {self.name!r} is captured anew: its arguments' structure, types, shapes, "
                "strides, overlaps or numbers have changed",
                RuntimeWarning,
                stacklevel=7,
            )
            self._capture(args)
            self.recaptures += 1
        self._copies.copied_in = self._copies.copied_out = 0
        self._copies.refresh(self._first)
        for i, view in self._views.items():
            numpy.copyto(view, arrays[i])
            self._copies.copied_in += view.nbytes
        begins = [low for low, _ in _merged(
            [bounds_of(a) for a in arrays if a.size and memory.holds(a)])]  # fmt: skip
        begin()
        counts = None
        try:
            self._recording.submit(self._runtime._engine, begins)
            counts = end()
        finally:
            if counts is None:  # failed or interrupted; the engine's run may still be open
                self._runtime.end_failed_run()
        for i in self._written:
            numpy.copyto(arrays[i], self._views[i])
            self._copies.copied_out += arrays[i].nbytes
        self.report = HostReport(
            **counts, copied_in=self._copies.copied_in, copied_out=self._copies.copied_out
        )

    def __repr__(self) -> str:
        return f"<HostGraph {self.name!r}: {self.tasks} tasks>"


def _arrays_of(args: Any, memory: Any) -> tuple[list[numpy.ndarray], tuple]:
    """The arrays in the arguments, and the properties that a replay must repeat."""
    arrays: list[numpy.ndarray] = []

    def key_of(value: Any) -> Any:
        if isinstance(value, Mapping):
            return "dict", tuple((k, key_of(v)) for k, v in value.items())
        if isinstance(value, list | tuple):
            return "list", tuple(map(key_of, value))
        if isinstance(value, Arg):
            return "arg", int(value.type), key_of(value.data)
        data = value.data if isinstance(value, TensorHandle) else value
        if not hasattr(data, "__dlpack__") and not hasattr(data, "__array_interface__"):
            return "value", type(value).__name__, value
        array, is_bfloat = numpy_of(data)
        arrays.append(array)
        is_shared = bool(array.size) and memory.holds(array)
        return "array", array.shape, array.strides, array.dtype.str, is_bfloat, is_shared

    key = key_of(args)
    places = [bounds_of(a) for a in arrays]
    overlaps = tuple((i, j, places[j][0] - places[i][0])
                     for i in range(len(places)) for j in range(i)
                     if places[i][0] < places[j][1] and places[j][0] < places[i][1])  # fmt: skip
    return arrays, (key, overlaps)


def _merged(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Joins overlapping pieces, in the order of the first of each."""
    merged: list[tuple[int, int]] = []
    for begin, end in pieces:
        for i, (low, high) in enumerate(merged):
            if begin < high and low < end:
                merged[i] = min(low, begin), max(high, end)
                break
        else:
            merged.append((begin, end))
    return merged
