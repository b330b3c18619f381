# SPDX-License-Identifier: Apache-2.0
"""Finds out about a run, beyond its slices: nesting, waits, the longest chain, idle time.

Pure functions of a document. Times are microseconds.
"""

import bisect
import math
from collections import defaultdict
from typing import Any

import numpy as np

from pto.studio.document import Document, Held

CELLS = 400  # of a series over time


def nest(document: Document) -> None:
    """Sorts slices by lane and begin, and sets the depth of each, and the one around it."""
    slices = document.slices
    order = sorted(range(len(slices)), key=lambda at: (
        slices[at].lane, slices[at].start, -slices[at].end))  # fmt: skip
    places = {old: new for new, old in enumerate(order)}
    document.slices = [slices[at] for at in order]
    document.edges = [(places[a], places[b]) for a, b in document.edges]
    around: list[int] = []
    for at, one in enumerate(document.slices):
        while around and not (one.lane == (outer := document.slices[around[-1]]).lane
                              and outer.end >= one.end > outer.start):  # fmt: skip
            around.pop()
        one.depth, one.around = len(around), around[-1] if around else -1
        around.append(at)


def waits(document: Document) -> list[float]:
    """How long each slice waited: as the trace says, or the time that its lane idled before it."""
    until: dict[tuple[int, int], float] = {}
    found = []
    for one in document.slices:
        row = one.lane, one.depth
        idle = max(0.0, one.start - until.get(row, one.start))
        until[row] = one.end
        found.append(idle if one.waited is None else one.waited)
    return found


def critical_path(document: Document) -> list[int]:
    """The chain of dependent slices that takes longest; [] where the trace has no edges.

    A recorded program has none: its statements run in order, and the blocks of a job side by side.
    Its edges are added here, and the waits of blocks since their job began; its path has the
    innermost statements, and of each job the longest block.
    """
    slices = document.slices
    if not document.edges:
        return _path_of_program(document) if any(one.part for one in slices) else []
    before: list[list[int]] = [[] for _ in slices]
    for producer, consumer in document.edges:
        before[consumer].append(producer)
    length, last = [0.0] * len(slices), [-1] * len(slices)
    for at in sorted(range(len(slices)), key=lambda at: slices[at].start):
        for one in before[at]:
            if length[one] > length[at]:
                length[at], last[at] = length[one], one
        length[at] += slices[at].end - slices[at].start
    at, path = max(range(len(slices)), key=length.__getitem__), []
    while at >= 0:
        path.append(at)
        at = last[at]
    return path[::-1]


def _path_of_program(document: Document) -> list[int]:
    slices = document.slices
    jobs = sorted((one.start, at) for at, one in enumerate(slices) if one.part == "job")
    inside: dict[int, list[int]] = defaultdict(list)
    for at, one in enumerate(slices):
        job = bisect.bisect_right(jobs, (one.start, len(slices))) - 1
        if one.part == "part" and job >= 0 and one.start <= slices[jobs[job][1]].end:
            inside[jobs[job][1]].append(at)
            if one.waited is None:
                one.waited = one.start - jobs[job][0]
        else:
            inside[one.around].append(at)
    path: list[int] = []
    todo = [at for at in reversed(inside[-1]) if slices[at].part == "call"]
    while todo:
        at = todo.pop()
        inner = inside[at]
        if slices[at].part == "job" and inner:
            longest = max(inner, key=lambda one: slices[one].end - slices[one].start)
            document.edges += [(path[-1], one) for one in inner if path and one != longest]
            inner = [longest]
        if not inner:
            document.edges += [(path[-1], at)] if path else []
            path.append(at)
        todo += reversed(inner)
    return path


def span(document: Document) -> tuple[float, float]:
    """The begin and the end of the run: of its slices, and of its memory as the trace says."""
    slices, memory = document.slices, document.memory
    begin = min([one.start for one in (*slices, *memory)], default=0.0)
    ends = [one.until for one in memory if one.until < math.inf]
    return begin, max([begin + 1e-3, *(one.end for one in slices), *ends])


def workers(document: Document) -> dict[str, np.ndarray]:
    """How many lanes were busy, idle while a task was ready, and idle for want of one, over time.

    A task is ready from its begin less its wait. `time` has the middles of CELLS cells; `lanes` the
    share of the run of each of the three, for each lane: idle lanes share what is ready.
    """
    begin, end = span(document)
    edges = np.linspace(begin, end, CELLS + 1)
    slices = document.slices
    spans: list[list] = [[] for _ in document.lanes]
    jobs: list[list] = [[] for _ in document.lanes]
    for one in slices:
        if one.depth == 0 or slices[one.around].part == "job":
            spans[one.lane].append((one.start, one.end))
        if one.part == "job":  # its thread waits, except in blocks of its own
            jobs[one.lane].append((one.start, one.end))
    busy = np.array([_covered(a, edges) - _covered(b, edges)
                     for a, b in zip(spans, jobs, strict=True)]).reshape(-1, CELLS)  # fmt: skip
    idle = np.clip(1 - busy, 0, 1)
    waiting = _covered([(one.start - one.waited, one.start) for one in slices if one.waited], edges)
    none = np.maximum(idle.sum(0), 1e-9)
    ready = idle * np.minimum(1, waiting / none)
    kinds = {"busy": busy, "ready": ready, "none": idle - ready}
    series = {name: values.sum(0) for name, values in kinds.items()}
    lanes = np.array([values.mean(1) for values in kinds.values()]).T
    return {"time": (edges[1:] + edges[:-1]) / 2, "lanes": lanes, **series}


def _covered(spans: list[tuple[float, float]], edges: np.ndarray) -> np.ndarray:
    """How many of the spans cover each cell, on average."""
    starts, ends = np.sort(np.array(spans, float).reshape(-1, 2), axis=0).T
    total = np.zeros(len(edges))  # the time that spans took before each edge
    for sign, points in ((1, starts), (-1, ends)):
        count = np.searchsorted(points, edges)
        total += sign * (edges * count - np.concatenate([[0.0], np.cumsum(points)])[count])
    return np.diff(total) / np.diff(edges)


def held(document: Document) -> list[Held]:
    """Memory and the slices that take it: as the trace says, from its allocation to its free; or
    the values of statements, each to the end of what is around it."""
    slices = document.slices
    if document.memory:
        places = {one.number: at for at, one in enumerate(slices)}
        return [Held(one.start, one.until, one.bytes, places.get(one.owner, -1))
                for one in document.memory]  # fmt: skip
    _, end = span(document)
    found = []
    for at, one in enumerate(slices):
        about = document.about(one.kind)
        if about.get("taken_bytes") and document.kinds[one.kind].name == about["title"]:
            until = slices[one.around].end if one.around >= 0 else end
            found.append(Held(one.start, until, about["taken_bytes"], at))
    return found


def memory(document: Document) -> dict[str, Any] | None:
    """Bytes that are held over time, from each change on to the next; None where the trace does not
    tell them."""
    changes: dict[float, float] = defaultdict(float)
    for one in held(document):
        changes[one.start] += one.bytes
        if one.until < math.inf:
            changes[one.until] -= one.bytes
    if not changes:
        return None
    begin, end = span(document)
    times, steps = np.array(sorted(changes.items())).T
    total = np.cumsum(steps)
    if times[0] > begin:
        times, total = np.append(begin, times), np.append(0.0, total)
    return {"time": np.append(times, max(end, times[-1])), "bytes": np.append(total, total[-1])}
