# SPDX-License-Identifier: Apache-2.0
"""TraceReport: what a traced run spent its time on, and what would make it shorter.

    rt.trace("t.json", level=3); rt.run("attention", args)
    print(rt.report())

`critical_s` is the longest chain of dependent tasks without their waiting times: no number of
workers makes the run shorter. `changes` come from simulating the run with each. Both need a trace
of level 3. Times are seconds.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pto.advice import Change, best, change_lines
from pto.cells import ShownAsText, preformatted, table
from pto.tasks.origin import Origin
from pto.units import time_text

_SHOWN = 8  # tasks and kernels in the text


@dataclass(frozen=True)
class KernelTime:
    """All calls of one kernel."""

    kernel: str
    calls: int
    busy_s: float
    longest_s: float


@dataclass(frozen=True)
class TraceReport(ShownAsText):
    """The report of one run; `dropped` counts records that its workers' rings overwrote."""

    program: str
    level: int
    workers: int
    duration_s: float
    busy_s: float
    critical_s: float | None  # as `critical`, needs level 3
    critical: tuple[int, ...]
    idle_while_ready_s: float
    wait_for_dependency_s: float  # no task was ready: all waited for others, or for submission
    waited_s: float
    tracing_s: float  # the cost of the trace's records, all workers together
    kernels: tuple[KernelTime, ...]
    dropped: int
    is_replay: bool
    changes: tuple[Change, ...] | None  # level chip only, with nothing dropped
    trace: str  # the file of the trace
    origin: Origin
    folders: tuple[os.PathLike, ...] = ()  # of the Python that submits tasks

    @property
    def busy_share(self) -> float:
        """The busy share of the workers' time; 1 if all worked all the time."""
        return self.overlap / self.workers if self.workers else 0.0

    @property
    def overlap(self) -> float:
        """How many workers were busy, on average."""
        return self.busy_s / self.duration_s if self.duration_s else 0.0

    def html(self, path: str | os.PathLike | None = None) -> str:
        """The run as one HTML page, also written to `path`, from the file of its trace: timeline
        with dependencies and waits, and the lines that submitted what ran. It needs Bokeh: pip
        install bokeh."""
        from pto import pages

        sources: list[Any] = [*self.origin.sources.items(), *self.folders]
        return pages.html(self.trace, path, sources, self.origin.functions, self.program)

    def __str__(self) -> str:
        kernels = [_kernel_line(one, self.level) for one in self.kernels[:_SHOWN]]
        return "\n".join([*self._head(), *kernels, *self._tail()])

    def _cells(self) -> Iterator[str]:
        yield preformatted("\n".join(self._head()))
        columns = 5 if self.level else 2
        rows = [
            (one.kernel, one.calls, time_text(one.busy_s), time_text(one.busy_s / one.calls),
             time_text(one.longest_s))[:columns] for one in self.kernels
        ]  # fmt: skip
        yield table(("kernel", "calls", "busy", "each", "longest")[:columns], rows)
        yield preformatted("\n".join(self._tail()))

    def _head(self) -> list[str]:
        kind = "replay of " if self.is_replay else ""
        head = f"{kind}{self.program}: {time_text(self.duration_s)} on {self.workers} workers"
        return [head, *(self._times() if self.level > 0 else [])]

    def _tail(self) -> list[str]:
        lines = []
        if self.changes is not None:
            lines += change_lines(self.changes)
        elif self.level < 3:
            lines.append("  trace(path, level=3) finds the critical path and what would help")
        if self.dropped:
            lines.append(f"  {self.dropped} records were overwritten: the first tasks are missing")
        return lines

    def _times(self) -> list[str]:
        lines = [
            f"  {self.overlap:.2f} workers busy on average, {self.busy_share:.0%} of their time in "
            "kernels",
            f"  idle while tasks were ready {time_text(self.idle_while_ready_s)}, "
            f"tasks waited {time_text(self.waited_s)} for a worker",
            f"  workers waited {time_text(self.wait_for_dependency_s)} for dependencies or "
            f"submissions; tracing took about {time_text(self.tracing_s)}",
        ]
        if self.critical_s is not None:
            shown = " > ".join(map(str, self.critical[:_SHOWN]))
            more = " ..." if len(self.critical) > _SHOWN else ""
            path = f"{len(self.critical)} tasks: {shown}{more}"
            lines.insert(1, f"  critical path   {time_text(self.critical_s):>10}  {path}")
        return lines


def report_of(
    program: str, trace: Any, path: str, origin: Origin, folders: tuple[os.PathLike, ...] = ()
) -> TraceReport:
    """The report of a _core.ChipTrace, which was written to a file."""
    found = trace.summary()
    kernels = tuple(
        KernelTime(name, calls, busy * 1e-9, longest * 1e-9)
        for name, calls, busy, longest in found["kernels"]
    )
    has_edges = found["level"] == 3
    return TraceReport(
        program=program,
        level=found["level"],
        workers=found["workers"],
        duration_s=found["duration_ns"] * 1e-9,
        busy_s=found["busy_ns"] * 1e-9,
        critical_s=found["critical_ns"] * 1e-9 if has_edges else None,
        critical=tuple(found["critical"]) if has_edges else (),
        idle_while_ready_s=found["idle_while_ready_ns"] * 1e-9,
        wait_for_dependency_s=found["starved_ns"] * 1e-9,
        waited_s=found["waited_ns"] * 1e-9,
        tracing_s=found["tracing_ns"] * 1e-9,
        kernels=kernels,
        dropped=found["dropped"],
        is_replay=found["is_replay"],
        changes=_changes(trace) if found["is_simulated"] else None,
        trace=path,
        origin=origin,
        folders=folders,
    )


def _changes(trace: Any) -> tuple[Change, ...]:
    """The best few changes, each gain relative to the simulated run without a change."""
    duration, found = trace.advice()
    return best(duration * 1e-9, [(kind, what, with_it * 1e-9) for kind, what, with_it in found])


def _kernel_line(one: KernelTime, level: int) -> str:
    if level == 0:
        return f"  {one.kernel:24} {one.calls:8} calls"
    return (
        f"  {one.kernel:24} {one.calls:8} calls {time_text(one.busy_s):>10}, "
        f"each {time_text(one.busy_s / one.calls)}, longest {time_text(one.longest_s)}"
    )
