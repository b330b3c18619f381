# SPDX-License-Identifier: Apache-2.0
"""Reads what a page shows from the JSON of a trace.

A trace is a file for Perfetto as pto's tools write it: slices ("X") with `args`, arrows between
them ("s" to "f"), names of lanes. Where `otherData.program` stands it tells of the program:

    {"name", "stages": [[name, text]], "cpp": [[name, text]], "sources": {file: text},
     "statements": [{"title", "lines", "symbol", "calls", "total_s", "share", "bytes",
                     "operations", "limit_s", "taken_bytes"}],
     "rates": {"operations": per second, "bytes": per second, "near_bytes": the same in a cache}}

A part that is not there is a pane that the page lacks. Times are microseconds, as in the file.
"""

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pto.errors import InvalidValue, MissingFile

TEXTS_MAX = 1 << 20  # characters of a source that a page takes


@dataclass(frozen=True)
class Kind:
    """Slices of one name at one place: a statement, or a kernel as one line submits it."""

    name: str
    lines: tuple[str, ...]


@dataclass(slots=True)
class Slice:
    """Some time of a lane; `waited` is as the trace says, or None; `depth` counts those around."""

    start: float
    end: float
    lane: int
    kind: int
    number: int  # of the task, or the place in the trace
    waited: float | None
    iteration: int = -1
    depth: int = 0
    around: int = -1  # the slice around it


@dataclass
class Document:
    """Everything that a page shows. `edges` are (producer, consumer), places in `slices`."""

    name: str
    lanes: list[str]
    kinds: list[Kind]
    slices: list[Slice]
    edges: list[tuple[int, int]]
    dropped: int = 0
    stages: list[tuple[str, str]] = field(default_factory=list)
    cpp: list[tuple[str, str]] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    statements: dict[str, dict[str, Any]] = field(default_factory=dict)  # by title
    rates: dict[str, float] = field(default_factory=dict)


def read(path: str | os.PathLike, sources: Iterable[str | os.PathLike] = ()) -> Document:
    """The document of a trace file. Sources that its lines name are looked up beside it and in
    folders among `sources`; files among these are shown too.

    Raises MissingFile without the file, InvalidValue where it is no trace.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MissingFile(
            f"studio: {path} cannot be read: {error.strerror}",
            "a page shows a trace, which f.trace(path, *args) or rt.trace(path) writes",
            "pass the path of one",
        ) from None
    except UnicodeDecodeError:
        raise _no_trace(str(path), "it is no text") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_trace(str(path), f"it is no JSON: {error}") from None
    return document_of(found, str(path), [path.parent, *sources])


def document_of(
    trace: Any, shown: str = "the trace", sources: Iterable[str | os.PathLike] = ()
) -> Document:
    """The document of the JSON of a trace; `shown` names it in errors."""
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list):
        raise _no_trace(shown, "it has no list traceEvents")
    try:
        other = trace.get("otherData") or {}
        program = other.get("program") or {}
        made = _slices(events)
        made.name = program.get("name", made.name)
        made.stages = [(str(n), str(t)) for n, t in program.get("stages", ())]
        made.cpp = [(str(n), str(t)) for n, t in program.get("cpp", ())]
        made.statements = {one["title"]: one for one in program.get("statements", ())}
        made.rates = program.get("rates", {})
        made.sources = {str(n): _as_text(t) for n, t in program.get("sources", {}).items()}
        made.dropped = int(other.get("dropped", 0))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _no_trace(shown, f"a part of it is {type(error).__name__}: {error}") from None
    given = [Path(one) for one in sources]
    for path in given:
        if path.is_file() and (text := _text(path)) is not None:
            made.sources.setdefault(path.name, text)
    _find_sources(made, [path for path in given if not path.is_file()])
    return made


def _no_trace(shown: str, why: str) -> InvalidValue:
    return InvalidValue(
        f"studio: {shown} is no trace", why,
        "write one with f.trace(path, *args), or with rt.trace(path, level=3) before a run",
    )  # fmt: skip


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a source is no text")
    return value


def _slices(events: list) -> Document:
    lanes: dict[int, str] = {}
    kinds: dict[tuple, int] = {}
    made = Document("", [], [], [], [])
    order = {tid: at for at, tid in enumerate(sorted({
        event["tid"] for event in events if event["ph"] == "X"}))}  # fmt: skip
    arrows: dict[Any, tuple] = {}
    for event in events:
        phase, args = event["ph"], event.get("args") or {}
        if phase == "M":
            if event["name"] == "process_name":
                made.name = str(args["name"])
            else:
                lanes[event["tid"]] = str(args["name"])
        elif phase == "X":
            source = args.get("source")
            lines = tuple(map(str, args.get("lines") or ([source] if source else ())))
            key = str(event["name"]), lines
            if key not in kinds:
                kinds[key] = len(kinds)
                made.kinds.append(Kind(*key))
            start, end = float(event["ts"]), float(event["ts"]) + float(event["dur"])
            if not math.isfinite(start) or not math.isfinite(end):
                raise ValueError(f"a slice from {start} to {end}")
            number = args.get("task", len(made.slices))
            made.slices.append(Slice(start, end, order[event["tid"]], kinds[key],
                                     int(number), args.get("waited_us"),
                                     int(args.get("iteration", -1))))  # fmt: skip
        elif phase == "s":
            arrows[event["id"]] = order.get(event["tid"], -1), float(event["ts"])
        elif phase == "f" and event["id"] in arrows:
            arrows[event["id"]] += order.get(event["tid"], -1), float(event["ts"])
    made.lanes = [lanes.get(tid, f"lane {tid}") for tid in order]
    made.edges = _edges(made.slices, [ends for ends in arrows.values() if len(ends) == 4])
    return made


def _edges(slices: list[Slice], arrows: list[tuple]) -> list[tuple[int, int]]:
    """Arrows as pairs of slices: one that ends where it begins, one that begins where it ends."""
    ends = {(one.lane, round(one.end, 3)): at for at, one in enumerate(slices)}
    starts = {(one.lane, round(one.start, 3)): at for at, one in enumerate(slices)}
    found = []
    for from_lane, from_time, to_lane, to_time in arrows:
        first = ends.get((from_lane, round(from_time, 3)))
        second = starts.get((to_lane, round(to_time, 3)))
        if first is not None and second is not None:
            found.append((first, second))
    return found


def _find_sources(made: Document, folders: list[Path]) -> None:
    """Adds the texts of files that lines name, where they can be read."""
    for kind in made.kinds:
        for line in kind.lines:
            file = line.rpartition(":")[0]
            if file in made.sources or not file:
                continue
            for path in (Path(file), *(folder / file for folder in folders)):
                if (text := _text(path)) is not None:
                    made.sources[file] = text
                    break


def _text(path: Path) -> str | None:
    """The text of a file, or None: a page goes without a source that cannot be read."""
    try:
        return path.read_text(encoding="utf-8")[:TEXTS_MAX]
    except (OSError, ValueError):
        return None
