# SPDX-License-Identifier: Apache-2.0
"""TraceReport: what a traced run spent its time on.

    rt.trace("t.json"); rt.run("attention", args)
    print(rt.report())

`critical_s` is the longest chain of tasks that follow each other, without what they waited: no
number of workers makes the run shorter. Times are seconds.
"""

from dataclasses import dataclass
from typing import Any

_SHOWN = 8  # tasks and kernels in the text


@dataclass(frozen=True)
class KernelTime:
    """All calls of one kernel."""

    kernel: str
    calls: int
    busy_s: float
    longest_s: float


@dataclass(frozen=True)
class TraceReport:
    """Of one run; `dropped` counts records that the rings of its workers overwrote."""

    program: str
    workers: int
    duration_s: float
    busy_s: float
    critical_s: float
    critical: tuple[int, ...]
    idle_while_ready_s: float
    waited_s: float
    kernels: tuple[KernelTime, ...]
    dropped: int

    @property
    def busy_share(self) -> float:
        """Of the workers' time; 1 where all worked all the time."""
        whole = self.duration_s * self.workers
        return self.busy_s / whole if whole else 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.program}: {_time(self.duration_s)} on {self.workers} workers, "
            f"{self.busy_share:.0%} of their time in kernels",
            f"  critical path   {_time(self.critical_s):>10}  {_chain(self.critical)}",
            f"  idle while tasks were ready {_time(self.idle_while_ready_s)}, "
            f"tasks waited {_time(self.waited_s)} for a worker",
        ]
        for one in self.kernels[:_SHOWN]:
            lines.append(
                f"  {one.kernel:24} {one.calls:8} calls {_time(one.busy_s):>10}, "
                f"each {_time(one.busy_s / one.calls)}, longest {_time(one.longest_s)}"
            )
        if self.dropped:
            lines.append(f"  {self.dropped} records were overwritten: the first tasks are missing")
        return "\n".join(lines)


def report_of(program: str, summary: dict[str, Any]) -> TraceReport:
    """The report of what _core.run_chip() says under "summary", in nanoseconds."""
    kernels = tuple(
        KernelTime(name, calls, busy * 1e-9, longest * 1e-9)
        for name, calls, busy, longest in summary["kernels"]
    )
    return TraceReport(
        program=program,
        workers=summary["workers"],
        duration_s=summary["duration_ns"] * 1e-9,
        busy_s=summary["busy_ns"] * 1e-9,
        critical_s=summary["critical_ns"] * 1e-9,
        critical=tuple(summary["critical"]),
        idle_while_ready_s=summary["idle_while_ready_ns"] * 1e-9,
        waited_s=summary["waited_ns"] * 1e-9,
        kernels=kernels,
        dropped=summary["dropped"],
    )


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _chain(tasks: tuple[int, ...]) -> str:
    shown = " > ".join(map(str, tasks[:_SHOWN]))
    return f"{len(tasks)} tasks: {shown}{' ...' if len(tasks) > _SHOWN else ''}"
