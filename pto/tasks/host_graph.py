# SPDX-License-Identifier: Apache-2.0
"""HostGraph: a captured run at level host that runs again without its orchestration.

    graph = rt.capture("pipeline", args)      # orchestrates, runs nothing
    graph.replay(args)                        # other arrays of the same kind too
    graph.svg()                               # a picture of its tasks; also at the end of a cell

The graph owns what the orchestration allocated. If the arguments' structure, element types, shapes,
strides, overlaps or numbers differ from the capture, or a private array is shared now, the graph
captures anew, warns, and counts it in `recaptures`; also if arguments share other memory than at
the capture with private arrays that the orchestration has from elsewhere. A replay copies private
arrays in first, those too, and afterwards back what tasks wrote.
"""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pto import _core
from pto.errors import Failure
from pto.graphviz import Drawn
from pto.tasks.host_context import Context, HostKernel, Node
from pto.tasks.origin import own_frames
from pto.tasks.picture import dot_of
from pto.tasks.recorded_copies import GraphArguments, RecordedCopies
from pto.tasks.run import HostReport

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
        arguments = GraphArguments(args, memory)
        recording = _core.HostRecording(arguments.shared)
        copies = RecordedCopies(memory, arguments)
        context = RecordingContext(self._runtime, self._runtime._engine, self._kernels, copies)
        context.record_to(recording)
        try:
            self._orch(context, args)
        finally:
            context.end()
        copies.end_capture()
        self._recording, self._copies, self._context = recording, copies, context

    def _replay(self, args: Any, begin: Callable, end: Callable) -> None:
        arguments = GraphArguments(args, self._runtime._memory)
        if not self._copies.fit(arguments):
            warnings.warn(
                f"graph {self.name!r} is captured anew: its arguments' structure, types, shapes, "
                "strides, overlaps or numbers have changed",
                RuntimeWarning,
                stacklevel=1 + own_frames(),
            )
            self._capture(args)
            self.recaptures += 1
        copies = self._copies
        copies.begin_replay(arguments)
        begin()
        counts = None
        try:
            self._recording.submit(self._runtime._engine, [low for low, _ in arguments.shared])
            counts = end()
        finally:
            if counts is None:  # failed or interrupted; the engine's run may still be open
                self._runtime.end_failed_run()
            copies.end_replay(counts is not None)
        self.report = HostReport(**counts, copied_in=copies.copied_in, copied_out=copies.copied_out)

    def __repr__(self) -> str:
        return f"<HostGraph {self.name!r}: {self.tasks} tasks>"
