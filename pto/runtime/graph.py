# SPDX-License-Identifier: Apache-2.0
"""Graph: a captured program that runs again without its orchestration.

    graph = rt.capture("step", args)      # runs nothing
    graph.replay(args)                    # other arrays of the same shapes too

Where element types, shapes, strides, overlaps of the arrays or a scalar differ from those of the
capture, the graph captures anew, with a warning, and counts it in `recaptures`. Scalars that the
orchestration took by symbol() alone may differ: what tasks got of them is computed again. The
tensors that the orchestration allocated live as long as the graph.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pto import _core
from pto.runtime.arguments import Arg
from pto.runtime.run import Report, Work


class Graph:
    """Made by Runtime.capture(); replays of one graph follow each other."""

    def __init__(
        self,
        name: str,
        program: Any,
        read: Callable[[Sequence[Arg]], list],
        execute: Callable[[str, Work], Any],
        args: Sequence[Arg],
        workers: int,
    ) -> None:
        self.name, self.recaptures = name, 0
        self._program, self._read, self._execute, self._workers = program, read, execute, workers
        self._graph = _core.ChipGraph(program, read(args))

    @property
    def tasks(self) -> int:
        return self._graph.tasks

    @property
    def edges(self) -> int:
        return self._graph.edges

    @property
    def nbytes(self) -> int:
        """Memory of its own, for the tensors that the orchestration allocated."""
        return self._graph.nbytes

    def replay(self, args: Sequence[Arg]) -> None:
        """Runs the tasks on these arguments and waits; raises the first cause of a failure."""
        core = self._read(args)
        self._execute(self.name, lambda: self._replay(core))

    def _replay(self, core: list) -> tuple[Report, None]:
        counts = self._graph.replay(core, self._workers)
        if counts is None:
            warnings.warn(
                f"graph {self.name!r} is captured anew: types, shapes, strides, overlaps or "
                "scalars of its arguments have changed",
                RuntimeWarning,
                stacklevel=5,
            )
            self._graph = _core.ChipGraph(self._program, core)
            self.recaptures += 1
            counts = self._graph.replay(core, self._workers)
        return Report(**counts), None

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {self.tasks} tasks, {self.edges} edges>"
