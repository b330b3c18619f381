# SPDX-License-Identifier: Apache-2.0
"""The one runner of all benches: check, warm up, interleave, record, compare.

    @case("softmax", sizes=[(4096, 1024)], dtypes=["f32"], ceiling=True)
    def softmax(setting):
        x = rand(setting)
        yield "pto", lambda: torch.ops.pto.softmax(x)
        yield "torch", lambda: torch.softmax(x, -1)       # every case names its competitors
        yield Expected(lambda rows: torch.softmax(x[rows].double(), -1))
        yield Goal("pto", "torch", at_most=0.8)           # of the time, printed beside the ratio

A contender returns its result. Before it is timed, the result is compared with Expected; a wrong
one is reported, not timed, and makes the run fail.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

import numpy as np
import torch

from bench.timing import Samples, interleave

CASES: dict[str, "Case"] = {}
CHECKED_ROWS = 512
TOLERANCE = {"f32": 4e-6, "f16": 4e-3, "bf16": 3e-2}


@dataclass(frozen=True)
class Setting:
    """The settings of a measurement."""

    size: tuple[int, ...]
    dtype: str
    threads: int


@dataclass(frozen=True)
class Expected:
    """The exact result of chosen rows, in f64."""

    of_rows: Callable
    tolerance: float = 0.0  # absolute and relative; 0: that of the element type


@dataclass(frozen=True)
class Ceiling:
    """A function that shows what the machine can do; `calls` of them are the work of the case."""

    name: str
    function: Callable
    calls: float


@dataclass(frozen=True)
class Goal:
    """How long `ours` may take: `at_most` times as long as `theirs`, or that many seconds."""

    ours: str
    theirs: str  # "": at_most is in seconds
    at_most: float


@dataclass(frozen=True)
class Case:
    name: str
    contenders: Callable
    sizes: list
    dtypes: list
    threads: tuple[int, ...]

    def settings(self) -> Iterator[Setting]:
        for dtype in self.dtypes:
            for size in self.sizes:
                for threads in self.threads:
                    yield Setting(size, dtype, threads)


@dataclass(frozen=True)
class Record:
    """One line of the JSON output; times are seconds per call."""

    case: str
    size: list[int]
    dtype: str
    contender: str
    threads: int
    median_s: float
    p10_s: float
    p90_s: float
    ceiling_s: float | None  # the work at the speed of the best ceiling of the same run

    @staticmethod
    def of(case_name: str, setting: "Setting", contender: str, seconds, ceiling) -> "Record":
        taken = Samples(tuple(sorted(seconds)))
        return Record(
            case_name, list(setting.size), setting.dtype, contender, setting.threads,
            taken.median, taken.quantile(0.1), taken.quantile(0.9), ceiling,
        )  # fmt: skip


@dataclass
class Outcome:
    """The results of one case and setting: samples, and what was wrong."""

    records: list[Record] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)  # whose contenders were measured

    def seconds(self) -> dict[str, float]:
        return {r.contender: r.median_s for r in self.records}

    def lines(self) -> list[dict]:
        return [asdict(r) for r in self.records]


def case(name: str, sizes: list, dtypes: list, threads: tuple[int, ...] = (1, 2)) -> Callable:
    """Registers a generator of (name, function) pairs, Expected, Ceilings, Goals."""

    def register(contenders: Callable) -> Callable:
        if name in CASES:
            raise ValueError(f"two cases are named {name!r}; give the second another name")
        CASES[name] = Case(name, contenders, sizes, dtypes, threads)
        return contenders

    return register


def sampled_rows(count: int) -> torch.Tensor:
    """All rows of a small result, else the first, the last and some between."""
    if count <= CHECKED_ROWS:
        return torch.arange(count)
    return torch.linspace(0, count - 1, CHECKED_ROWS).round().long().unique()


def difference(actual: torch.Tensor, right: Expected, dtype: str) -> str:
    """Says what is wrong with a result; "" if nothing is."""
    if hasattr(actual, "__array__") and not isinstance(actual, torch.Tensor):
        actual = torch.tensor(np.asarray(actual))  # of another framework
    if not isinstance(actual, torch.Tensor):
        return f"returned {type(actual).__name__}, not a tensor"
    rows = sampled_rows(actual.shape[0])
    found, expected = actual.detach().cpu()[rows].double(), right.of_rows(rows)
    if found.shape != expected.shape:
        return f"has shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    tolerance = right.tolerance or TOLERANCE[dtype]
    bad = ~((found - expected).abs() <= tolerance * (1 + expected.abs()))
    if not bad.any():
        return ""
    at = tuple(bad.nonzero()[0].tolist())
    return (
        f"is wrong at {int(bad.sum())} of {bad.numel()} checked elements: row {int(rows[at[0]])},"
        f" column {at[1:]}: {found[at].item():.9g} where {expected[at].item():.9g} is right"
    )


def measure(one: Case, setting: Setting, rounds: int = 0) -> Outcome:
    """Runs one case: checks each contender, then times the right ones against each other."""
    contenders: dict[str, Callable] = {}
    right, goals, ceilings = None, [], []
    for item in one.contenders(setting):
        if isinstance(item, Expected):
            right = item
        elif isinstance(item, Goal):
            goals.append(item)
        elif isinstance(item, Ceiling):
            ceilings.append(item)
        else:
            contenders[item[0]] = item[1]
    outcome = Outcome()
    for name in list(contenders) if right else []:
        result = contenders[name]()
        wrong = difference(result, right, setting.dtype)
        if wrong:
            outcome.wrong.append(f"{one.name} {setting.size} {setting.dtype}: {name} {wrong}")
            del contenders[name]
        elif isinstance(result, torch.Tensor):
            result.detach().fill_(float("nan"))  # the next one may write into the same buffer
        del result
    if not contenders:
        return outcome
    samples = interleave(contenders | {c.name: c.function for c in ceilings}, rounds or 11)
    ceiling = min((samples[c.name].median * c.calls for c in ceilings), default=None)
    for name, taken in samples.items():
        outcome.records.append(Record.of(one.name, setting, name, taken.seconds, ceiling))
    outcome.goals = [g for g in goals if {g.ours, g.theirs} <= {"", *samples}]
    return outcome
