# SPDX-License-Identifier: Apache-2.0
"""pto.health(): counts against the text of the graph, findings against programs that have them."""

import re
from collections import Counter

import numpy as np
import pytest

import pto
from pto import _core

F32 = np.float32
ONES = np.ones((6, 8), F32)
LINE = re.compile(r"  %(\w+) = (\w+)(?:\(([^)]*)\))?")


def counts_of(text):
    """(operations, depth, width, fan-in, fan-out) of a graph without bodies, from its text."""
    depth, level, reads, operations, fan_in = {}, Counter(), Counter(), Counter(), 0
    for name, op, operands in LINE.findall(text):
        of = re.findall(r"%(\w+)", operands)
        reads.update(of)
        ahead = max((depth.get(one, 0) for one in of), default=0)
        depth[name] = ahead if op == "constant" else ahead + 1
        if op != "constant":
            operations[op] += 1
            level[ahead] += 1
            fan_in = max(fan_in, len(of))
    made = {name for name, op, _ in LINE.findall(text) if op != "constant"}
    fan_out = max(n for name, n in reads.items() if name in made)
    return dict(operations), max(depth.values()), max(level.values()), fan_in, fan_out


@pytest.mark.parametrize("seed", range(8))
def test_counts_are_those_of_the_graphs_text(seed):
    def random(x, y):
        rng, made = np.random.default_rng(seed), [x, y]
        for _ in range(12):
            a, b = (made[i] for i in rng.integers(0, len(made), 2))
            made.append([a + b, pto.exp(a), pto.amax(a, -1, keepdim=True) * b][rng.integers(3)])
        return sum(made[3:], made[2])

    function = pto.jit(random)
    found = pto.health(function, ONES, ONES)
    want = counts_of(str(function.trace(ONES, ONES)))
    assert (found.operations, found.depth, found.width, found.fan_in, found.fan_out) == want


def kinds(function, *arguments):
    return [one.kind for one in pto.health(function, *arguments).findings]


def test_each_finding_comes_where_its_cause_is_and_goes_with_it():
    def sums(x, out):
        total = pto.zeros([x.shape[1]])
        for i in pto.loop(x.shape[0]):
            total = total + x[i]
        out[0] = total

    def rows(x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = x[i] * 2

    def nested(x, out):
        for j in pto.loop(out.shape[0]):
            total = pto.zeros([x.shape[1]])
            for i in pto.loop(x.shape[0]):
                total = total + x[i]
            out[j] = total

    def repeated(x, out):
        for _ in range(4):
            x = pto.exp(x @ x.transpose(0, 1)) @ x
        out[:] = x

    def once(x, out):
        out[:] = pto.exp(x @ x.transpose(0, 1)) @ x

    def unlimited(x, n, out):
        out[0] = pto.sum(pto.exp(x[: n[0]] @ x.transpose(0, 1)) @ x, 0)

    def limited(x, n, out):
        m = pto.min(x.shape[0], n[0])
        out[0] = pto.sum(pto.exp(x[:m] @ x.transpose(0, 1)) @ x, 0)

    def tiled(tile):
        def function(x):
            pto.set_vec_tile_shapes(1, tile)
            return pto.exp(x)

        return pto.jit(function)

    out, n = np.zeros_like(ONES), np.array([3])
    assert "loop in order" in kinds(pto.jit(sums), ONES, out)
    assert "loop in order" not in kinds(pto.jit(rows), ONES, out)
    assert "loop in order" not in kinds(pto.jit(nested), ONES, out)  # the outer one fills the cores
    assert "equal kernels" in kinds(pto.jit(repeated), ONES, out)
    assert "equal kernels" not in kinds(pto.jit(once), ONES, out)
    assert "size from data" in kinds(pto.jit(unlimited), ONES, n, out)
    assert "size from data" not in kinds(pto.jit(limited), ONES, n, out)
    assert kinds(tiled(3), ONES) == ["tile"] and kinds(tiled(4), ONES) == []


def test_health_gives_the_plans_peak_and_names_lines_and_advice():
    @pto.jit
    def chain(x, out):
        for i in pto.loop(1, x.shape[0]):
            out[i] = out[i - 1] + x[i]
        return pto.exp(x @ x.transpose(0, 1)) @ x

    found = pto.health(chain, ONES, ONES)
    assert found.peak_bytes == chain.explain(ONES, ONES).memory.peak(_core.num_threads()) > 0
    (finding,) = [one for one in found.findings if one.kind == "loop in order"]
    assert "test_health.py:" in finding.line and finding.advice.startswith("read one tensor")
    assert finding.line in str(found) and "advice: " in str(found)
    assert (found.loops, found.products) == (2, 2)  # one loop is that of a product's tiles


def test_health_refuses_what_has_no_program():
    with pytest.raises(pto.Error, match="health: the function is .*\n.*\n  fix: put @pto.jit"):
        pto.health(np.exp, ONES)
