# SPDX-License-Identifier: Apache-2.0
"""SimulatedRun: how long a program would take on other numbers of cores.

    print(rt.simulate("attention", args, cores=[1, 2, 4, 8]))

The program runs once, traced, on one core; then the engine's own scheduling runs its tasks in
virtual time. Kernels take as long as they did, so cores that share memory or caches are slower.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pto.errors import InvalidValue
from pto.tasks.run import Report, Work
from pto.units import time_text

_MOST_CORES = 1024


@dataclass(frozen=True)
class SimulatedRun:
    """The run on `cores` cores; `critical_s`, the longest chain of tasks, is a lower bound."""

    program: str
    cores: int
    predicted_s: float
    busy_s: float
    critical_s: float
    speedup: float  # over one core

    @property
    def busy_share(self) -> float:
        """The busy share of the cores' time; 1 if all would work all the time."""
        whole = self.predicted_s * self.cores
        return self.busy_s / whole if whole else 0.0

    def __str__(self) -> str:
        return f"{self.program}: {self.row()}, critical path {time_text(self.critical_s)}"

    def row(self) -> str:
        return (
            f"{self.cores:5} cores {time_text(self.predicted_s):>10}, {self.speedup:.2f} x one "
            f"core, {self.busy_share:.0%} busy"
        )


@dataclass(frozen=True)
class Scaling:
    """Simulated runs on several numbers of cores; prints as a table."""

    runs: tuple[SimulatedRun, ...]

    def __iter__(self) -> Iterator[SimulatedRun]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, index: int) -> SimulatedRun:
        return self.runs[index]

    def __str__(self) -> str:
        first = self.runs[0]
        rows = [run.row() for run in self.runs]
        return "\n".join([f"{first.program}: critical path {time_text(first.critical_s)}", *rows])


def checked_cores(cores: int | Sequence[int]) -> list[int]:
    """One or more numbers of cores, each from 1 to 1024."""
    counts = [cores] if isinstance(cores, int | str) or not hasattr(cores, "__iter__") else [*cores]
    if not counts:
        raise InvalidValue(
            "cores is empty", "a simulation has at least one core", "pass a number, such as 4"
        )
    for count in counts:
        if type(count) is not int or not 1 <= count <= _MOST_CORES:
            raise InvalidValue(
                f"cores is {count!r}", f"a simulation has 1 to {_MOST_CORES} cores",
                "pass an int, or a list of them",
            )  # fmt: skip
    return counts


def simulated(
    program: str,
    run: Callable[[], dict],
    execute: Callable[[str, Work], Any],
    cores: int | Sequence[int],
) -> SimulatedRun | Scaling:
    """Runs the program once, by execute(), and simulates its trace; run() makes one of level 3."""
    traced: list[Any] = []

    def work() -> tuple[Report, None]:
        found = run()
        traced.append(found.pop("trace"))
        return Report(**found), None

    execute(program, work)
    counts = checked_cores(cores)
    one, *times = traced[0].simulate([1, *counts])
    runs = tuple(
        SimulatedRun(program, count, duration * 1e-9, busy * 1e-9, critical * 1e-9,
                     one[0] / duration if duration else 1.0)
        for count, (duration, busy, critical) in zip(counts, times, strict=True)
    )  # fmt: skip
    return runs[0] if isinstance(cores, int) else Scaling(runs)
