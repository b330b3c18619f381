# SPDX-License-Identifier: Apache-2.0
"""Measures rows against ATen's same calls, and keeps what wins on this machine.

    for found in measured(ROWS["exp"], "float32", sizes): found.bytes, found.ratio
    pto.aten.measure()            # at most 2 minutes; used where pto.config.measured is True

It times the dispatcher's own call with and without `enable(slot=0)`, in turn, on the same tensors
of one process; a time is the least of all rounds. A row that this call does not reach, as where
PyTorch composes the overload of others, is called itself. It compares the results before, and
raises Failure for a row that is too far from ATen. Thread safety: one thread measures.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from pto.aten import enabling, samples
from pto.aten.distance import apart, arrays_of
from pto.aten.implementations import tell_all
from pto.aten.records import library, listed, record_of
from pto.aten.rows import SLOT, Row, forms
from pto.aten.wins import SIZES, Cells, cell, is_faster, measured_file, own, target, text
from pto.errors import Failure, InvalidValue, nearest
from pto.whole_files import write_whole

COLUMNS = 1024
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8, "int64": 8}
CHECKED = 4 << 20  # bytes of a tensor up to which results are compared
TOO_LONG_S = 0.25  # a call that takes longer is not measured at larger sizes
_MINUTES = 2


@dataclass(frozen=True)
class Found:
    """The seconds of one call; `bytes` of a tensor, `with_out` says whether it wrote into `out`.

    `traffic` is what the call reads and writes at least, in bytes: all its arrays once. `threads`
    are PyTorch's.
    """

    overload: str
    kind: str
    bytes: int
    traffic: int
    with_out: bool
    ours_s: float
    aten_s: float
    threads: int = 1

    @property
    def ratio(self) -> float:
        """ATen's time over ours."""
        return self.aten_s / self.ours_s

    @property
    def where(self) -> str:
        """Which call it was, and the bytes a second of ours and ATen's."""
        size = f"{self.bytes >> 20} MB" if self.bytes >= 1 << 20 else f"{self.bytes >> 10} KB"
        with_out = " with out" if self.with_out else ""
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        ours, aten = (self.traffic / s / 1e9 for s in (self.ours_s, self.aten_s))
        return f"{size}{with_out}{threads}: {ours:.1f} of {aten:.1f} GB/s"


def measured(
    row: Row, kind: str, sizes: Sequence[int] = SIZES, rounds: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Found]:  # fmt: skip
    """Times both calls of a row at each size in bytes, without and with `out`.

    Stops after a size at which a call takes more than TOO_LONG_S. A clock of one thread's own time
    leaves out what other programs take of a shared machine.
    """
    for size in sizes:
        rows = max(1, size // BYTES[kind] // COLUMNS)
        given = samples.arguments(row, rows, COLUMNS, kind)
        given = {name: library().as_tensors(value) for name, value in given.items()}
        longest = 0.0
        for with_out in (False, True):
            with _without_rows():
                calls = _calls(row, given, with_out, size <= CHECKED and not with_out)
                if calls is None:
                    continue
                ours, aten = interleaved(*calls, rounds, clock)
                traffic = sum(a.nbytes for a in arrays_of([*given.values(), calls[1]()]))
            longest = max(longest, ours, aten)
            yield Found(row.overload, kind, size, traffic, with_out, ours, aten)
        if longest > TOO_LONG_S:
            return


def _calls(
    row: Row, given: dict[str, Any], with_out: bool, is_checked: bool
) -> tuple[Callable, Callable, AbstractContextManager] | None:
    """Our call, ATen's, and what ours runs within, compared; None for a row without that form."""
    records = [record_of(full) for full in forms(row)]
    want = records[0].handle(**given)
    values = row.given(given) if row.given else given
    values = {n: v for n, v in values.items() if n in row.parameters}
    if row.is_compiled:
        values = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
    found = apart(row, given, row.program(**values), want) if is_checked else 0
    if isinstance(found, str) or found > row.ulp:
        raise Failure(
            f"the row of {row.overload} is {found} from ATen's result",
            f"it says {row.ulp} units of the last place",
            "mend the formula: tests/test_aten_rows.py shows the case",
        )
    record, arguments = records[0], given
    if with_out:
        twin = next((r for r in records if r.outputs), None)
        places = want if isinstance(want, tuple | list) else (want,)
        if twin is None or not all(0 not in library().shape(p) for p in places):
            return None
        record = twin
        arguments = {**given, **dict(zip(twin.output_names, places, strict=True))}
        values["out"] = places[0] if len(places) == 1 else tuple(places)

    def aten() -> Any:
        return record.handle(**arguments)

    on = _enabled(record.full_name, aten)
    return (lambda: row.program(**values), aten, nullcontext()) if on is None else (aten, aten, on)


def _without_rows() -> AbstractContextManager:
    """Leaves this thread's calls of PyTorch to ATen, whatever the process enables."""
    try:
        return enabling.enable(only=[])
    except Failure:  # without the part that enables, nothing is on
        return nullcontext()


def _enabled(full_name: str, call: Callable[[], Any]) -> AbstractContextManager | None:
    """Turns the row of an overload on for this thread; None where the call does not reach it."""
    try:
        on = enabling.enable(only=[full_name], slot=SLOT)
    except (InvalidValue, Failure):
        return None
    on.off()
    return on if enabling.reaches(on, call) else None


def interleaved(
    ours: Callable, aten: Callable, on: AbstractContextManager, rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:  # fmt: skip
    """The least seconds of one call of each, called in turn, ours within `on`; a round repeats
    short calls."""
    with on:
        once = _seconds(ours, 1, clock)
    once = max(once, _seconds(aten, 1, clock))
    calls = max(1, min(200, int(0.001 / max(once, 1e-7))))
    best = [float("inf"), float("inf")]
    for _ in range(rounds if once < 0.1 else 3):
        for place, (function, within) in enumerate(((ours, on), (aten, nullcontext()))):
            with within:
                best[place] = min(best[place], _seconds(function, calls, clock) / calls)
    return best[0], best[1]


def _seconds(function: Callable, calls: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(calls):
        function()
    return clock() - begin


def cell_of(found: Iterable[Found]) -> list[float]:
    """A cell of the table: the least ratio of each size, in two decimals, never more than was
    measured."""
    least: dict[int, float] = {}
    for one in found:
        least[one.bytes] = min(one.ratio, least.get(one.bytes, one.ratio))
    return [int(ratio * 100) / 100 for _, ratio in sorted(least.items())]


def measure(names: Sequence[str] = (), kinds: Sequence[str] = ("float32", "bfloat16")) -> Cells:
    """Measures rows on this machine for about 2 minutes, and prints which calls change hands.

    `names` are overloads, `kinds` element types; without names it measures all rows, as far as the
    time allows. It writes the cells to a file in the cache folder, which counts where
    pto.config.measured is True, and returns them. Raises InvalidValue for an overload without a row
    or a type that is not measured, OSError where the file cannot be written.
    """
    from pto.aten.table import ROWS

    names, kinds = listed(names), listed(kinds)
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        raise InvalidValue(
            f"measure: there is no row of {unknown[0]}",
            nearest(unknown[0], ROWS),
            "name overloads that have a row, as add.Tensor",
        )
    for kind in kinds:
        if kind not in BYTES:
            raise InvalidValue(
                f"measure: {kind} is not measured", nearest(kind, BYTES), f"name {', '.join(BYTES)}"
            )
    until, column, cells = time.monotonic() + 60 * _MINUTES, target(), dict(own())
    mine = {name: dict(found) for name, found in cells.get(column, {}).items()}
    todo = [ROWS[n] for n in names] if names else [r for r in ROWS.values() if not r.base]
    for row in todo:
        for kind in (k for k in kinds if k in row.types):
            if time.monotonic() > until:
                break
            before = cell(column, row.overload, kind)
            now = cell_of(measured(row, kind, SIZES[:3], rounds=3))
            mine.setdefault(row.overload, {})[kind] = now
            if is_faster(before) != is_faster(now):
                whose, least = "ours" if is_faster(now) else "ATen's", min(now)
                print(f"{row.overload} {kind}: now {whose}, {least:.2f} of ATen's time over ours")
    cells[column] = mine
    file = measured_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, [text(cells).encode()])
    own.cache_clear()
    tell_all()
    return cells
