# SPDX-License-Identifier: Apache-2.0
"""CapturedGraph: a captured program that runs again without its orchestration.

    graph = rt.capture("step", args)      # runs nothing
    graph.replay(args)                    # other arrays of the same shapes too
    graph.svg()                           # a picture of its tasks; also at the end of a cell

If element types, shapes, strides, overlaps of the arrays or a scalar differ from the capture, the
graph captures anew, warns, and counts it in `recaptures`. Scalars that the orchestration took by
symbol() alone may differ: a replay evaluates them. The graph owns the tensors that the
orchestration allocated.
"""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pto import _core
from pto.graphviz import Drawn
from pto.tasks.arguments import Arg
from pto.tasks.picture import dot_of
from pto.tasks.run import Report, Work
from pto.tasks.simulation import Scaling, SimulatedRun, checked_cores, simulated
from pto.tasks.tracing import TraceRequest, Tracing


class CapturedGraph(Drawn):
    """Made by Runtime.capture(); replays of one graph follow each other."""

    def __init__(
        self,
        name: str,
        program: Any,
        read: Callable[[Sequence[Arg]], list],
        execute: Callable[[str, Work], Any],
        args: Sequence[Arg],
        workers: int,
        tracing: Tracing,
    ) -> None:
        self.name, self.recaptures = name, 0
        self._program, self._read, self._execute, self._workers = program, read, execute, workers
        self._tracing = tracing
        self._graph = _core.ChipGraph(program, read(args))

    @property
    def tasks(self) -> int:
        return self._graph.tasks

    @property
    def edges(self) -> int:
        return self._graph.edges

    @property
    def nbytes(self) -> int:
        """Bytes of the graph's own memory, for tensors that the orchestration allocated."""
        return self._graph.nbytes

    def dot(self) -> str:
        """The tasks and their dependencies in Graphviz's language."""
        return dot_of(*self._graph.nodes())

    def replay(self, args: Sequence[Arg]) -> None:
        """Runs the tasks on these arguments and waits; raises the first cause of a failure."""
        core, trace = self._read(args), self._tracing.request()

        def work() -> tuple[Report, None]:
            replay = functools.partial(self._replay, core, self._workers, trace)
            return Report(**self._tracing.keep(self.name, replay, trace)), None

        self._execute(self.name, work)

    def simulate(
        self, args: Sequence[Arg], *, cores: int | Sequence[int]
    ) -> SimulatedRun | Scaling:
        """Replays it once, on one core, and predicts the time of a replay on others: 1 to 1024.

        Several numbers give a table. See Runtime.simulate.
        """
        checked_cores(cores)
        core = self._read(args)

        def run() -> dict:
            return self._replay(core, 1, TraceRequest(level=3), caller=7)

        return simulated(self.name, run, self._execute, cores)

    def _replay(self, core: list, workers: int, trace: TraceRequest, caller: int = 6) -> dict:
        counts = self._graph.replay(core, workers, trace.path, trace.level)
        if counts is None:
            warnings.warn(
                f"graph {self.name!r} is captured anew: types, shapes, strides, overlaps or "
                "scalars of its arguments have changed",
                RuntimeWarning,
                stacklevel=caller,
            )
            self._graph = _core.ChipGraph(self._program, core)
            self.recaptures += 1
            counts = self._graph.replay(core, workers, trace.path, trace.level)
        return counts

    def __repr__(self) -> str:
        return f"<CapturedGraph {self.name!r}: {self.tasks} tasks, {self.edges} edges>"
