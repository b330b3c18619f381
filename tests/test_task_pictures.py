# SPDX-License-Identifier: Apache-2.0
"""Pictures of task graphs: every task and dependency stands in them, however many there are."""

import itertools
import re
import shutil
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest
from host_cases import In, Out, add

import pto
from pto.graphviz import quoted
from pto.tasks.graph import CapturedGraph
from pto.tasks.picture import MOST_ARROWS, MOST_BOXES, dot_of
from tests.test_runtime_chip import FAN_OUT, FOLDER, SYMBOLS, arguments, runtime

BOX = re.compile(r'^  "task (\d+)" \[label="(.*?)(?: x (\d+))?(?:\\n(.*))?"\]$', re.MULTILINE)
ARROW = re.compile(r'^  "task (\d+)" -> "task (\d+)"(?: \[label=(\d+)\])?$', re.MULTILINE)
needs_dot = pytest.mark.skipif(not shutil.which("dot"), reason="./dev test --site has Graphviz")


def boxes(dot):
    """(kernel, site, tasks) of each box, in order."""
    found = BOX.findall(dot)
    assert [int(number) for number, *_ in found] == list(range(len(found)))
    return [(kernel, site, int(count or 1)) for _, kernel, count, site in found]


def arrows(dot):
    """The dependencies between boxes."""
    return Counter({(int(a), int(b)): int(count or 1) for a, b, count in ARROW.findall(dot)})


def test_a_captured_graph_with_many_arrows_has_a_box_for_equal_tasks():
    kernels = [{"source": FOLDER / "kernels.cpp", "symbol": symbol} for symbol in SYMBOLS]
    package = pto.compile(orch=FOLDER / "programs.cpp", kernels=kernels)
    with runtime(package) as rt:
        args = arguments(FAN_OUT, np.zeros(100, np.int64), np.zeros(64, np.int64))
        graph = rt.capture("programs", args)
        dot = graph.dot()
    found = boxes(dot)
    assert [(kernel, count) for kernel, _, count in found] == [("assign", 100), ("total", 64)]
    assert all(site.startswith("programs.cpp:") for _, site, _ in found)
    assert arrows(dot) == {(0, 1): graph.edges} and graph.edges == 6400


DIAMOND = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args) {
  pto::Orchestration o(rt, args);
  auto x = o.input(0), out = o.output(1);
  auto n = o.scalar(x.numel());
  auto sum = o.tensor(x.shape(), x.dtype()), left = o.tensor(x.shape(), x.dtype()),
       right = o.tensor(x.shape(), x.dtype());
  o.submit("add", {o.out(sum), o.in(x), o.in(x), n});
  o.submit("add", {o.out(left), o.in(sum), o.in(x), n});
  o.submit("add", {o.out(right), o.in(sum), o.in(x), n});
  o.submit("add", {o.out(out), o.in(left), o.in(right), n});
  return 0;
}
"""
FOUR = Counter({(0, 1): 1, (0, 2): 1, (1, 3): 1, (2, 3): 1})


def test_a_diamond_is_one_at_level_chip():
    source = FOLDER.parent.parent / "examples/runtime/vector.cpp"
    x = np.ones(8, np.float32)
    with pto.Runtime(level="chip") as rt:
        rt.register("d", orch=DIAMOND, kernels=[{"source": source, "symbol": "add"}])
        graph = rt.capture("d", [pto.Arg.input(x), pto.Arg.output(x.copy())])
        dot = graph.dot()
    assert arrows(dot) == FOUR
    assert [kernel for kernel, *_ in boxes(dot)] == ["add"] * 4
    lines = [int(site.rpartition(":")[2]) for _, site, _ in boxes(dot)]
    assert lines == [lines[0] + i for i in range(4)]


def chained(ctx, args):
    """A diamond over two devices, and a task that waits for it only by `after`."""
    chip, other = ctx.peers()
    x, y = args
    total, left, right = (ctx.alloc(x.shape) for _ in range(3))
    add(ctx, chip, total, x, x)
    add(ctx, chip, left, total, x)
    add(ctx, other, right, total, x)
    last = add(ctx, chip, y[:8], left, right)
    ctx.submit(other, "total", [In(x), Out(args[1][8:]), *NUMBERS], after=[last])


NUMBERS = [pto.Arg.scalar(1.0), pto.Arg.scalar(2)]


@pytest.mark.parametrize("kind", ["private", "shared"])
def test_a_diamond_is_one_at_level_host(two, kernels, kind):
    import python_kernels

    two.register("d", orch=chained, kernels={**kernels, "total": python_kernels.total})
    x, y = np.ones(8, np.float32), np.zeros(9, np.float32)
    if kind == "shared":
        x, y = (two.alloc(one.shape).numpy() for one in (x, y))
    graph = two.capture("d", (x, y))
    dot = graph.dot()
    found = boxes(dot)
    assert arrows(dot) == FOUR + Counter({(3, 4): 1})
    assert [kernel for kernel, *_ in found] == ["add"] * 4 + ["total"]
    assert all(re.fullmatch(r"\w+\.py:\d+", site) for _, site, _ in found)
    assert dot == two.capture("d", (x, y)).dot()


def paged(requests, pages):
    """Three tasks a page, and one that adds each page to those before: attention by pages."""
    tasks, edges = [], []
    for _ in range(requests):
        for page in range(pages):
            at = len(tasks)
            tasks += [(kernel, f"/folder/a.cpp:{line}") for line, kernel
                      in enumerate(("qk", "softmax", "pv", "update"))]  # fmt: skip
            edges += [(at, at + 1), (at + 1, at + 2), (at + 2, at + 3)]
            edges += [(at - 1, at + 3)] if page else []
    return tasks, edges


def chain(length):
    tasks = [(f"k{i % 3}", f"a.cpp:{i % 3}") for i in range(length)]
    return tasks, [*itertools.pairwise(range(length))]


def layers(count, width):
    """Each task of a layer waits for all of the layer in front."""
    tasks = [("layer", "a.cpp:1")] * (count * width)
    return tasks, [(a + width * layer, b + width * (layer + 1)) for layer in range(count - 1)
                   for a in range(width) for b in range(width)]  # fmt: skip


@pytest.mark.parametrize("tasks, edges", [paged(1000, 16), paged(2, 70), chain(64_000),
                                          chain(200), layers(20, 40), layers(2, 100)])  # fmt: skip
def test_neighbours_merge_with_their_count_and_nothing_is_left_out(tasks, edges):
    dot = dot_of(tasks, edges)
    found, drawn = boxes(dot), arrows(dot)
    assert len(found) <= MOST_BOXES and len(drawn) <= MOST_ARROWS
    assert drawn.total() == len(edges)
    counts = Counter()
    for kernel, site, count in found:
        counts[kernel, site] += count
    assert counts == Counter((kernel, site.rpartition("/")[2]) for kernel, site in tasks)
    between = Counter((tasks[a][0], tasks[b][0]) for a, b in edges)
    assert between == sum((Counter({(found[a][0], found[b][0]): n})
                           for (a, b), n in drawn.items()), Counter())  # fmt: skip


def test_a_small_graph_keeps_each_task():
    dot = dot_of(*chain(MOST_BOXES))
    assert len(boxes(dot)) == MOST_BOXES and set(arrows(dot).values()) == {1}
    assert all(count == 1 for *_, count in boxes(dot))


def test_tasks_of_a_box_are_equally_far_from_the_begin():
    found = boxes(dot_of(*paged(1000, 16)))
    assert found[:3] == [(name, f"a.cpp:{line}", 16_000)
                         for line, name in enumerate(("qk", "softmax", "pv"))]  # fmt: skip
    assert found[3:] == [("update", "a.cpp:3", 1000)] * 16


def test_a_picture_is_as_fine_as_its_limits_allow():
    assert MOST_BOXES / 3 < len(boxes(dot_of(*chain(64_000)))) <= MOST_BOXES


def test_more_lines_than_boxes_are_one_box_a_kernel_and_more_kernels_are_refused():
    tasks = [(f"k{i % 7}", f"a.cpp:{i}") for i in range(1000)]
    assert [(kernel, site) for kernel, site, _ in boxes(dot_of(tasks, []))] == [
        (f"k{i}", "") for i in range(7)
    ]
    with pytest.raises(ValueError, match="a picture of 1000 tasks has more than 200 boxes"):
        dot_of([(f"k{i}", "") for i in range(1000)], [])


HOSTILE = '<script>"\\N"]; a -> b'


@needs_dot
@pytest.mark.parametrize("tasks, edges", [([(HOSTILE, HOSTILE), ("", "")], [(0, 1)]),
                                          paged(1000, 16), chain(64_000)])  # fmt: skip
def test_graphviz_draws_each_box(tasks, edges):
    class Graph(CapturedGraph):
        def __init__(self):
            self._graph = self

        def nodes(self):
            return tasks, edges

    graph = Graph()
    root = ElementTree.fromstring(graph._repr_html_())
    kinds = Counter(one.get("class") for one in root.iter("{http://www.w3.org/2000/svg}g"))
    dot = graph.dot()
    assert kinds["node"] == len(re.findall(r"\[label=\"", dot))
    assert kinds["edge"] == len(arrows(dot)) > 0
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert tasks[0][0] in "".join(texts)
    assert not [*root.iter("{http://www.w3.org/2000/svg}script")]
    assert quoted(HOSTILE) == '"<script>\\"\\\\N\\"]; a -> b"'
