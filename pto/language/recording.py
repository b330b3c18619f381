# SPDX-License-Identifier: Apache-2.0
"""Recordings: when the statements of one call ran, and on which threads.

    explanation = recordable("report", attend, args, kwargs)
    found = record(explanation, *after_a_call(attend, args, kwargs))
    found.call.inside               # the statements of the program, in the calling thread
    found.write("t.json")           # for Perfetto

The call runs a form of the program whose statements tell the recording when they begin and end
(launch/recording.hpp); other calls run the usual form. Statements are the steps of explain().

Thread safety: recordings of several threads do not see each other.
"""

import bisect
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pto import _core
from pto.config import config
from pto.errors import Failure, InvalidValue
from pto.language.copies import copies_of
from pto.language.explanation import Explanation, explain
from pto.language.jit_call import bound_by_name
from pto.language.location import user_line
from pto.language.plan import Plan, Step
from pto.language.program_page import texts

SPANS = 1 << 17  # that a thread keeps, 32 bytes each; what begins later is counted
CALL, STATEMENT, JOB, PART, SIZE = range(5)


@dataclass(slots=True, eq=False)
class Span:
    """A time of one thread: of the call, of a statement, of a job, whose blocks run side by side
    while the thread waits for them, or of a part, one of these blocks. `trip` is the iteration of
    the innermost loop around it, or -1. Times are nanoseconds since the call began. `sizes` has the
    values of sizes from data, by the number of their symbol."""

    kind: int
    step: Step | None
    trip: int
    start: int
    end: int
    lane: int
    sizes: dict[int, int] = field(default_factory=dict)
    inside: list["Span"] = field(default_factory=list)

    @property
    def ns(self) -> int:
        return self.end - self.start

    def all(self) -> Iterator["Span"]:
        """This span and those inside, in the order of their begin."""
        yield self
        for one in self.inside:
            yield from one.all()


@dataclass(frozen=True)
class Total:
    """All executions of one statement, also those that had no room."""

    calls: int
    ns: int
    longest_ns: int


class Recorded:
    """One recorded call: `lanes` are the outermost spans of each thread, the caller's first."""

    def __init__(self, name: str, found: Explanation, recording: _core.Recording, result: Any):
        self.name, self.explanation, self.plan, self.result = name, found, found.plan, result
        self.threads = recording.threads
        self.statements = statements_of(found.plan)
        self._recording = recording
        self.lanes: list[list[Span]] = []
        self.totals: dict[int, Total] = {}  # by the number of the step
        self.dropped = 0
        self._defined: list[tuple[int, dict[int, int]]] = []  # sizes of the caller, and since when
        for spans, totals, dropped in recording.lanes():
            self.lanes.append(self._tree(spans, len(self.lanes)))
            self.dropped += dropped
            for step, (calls, ns, longest) in zip(self.statements, totals, strict=True):
                before = self.totals.get(step.number, Total(0, 0, 0))
                self.totals[step.number] = Total(
                    before.calls + calls, before.ns + ns, max(before.longest_ns, longest)
                )

    def _tree(self, spans: list[tuple], lane: int) -> list[Span]:
        """Spans in the order of their begin, each with its depth, as trees.

        A part of another lane begins with the sizes that the caller has defined.
        """
        outermost: list[Span] = []
        around: list[Span] = []
        sizes: dict[int, int] = {}
        for kind, statement, trip, depth, start, end in spans:
            if kind == SIZE:
                sizes = sizes | {statement: trip}
                if lane == 0:
                    self._defined.append((start, sizes))
                continue
            if lane > 0 and depth == 0:
                sizes = self._defined_at(start)
            step = self.statements[statement] if statement >= 0 else None
            span = Span(kind, step, trip, start, end, lane, sizes)
            del around[depth:]
            (around[-1].inside if around else outermost).append(span)
            around.append(span)
        return outermost

    def _defined_at(self, time: int) -> dict[int, int]:
        at = bisect.bisect_right(self._defined, time, key=lambda one: one[0])
        return self._defined[at - 1][1] if at else {}

    @property
    def call(self) -> Span:
        return self.lanes[0][0]

    def spans(self) -> Iterator[Span]:
        """Every span, lane by lane."""
        return (one for lane in self.lanes for outer in lane for one in outer.all())

    def write(self, path: str) -> None:
        """Writes the trace; an error leaves what stood at the path."""
        names = [step.title for step in self.statements]
        about = [_members(step) for step in self.statements]
        program = json.dumps({"program": texts(self.name, self.explanation)})[1:-1]
        self._recording.write(path, self.name, [*names, self.name], [*about, '"kind":"call"'],
                              program)  # fmt: skip


def statements_of(plan: Plan) -> list[Step]:
    """The steps by the numbers that a recording has for them.

    A program counts all of its steps; without one the launcher counts the kernels.
    """
    steps = sorted((one for top in plan.steps for one in top.all()), key=lambda one: one.number)
    return steps if plan.found["is_program"] else [one for one in steps if one.kind == "kernel"]


def _members(step: Step) -> str:
    """The members of a JSON object by which a slice knows its statement."""
    about: dict[str, Any] = {"kind": step.kind, "step": step.number, "lines": step.lines}
    about |= {"label": step.label} if step.label else {}
    about |= {"operations": step.operations} if step.operations else {}
    about |= {"type": step.type} if step.type else {}
    about |= {"order": step.order} if step.order else {}
    return json.dumps(about, separators=(",", ":"), ensure_ascii=False)[1:-1]


def trace_into(path: str, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Runs a call, once on copies before, writes its trace, and returns its result."""
    if "\0" in path:
        raise InvalidValue(
            f"trace: the path {path!r:.60} has a NUL in it", "no file of the system is called so",
            "take the NUL out", user_line(),
        )  # fmt: skip
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise Failure(
            f"the trace cannot be written to {path}: there is no folder {folder}",
            "the folder of a trace must exist",
            "make it, or pass another path",
            user_line(),
        )
    explanation = recordable("trace", function, args, kwargs)
    found = record(explanation, *after_a_call(function, args, kwargs))
    found.write(path)
    return found.result


def recordable(tool: str, function: Any, args: tuple, kwargs: dict[str, Any]) -> Explanation:
    """The explanation of a call that can be recorded; `function` is a Jit or a Program."""
    found = explain(function.compiled, args, kwargs)
    refuse_interpreted(tool, function.__name__, found.reason)
    return found


def refuse_interpreted(tool: str, name: str, reason: str = "") -> None:
    """Refuses a call that the interpreter runs, for this reason or since config.interpret says so,
    to a tool for compiled code."""
    fix = "set it to False" if config.interpret else "write what it names in another way"
    if reason := "pto.config.interpret is True" if config.interpret else reason:
        raise Failure(
            f"{tool}: the interpreter runs {name}: {reason}", "it tells of compiled functions", fix,
            user_line(),
        )  # fmt: skip


def after_a_call(function: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, list]:
    """(the function in its recorded form, its arguments), after a call on copies."""
    compiled = function.compiled
    given = bound_by_name(compiled, args, kwargs)
    made = function.recorded_form()
    made(*copies_of(given).values())
    return made, list(given.values())


def record(explanation: Explanation, function: Any, values: list) -> Recorded:
    """One recorded call of a function in its recorded form."""
    recording = _core.Recording(len(statements_of(explanation.plan)), SPANS)
    recording.start()
    try:
        result = function(*values)
    finally:
        recording.stop()
    return Recorded(function.__name__, explanation, recording, result)
