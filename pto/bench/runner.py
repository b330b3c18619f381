# SPDX-License-Identifier: Apache-2.0
"""The one runner of all benches: check, warm up, interleave, record, compare.

    @case("softmax", sizes=[(4096, 1024)], dtypes=["f32"])
    def softmax(setting):
        x = rand(setting)
        yield "pto", lambda: torch.ops.pto.softmax(x)
        yield "torch", lambda: torch.softmax(x, -1)       # every case names its competitors
        yield Expected(lambda rows: torch.softmax(x[rows].double(), -1))
        yield Ceiling("copy", Copy(out, x, setting.threads), calls=1)
        yield Work("GB/s", 2e-9 * x.nbytes)
        yield Goal("pto", "torch", at_most=0.8)           # of the time, printed beside the ratio

A contender returns its result, of NumPy, PyTorch or another library. Before it is timed, the result
is compared with Expected; a wrong one is reported, not timed, and makes the run fail.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pto.bench.timing import Samples, interleave
from pto.errors import InvalidValue

CASES: dict[str, "Case"] = {}
CHECKED_ROWS = 512
PAUSE_S = 0.05  # see interleave
TOLERANCE = {"f64": 1e-13, "f32": 4e-6, "f16": 4e-3, "bf16": 3e-2, "i32": 0, "i64": 0}


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
    # Absolute and relative; None: that of the element type.
    tolerance: "float | OffByOne | None" = None


@dataclass(frozen=True)
class OffByOne:
    """A tolerance of quantised numbers, which a last bit of a float moves to the next one: at most
    this share of them differs, by 1."""

    share: float


@dataclass(frozen=True)
class Everything:
    """The right results of contenders that return several, whole; see Expected for tolerances."""

    results: tuple
    tolerances: tuple[float | OffByOne, ...]


@dataclass(frozen=True)
class Ceiling:
    """A function that shows what the machine can do; `calls` of them are the work of the case."""

    name: str
    function: Callable
    calls: float


@dataclass(frozen=True)
class Work:
    """The work of a call: `amount` of it in a second is one `unit`."""

    unit: str
    amount: float


@dataclass(frozen=True)
class Goal:
    """How long `ours` may take: `at_most` times as long as `theirs`, or that many seconds."""

    ours: str
    theirs: str | tuple[str, ...]  # "": at_most is in seconds; several: the fastest of them counts
    at_most: float
    line: str = ""  # of the table of goals that has it
    kind: str = ""  # "always": no exception is made; "aim": shown and not counted

    def limit_s(self, seconds: dict[str, float]) -> float | None:
        """The most seconds; None where ours or theirs were not measured."""
        names = (self.theirs,) if isinstance(self.theirs, str) else self.theirs
        found = [one for name in names if (one := {"": 1.0, **seconds}.get(name))]
        return self.at_most * min(found) if found and self.ours in seconds else None


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
class Measurement:
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
    work: float | None = None  # of a call; divided by median_s it is in `unit`
    unit: str = ""

    @staticmethod
    def of(
        case_name: str, setting: "Setting", contender: str, seconds, ceiling,
        work: Work | None = None,
    ) -> "Measurement":  # fmt: skip
        taken = Samples(tuple(sorted(seconds)))
        return Measurement(
            case_name, list(setting.size), setting.dtype, contender, setting.threads,
            taken.median, taken.quantile(0.1), taken.quantile(0.9), ceiling,
            work and work.amount, work.unit if work else "",
        )  # fmt: skip


@dataclass
class Outcome:
    """The results of one case and setting: samples, and what was wrong."""

    records: list[Measurement] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)  # whose contenders were measured
    ceilings: dict[str, float] = field(default_factory=dict)  # their calls in the work of the case

    def seconds(self) -> dict[str, float]:
        return {r.contender: r.median_s for r in self.records}

    def limits(self) -> dict[str, float]:
        """The seconds that the work of the case takes at each ceiling."""
        seconds = self.seconds()
        return {name: seconds[name] * calls for name, calls in self.ceilings.items()}

    def times(self) -> dict[str, float]:
        """The seconds of each contender, and of the work at each ceiling."""
        return self.seconds() | self.limits()

    def lines(self) -> list[dict]:
        return [asdict(r) for r in self.records]


def case(name: str, sizes: list, dtypes: list, threads: tuple[int, ...] = (1, 2)) -> Callable:
    """Registers a generator of (name, function) pairs, Expected, Ceilings, Goals."""

    def register(contenders: Callable) -> Callable:
        if name in CASES:
            raise InvalidValue(
                f"two cases are named {name!r}", "--list shows one of each name",
                "give the second another name",
            )  # fmt: skip
        CASES[name] = Case(name, contenders, sizes, dtypes, threads)
        return contenders

    return register


def sampled_rows(count: int) -> np.ndarray:
    """All rows of a small result, else the first, the last and some between."""
    if count <= CHECKED_ROWS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, CHECKED_ROWS).round().astype(np.int64))


def _double(result: Any, rows: np.ndarray | None = None) -> np.ndarray:
    """Rows of an array of NumPy, PyTorch or another library in f64."""
    if hasattr(result, "detach"):
        result = result.detach().cpu()
        return (result if rows is None else result[rows]).double().numpy()
    array = np.asarray(result)
    return (array if rows is None else array[rows]).astype(np.float64)


def difference(actual: Any, right: Expected | Everything, dtype: str) -> str:
    """Says what is wrong with a result; "" if nothing is."""
    if isinstance(right, Everything):
        return _differences(actual, right, dtype)
    if hasattr(actual, "__array__") and not hasattr(actual, "detach"):
        actual = np.asarray(actual)
    if not hasattr(actual, "shape"):
        return f"returned {type(actual).__name__}, not a tensor"
    rows = sampled_rows(actual.shape[0])
    found, expected = _double(actual, rows), _double(right.of_rows(rows))
    if found.shape != expected.shape:
        return f"has shape {found.shape}, expected {expected.shape}"
    tolerance = TOLERANCE[dtype] if right.tolerance is None else right.tolerance
    bad = _wrong(found, expected, tolerance)
    if not bad.any():
        return ""
    at = tuple(np.argwhere(bad)[0].tolist())
    return (
        f"is wrong at {int(bad.sum())} of {bad.size} checked elements: row {int(rows[at[0]])},"
        f" column {at[1:]}: {found[at]:.9g} where {expected[at]:.9g} is right"
    )


def _wrong(found: np.ndarray, expected: np.ndarray, tolerance: float | OffByOne) -> np.ndarray:
    if isinstance(tolerance, OffByOne):
        differs = found != expected
        return differs if differs.mean() > tolerance.share else np.abs(found - expected) > 1
    return ~(np.abs(found - expected) <= tolerance * (1 + np.abs(expected)))


def _differences(actual: tuple, right: Everything, dtype: str) -> str:
    """Says what is wrong with the first wrong one of several results."""
    pairs = zip(actual, right.results, right.tolerances, strict=True)
    for place, (found, wanted, tolerance) in enumerate(pairs):
        expected = Expected(lambda rows, of=wanted: of[rows], tolerance)
        if wrong := difference(found, expected, dtype):
            return f"{wrong}, in result {place}"
    return ""


def spoil(result: Any) -> None:
    """Overwrites a result: the next contender may write into the same buffer, or nothing."""
    for one in result if isinstance(result, tuple) else ():
        spoil(one)
    if hasattr(result, "detach"):
        result.detach().fill_(float("nan") if result.is_floating_point() else -1)
    elif isinstance(result, np.ndarray) and result.flags.writeable:
        result.fill(-1 if result.dtype.kind in "iu" else np.nan)


def measure(one: Case, setting: Setting, rounds: int = 0) -> Outcome:
    """Runs one case: checks each contender, then times the right ones against each other."""
    contenders: dict[str, Callable] = {}
    right, work, goals, ceilings = None, None, [], []
    for item in one.contenders(setting):
        if isinstance(item, Expected | Everything):
            right = item
        elif isinstance(item, Work):
            work = item
        elif isinstance(item, Goal):
            goals.append(item)
        elif isinstance(item, Ceiling):
            ceilings.append(item)
        else:
            contenders[item[0]] = item[1]
    outcome = Outcome(ceilings={c.name: c.calls for c in ceilings})
    for name in list(contenders) if right else []:
        result = contenders[name]()
        wrong = difference(result, right, setting.dtype)
        if wrong:
            outcome.wrong.append(f"{one.name} {setting.size} {setting.dtype}: {name} {wrong}")
            del contenders[name]
        else:
            spoil(result)
        del result
    if not contenders:
        return outcome
    pause_s = PAUSE_S if setting.threads > 1 else 0
    functions = contenders | {c.name: c.function for c in ceilings}
    samples = interleave(functions, rounds or 11, pause_s=pause_s)
    ceiling = min((samples[c.name].median * c.calls for c in ceilings), default=None)
    for name, taken in samples.items():
        done = None if name in outcome.ceilings else work
        outcome.records.append(
            Measurement.of(one.name, setting, name, taken.seconds, ceiling, done)
        )
    outcome.goals = [g for g in goals if g.limit_s(outcome.times())]
    return outcome
