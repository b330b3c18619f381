# SPDX-License-Identifier: Apache-2.0
"""Finds out about a run, beyond its slices: nesting, waits, the longest chain, idle time.

Pure functions of a document. Times are microseconds.
"""

from collections.abc import Iterator

import numpy as np

from pto.studio.document import Document

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
        while around and not _holds(document.slices[around[-1]], one):
            around.pop()
        one.depth, one.around = len(around), around[-1] if around else -1
        around.append(at)


def _holds(outer, inner) -> bool:  # type: ignore[no-untyped-def]
    return outer.lane == inner.lane and outer.end >= inner.end > outer.start


def waits(document: Document) -> list[float]:
    """How long each slice waited: as the trace says, or the time that its lane idled before it."""
    until: dict[tuple[int, int], float] = {}
    found = []
    for one in document.slices:
        row = one.lane, one.depth
        idle = max(0.0, one.start - until.get(row, one.start))
        until[row] = one.end
        found.append(idle if one.waited is None else float(one.waited))
    return found


def critical_path(document: Document) -> list[int]:
    """The chain of dependent slices that takes longest; [] where the trace has no edges."""
    if not document.edges:
        return []
    slices = document.slices
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


def span(document: Document) -> tuple[float, float]:
    """The begin and the end of the run."""
    if not document.slices:
        return 0.0, 1.0
    begin = min(one.start for one in document.slices)
    return begin, max(max(one.end for one in document.slices), begin + 1e-3)


def workers(document: Document) -> dict[str, np.ndarray]:
    """How many lanes were busy, idle while a task was ready, and idle for want of one, over time.

    A task is ready from its begin less its wait. `time` has the middles of CELLS cells.
    """
    begin, end = span(document)
    edges = np.linspace(begin, end, CELLS + 1)
    outer = [one for one in document.slices if one.depth == 0]
    busy = _covered([(one.start, one.end) for one in outer], edges)
    waiting = _covered([(one.start - one.waited, one.start) for one in outer if one.waited], edges)
    idle = np.maximum(len(document.lanes) - busy, 0)
    ready = np.minimum(idle, waiting)
    return {"time": (edges[1:] + edges[:-1]) / 2, "busy": busy, "ready": ready,
            "none": idle - ready}  # fmt: skip


def _covered(spans: list[tuple[float, float]], edges: np.ndarray) -> np.ndarray:
    """How many of the spans cover each cell, on average."""
    if not spans:
        return np.zeros(len(edges) - 1)
    starts, ends = np.array(spans).T
    total = [_time_before(edges, starts), _time_before(edges, ends)]
    return np.diff(total[0] - total[1]) / np.diff(edges)


def _time_before(edges: np.ndarray, points: np.ndarray) -> np.ndarray:
    """For each edge the sum of its distances to the points before it."""
    points = np.sort(points)
    count = np.searchsorted(points, edges)
    sums = np.concatenate([[0.0], np.cumsum(points)])
    return edges * count - sums[count]


def memory(document: Document) -> dict[str, np.ndarray] | None:
    """Bytes that values take over time: of a statement from its begin to the end of what is around
    it. None where no statement tells its bytes."""
    taken = {at: int(document.statements.get(kind.name, {}).get("taken_bytes") or 0)
             for at, kind in enumerate(document.kinds)}  # fmt: skip
    changes = sorted(_changes(document, taken))
    if not changes:
        return None
    times, steps = np.array(changes, float).T
    total = np.cumsum(steps)
    if len(times) > CELLS:  # the most in each cell
        cells = np.minimum((np.arange(len(times)) * CELLS) // len(times), CELLS - 1)
        first = np.searchsorted(cells, np.arange(CELLS))
        times, total = times[first], np.maximum.reduceat(total, first)
    return {"time": times, "bytes": total}


def _changes(document: Document, taken: dict[int, int]) -> Iterator[tuple[float, int]]:
    _, end = span(document)
    for one in document.slices:
        if taken[one.kind]:
            yield one.start, taken[one.kind]
            yield (document.slices[one.around].end if one.around >= 0 else end), -taken[one.kind]
