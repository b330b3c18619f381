# SPDX-License-Identifier: Apache-2.0
"""Pictures of task graphs: graph.svg(), or a captured graph at the end of a cell.

    rt.capture("attention", args).svg()      # text of an SVG; needs the program dot

A box is a task, with its kernel and the line that submitted it; an arrow leads to a task that waits
for it. In larger graphs a box stands for the tasks of one kernel and line that are about as far
from the begin, counted in tasks; then an arrow has the number of its dependencies, and one back to
its own box says that tasks of the box follow each other.

Thread safety: pure functions.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from pto.errors import InvalidValue
from pto.graphviz import digraph, quoted

MOST_BOXES, MOST_ARROWS = 200, 600


def dot_of(tasks: Sequence[tuple[str, str]], edges: Sequence[tuple[int, int]]) -> str:
    """The graph of tasks, (kernel, site), in Graphviz's language; edges lead to later tasks."""
    for groups in _groupings(tasks, edges):
        if len(set(groups)) > MOST_BOXES:
            continue
        arrows = Counter((groups[a], groups[b]) for a, b in edges)
        if len(arrows) <= MOST_ARROWS:
            return digraph(_statements(groups, arrows, len(groups) > len(set(groups))))
    raise InvalidValue(
        f"a picture of {len(groups)} tasks has more than {MOST_BOXES} boxes or {MOST_ARROWS} "
        "arrows, even with a box a kernel", "nobody could read it",
        "look at rt.report(), or at the page of a trace: its html()",
    )  # fmt: skip


def _groupings(tasks: Sequence[tuple[str, str]], edges: Sequence[tuple[int, int]]
               ) -> Iterator[list[tuple]]:  # fmt: skip
    """For each task its group, (kernel, site, what tells it from others): fewer and fewer."""
    yield [(*task, place) for place, task in enumerate(tasks)]
    depths = [0] * len(tasks)
    for earlier, later in sorted(edges):
        depths[later] = max(depths[later], depths[earlier] + 1)
    rows, deepest = 1, max(depths, default=0)
    while rows <= deepest:
        yield [(*task, depth // rows) for task, depth in zip(tasks, depths, strict=True)]
        rows *= 2
    yield [(*task, 0) for task in tasks]
    yield [(kernel, "", 0) for kernel, _ in tasks]


def _statements(
    groups: list[tuple], arrows: Counter[tuple[tuple, tuple]], has_counts: bool
) -> Iterator[str]:
    names = {}
    for group, count in Counter(groups).items():
        names[group] = quoted(f"task {len(names)}")
        kernel, site, _ = group
        times = f" x {count}" if count > 1 else ""
        texts = (f"{kernel or 'no kernel'}{times}", site.rpartition("/")[2])
        yield f"{names[group]} [label={quoted(chr(10).join(text for text in texts if text))}]"
    for (earlier, later), count in arrows.items():
        label = f" [label={count}]" if has_counts and count > 1 else ""
        yield f"{names[earlier]} -> {names[later]}{label}"
