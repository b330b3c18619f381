# SPDX-License-Identifier: Apache-2.0
"""Replays: how long a recorded call would have taken with a change, by its recorded times.

    replay = Replay(found)                        # a Recorded
    replay.duration(Changed())                     # as it was, in seconds
    replay.duration(Changed(side_by_side=7))       # the iterations of step 7 beside each other

Statements in order add up; the parts of a job go to the worker that is free first. The time that a
recorded job took beyond such a schedule stays as it was.

Thread safety: plain values.
"""

import bisect
import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from pto.language.plan import Step
from pto.language.recording import JOB, PART, STATEMENT, Recorded, Span


@dataclass(frozen=True)
class Changed:
    """A change of a call: steps by their number. `factor` of the time that executions take, or
    seconds that each `saves`; a loop whose iterations run `side_by_side`; a step whose parts are
    `halved`."""

    factor: dict[int, float] = field(default_factory=dict)
    saves: dict[int, float] = field(default_factory=dict)
    side_by_side: int = -1
    halved: int = -1


class Replay:
    """The recorded spans of a call, with the parts of each job from all threads."""

    def __init__(self, found: Recorded):
        self.call, self.threads = found.call, found.threads
        jobs = [one for one in self.call.all() if one.kind == JOB]
        begins = [job.start for job in jobs]
        self.parts: dict[int, list[Span]] = {id(job): [] for job in jobs}
        for span in found.spans():
            if span.kind != PART:
                continue
            at = bisect.bisect_right(begins, span.start) - 1
            if at >= 0 and span.start <= jobs[at].end:
                self.parts[id(jobs[at])].append(span)
        for parts in self.parts.values():
            parts.sort(key=lambda part: part.start)

    def duration(self, change: Changed | None = None) -> float:
        """Seconds that the call takes with a change."""
        return self._time(self.call, change or Changed()) * 1e-9

    def work(self, span: Span) -> float:
        """Nanoseconds that a span takes all threads together."""
        jobs = [one for one in span.all() if one.kind == JOB]
        return span.ns - sum(job.ns - sum(p.ns for p in self.parts[id(job)]) for job in jobs)

    def longest(self, span: Span) -> float:
        """Nanoseconds of a span with as many threads as it has parts."""
        time = float(span.ns)
        for job in (one for one in span.all() if one.kind == JOB):
            parts = self.parts[id(job)]
            longest = max((_longest_unit(part) for part in parts), default=job.ns)
            time -= max(0, job.ns - longest)
        return time

    def _time(self, span: Span, change: Changed) -> float:
        if span.kind == JOB:
            return self._job(span, change)
        if span.kind == STATEMENT and span.step is not None:
            number = span.step.number
            if number == change.side_by_side:
                return makespan(map(self.work, iterations(span)), self.threads)
            if number in change.factor:
                return span.ns * change.factor[number]
            if number in change.saves:
                return max(0.0, span.ns - change.saves[number] * 1e9)
        return span.ns + sum(self._time(one, change) - one.ns for one in span.inside)

    def _job(self, job: Span, change: Changed) -> float:
        parts = self.parts[id(job)]
        if not parts:
            return float(job.ns)
        rest = job.ns - makespan((part.ns for part in parts), self.threads)
        times = [self._time(part, change) for part in parts]
        if job.step is not None and job.step.number == change.halved:
            times = [time / 2 for time in times for _ in range(2)]
        return max(0.0, makespan(times, self.threads) + rest)


def iterations(loop: Span) -> list[Span]:
    """The iterations of a loop, or of a part of one, each as a span from the end of the one before
    to the end of its last statement."""
    found: list[Span] = []
    at = loop.start
    for one in loop.inside:
        if found and found[-1].trip == one.trip:
            found[-1].end = one.end
            found[-1].inside.append(one)
        else:
            found.append(Span(STATEMENT, None, one.trip, at, one.end, loop.lane, [one]))
        at = one.end
    if found:
        found[-1].end = loop.end
    return found or [loop]


def _longest_unit(part: Span) -> int:
    """The longest piece that one thread has to do: an iteration, or the part."""
    is_loop = part.step is not None and part.step.kind == "loop"
    return max(one.ns for one in iterations(part)) if is_loop else part.ns


def makespan(times: Iterable[float], workers: int) -> float:
    """When the last of these ends, each begun by the worker that is free first."""
    free = [0.0] * max(1, workers)
    for time in times:
        heapq.heapreplace(free, free[0] + time)
    return max(free)


def loops_in_order(found: Recorded) -> list[Step]:
    """Loops that ran in order in the calling thread, for more than one iteration."""
    loops: dict[int, Step] = {}
    for span in found.call.all():
        step = span.step
        if span.kind != STATEMENT or step is None or step.kind != "loop":
            continue
        if step.order == "in order" and not step.inside and len(iterations(span)) > 1:
            loops[step.number] = step
    return list(loops.values())
