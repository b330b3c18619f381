# SPDX-License-Identifier: Apache-2.0
"""ProgramReport: where the time of a call goes, and what would make it shorter.

    found = attend.report(q, keys, lengths, out)
    print(found)                       # statements, workers, critical path, changes
    found.statements[0].share          # of the time that the workers were busy
    found.changes[0].predicted_s       # of the call, with that change
    found.roofline()                   # a plot: the statements beside what this machine can do

Some calls on copies of the arrays are recorded, and the report tells of the one of median time. A
statement is a step of explain(), by the same name. Times are seconds.

Thread safety: plain values.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pto.advice import Change, best, change_lines
from pto.cells import ShownAsText, preformatted, table
from pto.errors import InvalidValue
from pto.language.copies import copies_of
from pto.language.location import user_line
from pto.language.plan import Step
from pto.language.recording import (
    CALL,
    JOB,
    PART,
    STATEMENT,
    Recorded,
    after_a_call,
    record,
    recordable,
)
from pto.language.replay import Changed, Replay, loops_in_order
from pto.language.rooflines import Work, copy_rate, seconds, works_of
from pto.language.upper_bounds import bytes_of
from pto.units import time_text

if TYPE_CHECKING:
    from pto.language.roofline_plot import Roofline

_SHOWN = 12  # statements in the text
_ON_PATH = 4  # statements of the critical path


@dataclass(frozen=True)
class StatementTime:
    """All executions of one statement.

    `total_s` is the time of the threads that ran them, with what is inside. `busy_s` is without
    that, all workers together, and `share` its part of their busy time: shares and the report's
    `rest` add up to 1. `roofline_s` is the least time of one execution, `roofline_share` that over
    its mean time; they, `bytes`, `multiply_adds` and `operations`, which counts those of elements
    too, are means, and None where sizes do not say them.
    """

    step: Step
    calls: int
    total_s: float
    longest_s: float
    busy_s: float
    share: float
    bytes: int | None
    multiply_adds: int | None
    operations: int | None
    roofline_s: float | None

    @property
    def roofline_share(self) -> float | None:
        if self.roofline_s is None or not self.total_s:
            return None
        return self.roofline_s * self.calls / self.total_s


@dataclass(frozen=True)
class WorkerTime:
    """One worker in the call; worker 0 is the calling thread."""

    worker: int
    busy_s: float
    idle_s: float


class ProgramReport(ShownAsText, str):
    """The text of report(), with its parts as data.

    `duration_s` is the call's; `rest` the share of busy time in no statement. `critical_s` is the
    call's time if each job had as many workers as it has parts, or iterations: statements run in
    program order; `critical` has what each adds. `dropped` counts executions that had no room: then
    `changes` is None, and shares are of the executions that had.
    """

    name: str
    duration_s: float
    repeats: int
    statements: tuple[StatementTime, ...]
    workers: tuple[WorkerTime, ...]
    rest: float
    critical_s: float
    critical: tuple[tuple[str, float], ...]
    changes: tuple[Change, ...] | None
    dropped: int
    _recorded: Recorded

    def of(self, kind: str) -> list[StatementTime]:
        """The statements of one kind: "kernel", "product", "loop" ..."""
        return [one for one in self.statements if one.step.kind == kind]

    def roofline(self) -> "Roofline":
        """The statements beside the bandwidth and the peak of this machine: a picture in a cell,
        and svg() its text. Ceilings are measured once in a process."""
        from pto.language.roofline_plot import roofline

        return roofline(self, self._recorded)

    def _cells(self) -> Iterator[str]:
        parts = vars(self)
        yield preformatted("\n".join(_head(parts)))
        yield table(_HEADS, [_row(one) for one in self.statements if one.calls])
        yield preformatted("\n".join(_tail(parts)))

    def html(self, path: str | os.PathLike | None = None) -> str:
        """The call as one HTML page, also written to `path`: timeline, rooflines, memory, and the
        program at every stage beside your lines. It needs Bokeh: pip install bokeh."""
        from pto import pages
        from pto.language.program_page import trace_of

        return pages.html(trace_of(self._recorded, self), path)


def report(function: Any, args: tuple, kwargs: dict[str, Any], repeats: int) -> ProgramReport:
    """Reports of a call of a Jit or a Program."""
    if type(repeats) is not int or repeats < 1:
        raise InvalidValue(
            f"report: repeats is {repeats!r}", "it tells of one of so many recorded calls",
            "pass a number of at least 1", user_line(),
        )  # fmt: skip
    explanation = recordable("report", function, args, kwargs)
    made, values = after_a_call(function, args, kwargs)
    names = [str(place) for place in range(len(values))]
    calls = []
    for _ in range(repeats):
        copies = copies_of(dict(zip(names, values, strict=True)))
        calls.append(record(explanation, made, [copies[name] for name in names]))
    calls.sort(key=lambda one: one.call.ns)
    return made_report(calls[(len(calls) - 1) // 2], repeats)


def made_report(found: Recorded, repeats: int = 1) -> ProgramReport:
    """The report of one recorded call."""
    replay = Replay(found)
    workers = tuple(_workers(found))
    busy, rest = _busy(found)
    whole = sum(one.busy_s for one in workers) or 1e-9
    statements = tuple(sorted(_statements(found, busy, whole), key=lambda one: -one.busy_s))
    path = [(one.step.title if one.step else "", replay.longest(one) * 1e-9)
            for one in found.call.inside if one.kind == STATEMENT]  # fmt: skip
    parts = {
        "name": found.name, "duration_s": found.call.ns * 1e-9, "repeats": repeats,
        "statements": statements, "workers": workers, "rest": rest * 1e-9 / whole,
        "critical_s": replay.longest(found.call) * 1e-9, "critical": tuple(path),
        "changes": None if found.dropped else _changes(found, replay, statements),
        "dropped": found.dropped,
    }  # fmt: skip
    made = ProgramReport("\n".join(_lines(parts)))
    made.__dict__.update(parts, _recorded=found)
    return made


def _busy(found: Recorded) -> tuple[Counter[int], int]:
    """Nanoseconds of each statement without those inside, all workers together; and of none."""
    busy: Counter[int] = Counter()
    rest = 0
    for span in found.spans():
        own = span.ns - sum(one.ns for one in span.inside)
        if span.kind == CALL or (span.kind == PART and span.step is None):
            rest += own
        elif span.kind in (STATEMENT, PART) and span.step is not None:
            busy[span.step.number] += own
    return busy, rest


def _workers(found: Recorded) -> Iterator[WorkerTime]:
    for worker in range(max(found.threads, len(found.lanes))):
        lane = found.lanes[worker] if worker < len(found.lanes) else []
        busy = sum(one.ns for one in lane)
        for job in (one for outer in lane for one in outer.all() if one.kind == JOB):
            busy -= job.ns - sum(one.ns for one in job.inside)
        yield WorkerTime(worker, busy * 1e-9, (found.call.ns - busy) * 1e-9)


def _statements(found: Recorded, busy: Counter[int], whole: float) -> Iterator[StatementTime]:
    executions: dict[int, list[dict[int, int]]] = defaultdict(list)
    for span in found.spans():
        if span.kind == STATEMENT and span.step is not None:
            executions[span.step.number].append(span.sizes)
    for step in found.statements:
        total = found.totals[step.number]
        if step.is_quiet:
            continue
        work = works_of(found.plan, step, executions[step.number])
        times = sum(count for _, count in work)
        own = busy[step.number] * 1e-9
        yield StatementTime(
            step=step,
            calls=total.calls,
            total_s=total.ns * 1e-9,
            longest_s=total.longest_ns * 1e-9,
            busy_s=own,
            share=own / whole,
            bytes=_mean(work, times, lambda one: one.bytes),
            multiply_adds=_mean(work, times, lambda one: one.multiply_adds),
            operations=_mean(work, times, lambda one: one.operations),
            roofline_s=_roofline(work, times, step, found.threads),
        )


def _mean(work: list[tuple[Work, int]], times: int, of: Callable[[Work], int]) -> int | None:
    return round(sum(of(one) * count for one, count in work) / times) if times else None


def _roofline(work: list[tuple[Work, int]], times: int, step: Step, threads: int) -> float | None:
    """The least time of one execution; beside others it has its share of the machine."""
    if not times:
        return None
    mean = sum(seconds(one, threads) * count for one, count in work) / times
    return mean * (threads if step.inside else 1)


# --- what would help -----------------------------------------------------------------------------


def _changes(
    found: Recorded, replay: Replay, statements: tuple[StatementTime, ...]
) -> tuple[Change, ...]:
    duration, unchanged = found.call.ns * 1e-9, replay.duration() or 1e-9

    def with_it(change: Changed) -> float:
        return replay.duration(change) / unchanged * duration

    tried = [(kind, what, with_it(change)) for kind, what, change in
             _candidates(found, statements)]  # fmt: skip
    return best(duration, tried)


def _called(step: Step) -> str:
    return f"{step.title} at {step.lines[0]}" if step.lines else step.title


def _candidates(
    found: Recorded, statements: tuple[StatementTime, ...]
) -> Iterator[tuple[str, str, Changed]]:
    for one in statements:
        number, share = one.step.number, one.roofline_share
        if share is not None and share < 1:
            yield ("roofline", f"{_called(one.step)} at its roofline",
                   Changed(factor={number: share}))  # fmt: skip
    for step in loops_in_order(found):
        yield ("parallel", f"{_called(step)} side by side instead of in order",
               Changed(side_by_side=step.number))  # fmt: skip
    cut = {one.step.number: one.step for one in found.spans() if one.kind == PART and one.step}
    for number, step in cut.items():
        yield "split", f"{_called(step)} in parts half as large", Changed(halved=number)
    yield from _neighbours(found)


def _neighbours(found: Recorded) -> Iterator[tuple[str, str, Changed]]:
    """Kernels that read what the statement before them computes, which need not be stored."""
    blocks: dict[int, list[Step]] = {}
    for step in found.statements:
        if not step.is_quiet and found.totals[step.number].calls:
            blocks.setdefault(step.block, []).append(step)
    for block, steps in blocks.items():
        nodes = found.plan.graphs[block]
        results = [node["operands"][0] if node["op"] == "result" else at
                   for at, node in enumerate(nodes)]  # fmt: skip
        for first, second in zip(steps, steps[1:], strict=False):
            if first.kind not in ("kernel", "product") or second.kind != "kernel":
                continue
            read = [v for v in nodes[second.value]["operands"] if results[v] == first.value]
            sizes = [found.plan.sizes.exact(bytes_of(nodes[v]["type"])) for v in read]
            known = [size for size in sizes if size is not None]
            if known and len(known) == len(sizes):
                moved = _moved(found, block, read, known)
                what = f"{_called(second)} fused with {first.title}, which saves {moved} bytes"
                rate = copy_rate(moved, found.threads) / (found.threads if second.inside else 1)
                yield "fuse", what, Changed(saves={second.number: moved / rate})


def _moved(found: Recorded, block: int, values: list[int], sizes: list[int]) -> int:
    """Bytes that need not be read, nor written where nothing else reads them."""
    nodes = found.plan.graphs[block]
    readers = Counter(v for node in nodes for v in set(node["operands"]))
    outputs = set(found.plan.outputs(block))
    return sum(
        size * (2 if readers[v] == 1 and v not in outputs else 1)
        for v, size in zip(values, sizes, strict=True)
    )


# --- text ----------------------------------------------------------------------------------------


def _lines(parts: dict[str, Any]) -> Iterator[str]:
    yield from _head(parts)
    statements = [one for one in parts["statements"] if one.calls]
    for one in statements[:_SHOWN]:
        yield _statement_line(one)
    if len(statements) > _SHOWN:
        yield f"  and {len(statements) - _SHOWN} statements more"
    yield from _tail(parts)


def _head(parts: dict[str, Any]) -> Iterator[str]:
    workers, repeats = parts["workers"], parts["repeats"]
    median = f", the median of {repeats} calls" if repeats > 1 else ""
    duration = parts["duration_s"]
    yield f"{parts['name']}: {time_text(duration)} on {len(workers)} workers{median}"
    shown = " > ".join(_path(parts["critical"]))
    yield f"  critical path {time_text(parts['critical_s'])}: {shown}"
    for one in workers:
        yield f"  worker {one.worker} idle {time_text(one.idle_s)}, {one.idle_s / duration:.0%}"


def _tail(parts: dict[str, Any]) -> Iterator[str]:
    yield f"  {parts['rest']:5.1%} in no statement"
    if parts["dropped"]:
        yield f"  {parts['dropped']} executions had no room: shares are of those before them"
    else:
        yield from change_lines(parts["changes"])


def _path(critical: tuple[tuple[str, float], ...]) -> list[str]:
    """The statements of the path that take longest, in program order."""
    least = sorted((time for _, time in critical), reverse=True)[:_ON_PATH]
    kept = [f"{title} {time_text(time)}" for title, time in critical if time >= least[-1]]
    return [*kept[:_ON_PATH], *(["..."] if len(critical) > _ON_PATH else [])]


_HEADS = ("busy", "statement", "calls", "total", "each", "bytes", "multiply-adds",
          "of its roofline", "line")  # fmt: skip


def _row(one: StatementTime) -> tuple[Any, ...]:
    """A statement in a table; "" for what is not known."""
    share = "" if one.roofline_share is None else f"{one.roofline_share:.0%}"
    return (f"{one.share:.1%}", one.step.title, one.calls, time_text(one.total_s),
            time_text(one.total_s / one.calls), "" if one.bytes is None else one.bytes,
            one.multiply_adds or "", share, ", ".join(one.step.lines))  # fmt: skip


def _statement_line(one: StatementTime) -> str:
    text = (f"  {one.share:5.1%} {one.step.title}: {one.calls} calls {time_text(one.total_s)}, "
            f"each {time_text(one.total_s / one.calls)}")  # fmt: skip
    if one.bytes is not None:
        text += f", {one.bytes} bytes"
    if one.multiply_adds:
        text += f", {one.multiply_adds} multiply-adds"
    if one.roofline_share is not None:
        text += f", {one.roofline_share:.0%} of its roofline"
    return text + (f" @ {', '.join(one.step.lines)}" if one.step.lines else "")
