# SPDX-License-Identifier: Apache-2.0
"""explain(), trace(), warm(), config.dump: what one can see of a compilation."""

import numpy as np
import torch

import pto
from pto import _core


@pto.jit
def softmax(x):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)


X = torch.zeros(7, 5)


def stages(text):
    parts = text.split("==== ")[1:]
    return {part.split(" ====\n")[0]: part.split(" ====\n")[1] for part in parts}


def test_explain_shows_graph_passes_text_and_the_memory_of_the_result():
    found = stages(softmax.explain(X))
    names = list(found)
    assert names[0] == "graph"
    assert names[-3:] == ["C++", "memory of the result", "products of f32"]
    assert "fuse_regions" in names
    assert "amax(%x)" in found["graph"] and 'test_explain.py":' in found["graph"]
    assert "extern" in found["C++"] and "exp" in found["C++"].lower()
    assert found["memory of the result"].strip() == "output 0: f32[s0, s1], s0 * s1 * 4 bytes"


def test_every_graph_stage_parses_back_and_means_the_same():
    x = np.random.default_rng(1).standard_normal((3, 5), np.float32)
    want = pto.interpret(softmax.trace(x), x)
    for name, text in stages(softmax.explain(x)).items():
        if name in ("C++", "memory of the result", "products of f32"):
            continue
        graph = _core.Graph.parse(text)
        assert _core.Graph.parse(str(graph)) == graph
        np.testing.assert_array_equal(pto.interpret(graph, x), want)


def test_trace_gives_the_graph_of_a_call():
    graph = softmax.trace(X)
    assert graph.name == "softmax"
    assert [(n, d, str(s)) for n, d, s, _ in graph.inputs] == [("x", "f32", "(s0, s1)")]


def test_compiled_code_stays_within_the_bounds_of_the_definition():
    x = np.random.default_rng(2).standard_normal((9, 33), np.float32)
    ((want, bound),) = pto.interpret_with_bounds(softmax.trace(x), x)
    error = np.abs(softmax(x).astype(np.float64) - want)
    assert (error <= bound).all() and 0 < bound.max() < 1e-4


def test_dump_sees_each_stage_of_a_compilation():
    seen = []
    pto.config.dump = lambda stage, text: seen.append(stage)
    try:
        pto.jit(lambda x: x + 1).warm(X)
    finally:
        pto.config.dump = None
    assert seen[0] == "graph" and seen[-1] == "C++"


def test_a_dump_that_raises_stops_the_compilation_with_its_error():
    def broken(stage, text):
        raise LookupError("mine")

    pto.config.dump = broken
    try:
        import pytest

        with pytest.raises(LookupError, match="mine"):
            pto.jit(lambda x: x + 2)(X)
    finally:
        pto.config.dump = None
