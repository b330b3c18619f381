# SPDX-License-Identifier: Apache-2.0
"""Reads what a page shows from the JSON of a trace, and checks all that it keeps.

A trace is a file for Perfetto as pto's tools write it: slices ("X") with `args`, arrows between
them ("s" to "f"), names of lanes. Where `otherData.program` stands it tells of the program:

    {"name", "stages": [[name, text]], "cpp": [[name, text]], "sources": {file: text},
     "statements": [{"title", "step", "lines", "symbol", "cpp", "calls", "total_s", "bytes",
                     "share", "operations", "limit_s", "taken_bytes"}],
     "rates": {"operations": per second, "bytes": per second, "near_bytes": the same in a cache},
     "tables": [[title, [[cell of a heading], [cell of a row]]]], "notes": [text]}

A slice belongs to the statement with its args.step, or else with its name as title; `cpp` names the
text with a statement's `symbol`, where not every text may have it. Times are microseconds.

Memory of tasks has a number ("id") from its allocation ("N", with args.bytes and the args.task that
uses it first) to its free ("D"), where the run has one.
"""

import json
import math
from dataclasses import dataclass, field
from typing import Any

from pto.errors import InvalidValue

_MOST = 1e18  # of a number
_NUMBER = (int, float)
_CALLED = {str: "a text", dict: "an object", list: "a list", _NUMBER: "a number of at most 1e18"}
_NUMBERS = ("step", "calls", "total_s", "bytes", "share", "operations", "limit_s", "taken_bytes")


@dataclass(frozen=True)
class Kind:
    """Slices of one name at one place: a statement, or a kernel as one line submits it."""

    name: str
    lines: tuple[str, ...]
    statement: int = -1  # its place in `statements`


@dataclass(slots=True)
class Slice:
    """Some time of a lane; `waited` is as the trace says, or None; `depth` counts those around.
    `part` is "job" while a thread waits for blocks side by side, "part" for one of these, or ""."""

    start: float
    end: float
    lane: int
    kind: int
    number: int  # of the task, or the place in the trace
    waited: float | None
    iteration: int = -1
    part: str = ""
    failed: str = ""  # the text of a task that failed
    depth: int = 0
    around: int = -1  # the slice around it


@dataclass(slots=True)
class Held:
    """Memory from a time until another; `owner` is the slice that takes it, or -1."""

    start: float
    until: float  # infinity: the run did not free it
    bytes: float
    owner: int


@dataclass
class Document:
    """Everything that a page shows. `edges` are (producer, consumer), places in `slices`.

    The owners of `memory` are still numbers of tasks. `functions`: of a kernel of another name its
    file and its function there."""

    name: str = ""
    lanes: list[str] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    memory: list[Held] = field(default_factory=list)
    dropped: int = 0
    stages: list[tuple[str, str]] = field(default_factory=list)
    cpp: list[tuple[str, str]] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    statements: list[dict[str, Any]] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=dict)
    tables: list[tuple[str, list[list[str]]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    functions: dict[str, tuple[str, str]] = field(default_factory=dict)

    def about(self, kind: int) -> dict[str, Any]:
        """The statement of a kind, or {}."""
        at = self.kinds[kind].statement
        return self.statements[at] if at >= 0 else {}


def document_of(trace: Any, shown: str = "the trace") -> Document:
    """The document of the JSON of a trace, which errors call as `shown`."""
    made = Document()
    try:
        events = _get(trace, "traceEvents", list)
        other = _get(trace, "otherData", dict, {})
        made.dropped = int(_get(other, "dropped", _NUMBER, 0))
        _read_program(made, _get(other, "program", dict, {}))
        _read_slices(made, events)
        _read_memory(made, events, int(_get(other, "memory_dropped", _NUMBER, 0)))
    except ValueError as error:
        raise no_trace(shown, str(error)) from None
    return made


def no_trace(shown: str, why: str) -> InvalidValue:
    return InvalidValue(
        f"studio: {shown} is no trace", why,
        "write one with f.trace(path, *args), or with rt.trace(path, level=3) before a run",
    )  # fmt: skip


def _is(value: Any, kind: Any, name: str) -> Any:
    """The value, where it is of the kind that `name` has in a trace."""
    is_one = isinstance(value, kind) and not isinstance(value, bool)
    if not is_one or (kind is _NUMBER and not abs(value) <= _MOST):
        raise ValueError(f"{name} is {json.dumps(value)[:60]}, where a trace has {_CALLED[kind]}")
    return value


def _get(of: Any, name: str, kind: Any, default: Any = None) -> Any:
    """A member of an object; the default where it is missing or null."""
    value = _is(of, dict, f"what has {name}").get(name)
    return default if value is None and default is not None else _is(value, kind, name)


def _all(of: Any, name: str, kind: Any) -> list:
    """A list of one kind, [] where it is missing."""
    return [_is(one, kind, f"an entry of {name}") for one in _get(of, name, list, [])]


def _pairs(of: Any, name: str, kind: Any) -> list[tuple]:
    """A list of lists of a text and one thing of a kind."""
    for one in (found := _all(of, name, list)):
        if len(one) != 2:
            raise ValueError(f"an entry of {name} has {len(one)} parts, where a trace has 2")
    return [(_is(a, str, f"a title of {name}"), _is(b, kind, name)) for a, b in found]


def _read_program(made: Document, program: dict) -> None:
    made.name = _get(program, "name", str, "")
    made.stages, made.cpp = _pairs(program, "stages", str), _pairs(program, "cpp", str)
    made.sources = {name: _is(text, str, f"the source {name}")
                    for name, text in _get(program, "sources", dict, {}).items()}  # fmt: skip
    for one in _all(program, "statements", dict):
        texts = {name: _get(one, name, str, "") for name in ("symbol", "cpp")}
        numbers = {name: _get(one, name, _NUMBER) for name in _NUMBERS if one.get(name) is not None}
        made.statements.append({"title": _get(one, "title", str), **texts, **numbers,
                                "lines": _all(one, "lines", str)})  # fmt: skip
    rates = _get(program, "rates", dict, {})
    made.rates = {name: rate for name in rates if (rate := _get(rates, name, _NUMBER, 0)) > 0}
    made.tables = [(title, [[str(cell) for cell in _is(row, list, "a row")] for row in rows])
                   for title, rows in _pairs(program, "tables", list)]  # fmt: skip
    made.notes = _all(program, "notes", str)


def _read_slices(made: Document, events: list) -> None:
    """Reads the events; a statement without slices becomes a kind of its own at the end."""
    lanes: dict[int, str] = {}
    kinds: dict[Kind, int] = {}
    places: dict[Any, int] = {}
    for at, one in enumerate(made.statements):
        places.setdefault(one.get("step", one["title"]), at)
    order = {tid: at for at, tid in enumerate(sorted({
        _get(one, "tid", _NUMBER) for one in events if _get(one, "ph", str) == "X" or
        (one["ph"] == "M" and one.get("name") == "thread_name")}))}  # fmt: skip
    arrows: dict[str, dict[str, tuple]] = {}
    for event in events:
        phase, args = event["ph"], _get(event, "args", dict, {})
        if phase == "M" and event.get("name") == "process_name":
            made.name = made.name or _get(args, "name", str)
        elif phase == "M" and event.get("name") == "thread_name":
            lanes[_get(event, "tid", _NUMBER)] = _get(args, "name", str)
        elif phase == "X":
            source = _get(args, "source", str, "")
            name, lines = _get(event, "name", str), _all(args, "lines", str) or [source]
            known = places.get(_get(args, "step", _NUMBER, -1), places.get(name, -1))
            kind = Kind(name, tuple(filter(None, lines)), known)
            start, took = _get(event, "ts", _NUMBER), _get(event, "dur", _NUMBER)
            waited = None if args.get("waited_us") is None else _get(args, "waited_us", _NUMBER)
            if took < 0 or (waited or 0) < 0:
                raise ValueError(f"dur is {took}, waited_us {waited}, where a trace has times >= 0")
            made.slices.append(Slice(
                start, start + took, order[event["tid"]], kinds.setdefault(kind, len(kinds)),
                int(_get(args, "task", _NUMBER, len(made.slices))), waited,
                int(_get(args, "iteration", _NUMBER, -1)), _get(args, "is", str, ""),
                _get(args, "failed", str, "")))  # fmt: skip
        elif phase in "sf" and phase:
            end = order.get(_get(event, "tid", _NUMBER), -1), round(_get(event, "ts", _NUMBER), 3)
            arrows.setdefault(json.dumps(event.get("id")), {})[phase] = end
    rest = {*range(len(made.statements))} - {kind.statement for kind in kinds}
    made.kinds = [*kinds, *(Kind(one["title"], tuple(one["lines"]), at)
                            for at, one in enumerate(made.statements) if at in rest)]  # fmt: skip
    made.lanes = [lanes.get(tid, f"lane {tid}") for tid in order]
    # An arrow is from the slice that ends where it begins to the one that begins where it ends.
    ends = {(one.lane, round(one.end, 3)): at for at, one in enumerate(made.slices)}
    starts = {(one.lane, round(one.start, 3)): at for at, one in enumerate(made.slices)}
    known = [(ends.get(one.get("s")), starts.get(one.get("f"))) for one in arrows.values()]
    made.edges = [(a, b) for a, b in known if a is not None and b is not None]


def _read_memory(made: Document, events: list, dropped: int) -> None:
    """Matches frees with allocations; what matches nothing is left out and counted in a note."""
    held: dict[str, Held] = {}
    left_out = 0
    for event in events:
        if (phase := event["ph"]) not in ("N", "D") or event.get("name") != "memory":
            continue
        at, number = _get(event, "ts", _NUMBER), json.dumps(event.get("id"))
        if phase == "D":
            if (one := held.pop(number, None)) is None or at < one.start:
                left_out += 1
            else:
                one.until = at
            continue
        args = _get(event, "args", dict)
        size, task = _get(args, "bytes", _NUMBER), int(_get(args, "task", _NUMBER, 0))
        if size < 0:
            raise ValueError(f"bytes is {size}, where a trace has a size >= 0")
        if number in held:
            left_out += 1
            continue
        held[number] = one = Held(at, math.inf, size, task or -1)
        made.memory.append(one)
    if left_out:
        made.notes.append(f"{left_out} records of memory are left out: frees without an allocation "
                          "before them, or allocations whose number is taken.")  # fmt: skip
    if dropped > 0:
        made.notes.append(f"The trace dropped {dropped} records of memory that was freed early: "
                          "the first bytes of its curve are missing.")  # fmt: skip
