# SPDX-License-Identifier: Apache-2.0
"""explain(), trace(), warm(), config.dump: what one can see of a compilation."""

import itertools

import numpy as np
import pytest
import torch

import pto
from pto import _core


@pto.jit
def softmax(x):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)


@pto.jit
def row_sums(x, lengths, out):
    longest = 0
    for i in pto.loop(x.shape[0]):
        n = lengths[i]
        longest = pto.max(longest, n)
        out[i] = pto.sum(x[i, :n])
    return longest * pto.ones([1])


@pto.jit
def attend(q, keys, lengths, out):
    page = keys.shape[1]
    for i in pto.loop(q.shape[0]):
        d, o = pto.zeros([q.shape[1], 1]), pto.zeros([q.shape[1], keys.shape[2]])
        for j in pto.loop((lengths[i] + page - 1) // page):
            k = keys[j, : pto.min(page, lengths[i] - j * page)]
            p = pto.exp(pto.matmul(q[i], k, b_trans=True))
            d, o = d + p.sum(-1, keepdim=True), o + p @ k
        out[i] = o / d


@pto.jit
def chosen(x, limit, out):
    for i in pto.loop(x.shape[0]):
        n = x.shape[1]
        while n > 0 and x[i, n - 1] <= limit[i]:
            n = n - 1
        if n > 0:
            out[i] = x[i, n - 1]
    return pto.sort(pto.cumsum(x, 0)).values @ x.transpose(0, 1)


F32 = np.float32
ONES = np.ones((6, 8), F32)
PROGRAMS = {
    "softmax": (softmax, (ONES,)),
    "row_sums": (row_sums, (ONES, np.ones(6, np.int64), np.zeros(6, F32))),
    "attend": (attend, (np.ones((2, 3, 4), F32), np.ones((5, 8, 4), F32), np.array([9, 20]),
                        np.zeros((2, 3, 4), F32))),
    "chosen": (chosen, (ONES, np.zeros(6, F32), np.zeros(6, F32))),
}  # fmt: skip
NO_GRAPHS = ("steps", "memory of values", "choices", "C++", "memory of the result",
             "products of f32")  # fmt: skip
X = torch.zeros(7, 5)


def stages(text):
    parts = text.split("==== ")[1:]
    return {part.split(" ====\n")[0]: part.split(" ====\n")[1] for part in parts}


def test_explain_shows_graph_passes_text_and_the_memory_of_the_result():
    found = stages(softmax.explain(X))
    names = list(found)
    assert names[0] == "graph"
    assert tuple(names[-6:]) == NO_GRAPHS
    assert "fuse_regions" in names
    assert "amax(%x)" in found["graph"] and 'test_explain.py":' in found["graph"]
    assert "extern" in found["C++"] and "exp" in found["C++"].lower()
    assert found["memory of the result"].strip() == "output 0: f32[s0, s1], s0 * s1 * 4 bytes"


def test_every_graph_stage_parses_back_and_means_the_same():
    x = np.random.default_rng(1).standard_normal((3, 5), np.float32)
    want = pto.interpret(softmax.trace(x), x)
    for name, text in stages(softmax.explain(x)).items():
        if name in NO_GRAPHS:
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
        with pytest.raises(LookupError, match="mine"):
            pto.jit(lambda x: x + 2)(X)
    finally:
        pto.config.dump = None


def graphs_of(found, every):
    """The nodes of the final graph and of the bodies in it, by the number of their block."""
    graphs = {0: _core.nodes_of(found.fused)}
    for block, (owner, body) in enumerate(found.memory.blocks):
        if owner >= 0:
            step = next(step for step in every if step.number == owner)
            graphs[block] = _core.nodes_of(graphs[step.block][step.value]["bodies"][body])
    return graphs


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_node_occurs_in_exactly_one_step(name):
    function, arguments = PROGRAMS[name]
    found = function.explain(*arguments)
    every = list(found.every_step())
    kernels = 0
    for block, nodes in graphs_of(found, every).items():
        steps = [step for step in every if step.block == block]
        wanted = [v for v, node in enumerate(nodes) if node["form"] != "parameter"]
        assert sorted(step.value for step in steps) == wanted
        for step in steps:
            assert (step.kind == "kernel") == (nodes[step.value]["op"] == "fused")
            kernels += step.kind == "kernel"
            if step.kind == "kernel":
                body = _core.nodes_of(nodes[step.value]["bodies"][0])
                assert len(step.operations) == sum(
                    node["form"] not in ("parameter", "constant") for node in body
                )
                assert step.ends and step.name in found.cpp
    assert kernels == str(found.fused).count(" = fused") > 0


def test_the_plan_of_memory_takes_what_a_call_takes():
    n, threads = 512, _core.num_threads()

    @pto.jit
    def chain(a, b, out):
        first = pto.exp(a @ b)
        for i in pto.loop(2):
            out[i] = (first @ a) @ b + first
        return first

    def both(a, b):
        return (a @ b) @ (b @ a) + 1.0

    a = np.full((n, n), 1e-3, F32)
    out = np.zeros((2, n, n), F32)
    _core.set_num_threads(1)
    try:
        for function, arguments in ((chain, (a, a, out)), (pto.jit(both), (a, a))):
            found = function.explain(*arguments)
            returned = 1  # the result that the call itself allocates
            function(*arguments)
            before = _core.memory_stats()["live_bytes"]
            _core.reset_peak_live_bytes()
            function(*arguments)
            taken = _core.memory_stats()["peak_live_bytes"] - before - returned * a.nbytes
            assert found.memory.peak(1) >= a.nbytes
            assert abs(taken - found.memory.peak(1)) < a.nbytes / 2  # products take some, too
    finally:
        _core.set_num_threads(threads)


def test_sizes_from_data_count_with_their_bound_and_without_one_the_peak_is_unknown():
    found = attend.explain(*PROGRAMS["attend"][1])
    rows, page, width = 3, 8, 4
    carried, body = rows * width + rows, 2 * rows * page + rows + rows * width
    assert found.memory.peak(1) == 4 * (carried + body)

    @pto.jit
    def unknown(x, n):
        kept = pto.exp(x[: n[0]] @ x.transpose(0, 1))
        return pto.sum(kept @ x, 0)

    found = unknown.explain(ONES, np.array([3]))
    assert found.memory.peak(1) is None and "sizes without a bound: s" in found


def loops_of(function, *arguments):
    return function.explain(*arguments).steps_of("loop")


def test_loops_say_how_their_iterations_run_and_why():
    def rows(x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = x[i] * 2

    def sums(x, out):
        total = pto.zeros([8])
        for i in pto.loop(x.shape[0]):
            total = total + x[i]
        out[0] = total

    def shifted(x, out):
        for i in pto.loop(1, x.shape[0]):
            out[i] = out[i - 1] + x[i]

    for body, order, why in (
        (rows, "side by side", ""),
        (sums, "in order", "'total' is computed from the iteration before"),
        (shifted, "in order", "the body reads 'out', into which it writes"),
    ):
        (loop,) = loops_of(pto.jit(body), ONES, np.zeros_like(ONES))
        assert (loop.order, loop.why) == (order, why)
        assert loop.trips == 6 - (body is shifted)
        assert bool(why) == ("test_explain.py:" in loop.why_line)


def test_a_loop_over_rows_and_columns_writes_apart():
    @pto.jit
    def parts(x, out):
        columns = x.shape[1]
        for i in pto.loop(x.shape[0] * columns):
            out[i // columns, i % columns] = x[i // columns, i % columns] * 2

    @pto.jit
    def blocks(x, out):
        rows, columns = x.shape
        for i in pto.loop((rows + 3) // 4 * ((columns + 2) // 3)):
            row, column = i // ((columns + 2) // 3) * 4, i % ((columns + 2) // 3) * 3
            part = x[
                row : row + pto.min(4, rows - row), column : column + pto.min(3, columns - column)
            ]
            out[row : row + part.shape[0], column : column + part.shape[1]] = part * 2

    for function, x in itertools.product((parts, blocks), (ONES, ONES[:, :1].copy())):
        out = np.zeros_like(x)
        assert [one.order for one in loops_of(function, x, out)] == ["side by side"]
        function(x, out)
        np.testing.assert_array_equal(out, x * 2)


def test_hints_are_choices_of_the_user_and_tiles_of_the_model():
    @pto.jit
    def labelled(x):
        pto.set_vec_tile_shapes(1, 8)
        pto.set_semantic_label("twice")
        return x * 2

    found = labelled.explain(ONES)
    by = {one.what: one for one in found.choices}
    assert by["vec_tile"].by == "user" and by["vec_tile"].value == "[1, 8]"
    assert "test_explain.py:" in by["vec_tile"].line and by["vec_tile"].used.startswith("yes: ")
    assert by["tiles of labelled_0"].by == "model"
    assert 'kernel labelled_0 "twice": ' in found
    assert found.levels["graph"] == str(found.graph).rstrip()


def test_an_unknown_kind_of_step_is_an_error_with_those_that_exist():
    found = pto.jit(lambda x: pto.sort(pto.exp(x)).values).explain(np.ones((4, 4), "f4"))
    assert len(found.steps_of("kernel")) == 1 and not found.steps_of("loop")
    assert all(found.steps_of(one.kind) for one in found.every_step())
    with pytest.raises(ValueError, match="steps_of: .* 'kernal'\n.*did you mean kernel"):
        found.steps_of("kernal")
    with pytest.raises(ValueError, match="known names are .*kernel, loop.*, product, .*while"):
        found.steps_of(3)


def numbers(shape):
    return np.random.default_rng(7).standard_normal(shape).astype("f4")


def test_steps_that_differ_in_sizes_and_values_alone_share_a_kernel():
    @pto.jit
    def rounds(x, y, z):
        for i in pto.loop(x.shape[0], unroll_list=[4, 2, 1]):
            x[i] = pto.maximum(x[i], y[i]) * 2
        y = pto.cumsum(pto.maximum(y, x) + 1, 0)
        return y, pto.cumsum(pto.maximum(z, z * 3) + 1, 0), pto.maximum(z, z * 3) - 1

    x, y, z = (numbers((n, 9)) for n in (7, 7, 5))
    found = rounds.explain(x.copy(), y, z)
    kernels = [step.name for step in found.steps_of("kernel")]
    text = found.cpp
    for name in kernels:
        assert text.count(f" {name}(const pto_args* args) {{") == 1
    bodies = [part.partition("\n")[2] for part in text.split("static int32_t ")[1:]]
    assert len(set(bodies)) == len(bodies) == len(set(kernels)) < len(kernels)
    want = np.maximum(x, y) * 2
    got, other, less = rounds(x, y, z)
    np.testing.assert_array_equal(x, want)
    np.testing.assert_allclose(got, np.cumsum(np.maximum(y, want) + 1, 0), rtol=1e-6)
    np.testing.assert_allclose(other, np.cumsum(np.maximum(z, z * 3) + 1, 0), rtol=1e-6)
    np.testing.assert_array_equal(less, np.maximum(z, z * 3) - 1)


def test_only_blocks_that_take_memory_give_some_back():
    @pto.jit
    def steps(x, n, out):
        count = n[0]
        for i in pto.loop(x.shape[0]):
            if n[i] > 1:
                count = count + i
            else:
                out[i] = pto.cumsum(x[i] * 2, 0)
        return count * pto.ones([1])

    x, n = numbers((4, 6)), np.array([1, 2, 1, 3])
    text = steps.explain(x, n, x.copy()).cpp
    assert text.count("const Scope ") == 1
    assert text.index("else {") < text.index("const Scope ") < text.index("take<")
