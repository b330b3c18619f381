# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="pto") of models that write into their inputs and buffers."""

import operator

import pytest
import torch
from compile_cases import assert_same
from torch import fx, nn

import pto.torch  # noqa: F401
from pto.adapters.torch.compile.compiled import graphs
from pto.adapters.torch.compile.mutations import write_in_place
from pto.adapters.torch.compile.plan import name_of

PUT = "aten.index_put_.default"


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def row(cache, at, x):
    """Writes a row, and reads all."""
    cache[:, at] = x * 2
    return (cache + 1).sum(1)


def read_before(cache, at, x):
    old = cache.exp().sum(1)
    cache[:, at] = x
    return old + cache.sum(1)


def read_old_behind(cache, at, x):
    """The product of the old elements may stand behind the write in no order of memory."""
    old = cache.clone()
    cache[:, at] = x
    return old * cache


def two_rows(cache, at, x):
    cache[:, at] = x
    cache[:, at + 1] = cache[:, at] + 3
    return cache.sum(1)


def shifted(cache, at, x):
    """The slices share elements."""
    cache[:, 1:] = cache[:, :-1].clone() + x[:, :-1]
    return cache.sum()


def a_part(cache, at, x):
    cache[:, 2:7].mul_(3)
    return cache.mean(1)


def returned(cache, at, x):
    cache[:, at] = x
    return cache, cache[:, 1:3]


def by_index_copy(cache, at, x):
    cache.index_copy_(1, at, x.expand(4, 2))
    return cache.t() @ x


def masked(cache, at, x):
    cache[cache > 0.5] = 0.0
    return cache.sum(1)


CASES = [row, read_before, read_old_behind, two_rows, shifted, a_part, returned, by_index_copy,
         masked]  # fmt: skip


def arguments(function):
    x = torch.randn(4, 10) if function is shifted else torch.randn(4, 1)
    at = torch.tensor([3, 5]) if function is not two_rows else torch.tensor([3])
    cache = torch.arange(40.0).view(4, 10) / 16
    return cache, at, x.expand(4, 2).clone() if function is by_index_copy else x


@pytest.mark.parametrize("dynamic", (None, True), ids=("captured", "dynamic"))
@pytest.mark.parametrize("function", CASES)
def test_results_and_inputs_are_those_of_eager(function, dynamic):
    run = torch.compile(function, backend="pto", dynamic=dynamic)
    ours, theirs = arguments(function), arguments(function)
    theirs = tuple(x.clone() for x in ours)
    memory = ours[0].data_ptr()
    for _ in range(3):
        found, wanted = run(*ours), function(*theirs)
        assert_same(found, wanted)
        assert_same(list(ours), list(theirs))
    assert ours[0].data_ptr() == memory


def sources():
    return [graph.replay.source for graph in graphs()]


@pytest.mark.parametrize("function", [row, read_before, two_rows, by_index_copy])
def test_few_elements_are_written_in_place(function):
    torch.compile(function, backend="pto")(*arguments(function))
    (steps,) = [[str(step.node.target) for step in graph.steps] for graph in graphs()[-1:]]
    assert PUT in steps and "aten.copy_.default" not in steps
    given = arguments(function)
    wanted = function(*(x.clone() for x in given))
    ours_alone = torch.compile(function, backend="pto", options={"fallback": "error"})
    assert_same(ours_alone(*given), wanted, rtol=1e-5, atol=1e-6)


def test_a_slice_is_written_in_place():
    torch.compile(a_part, backend="pto")(*arguments(a_part))
    names = [name_of(node) for step in graphs()[-1].steps for node in step.nodes]
    assert "copy_" in names and "slice_scatter" not in names


def test_a_write_that_reads_what_it_overwrites_goes_through_a_copy():
    def move(x):
        x[1:] = x[:-1]
        return x + 1

    x = torch.arange(6.0)
    found = torch.compile(move, backend="pto")(x)
    wanted = torch.tensor([0.0, 0, 1, 2, 3, 4])
    assert torch.equal(x, wanted) and torch.equal(found, wanted + 1)


def read_later(view):
    """A graph that writes into its input, and afterwards reads a view of the old elements."""
    aten, graph = torch.ops.aten, fx.Graph()
    cache, at, x = (graph.placeholder(name) for name in ("cache", "at", "x"))
    old = view(graph, aten, cache)
    made = graph.call_function(aten.index_put.default, (cache, [at], x))
    graph.call_function(aten.copy_.default, (cache, made))
    graph.output((graph.call_function(aten.exp.default, (old,)),))
    return graph


VIEWS = {
    "plain": lambda graph, aten, x: x,
    "slice": lambda graph, aten, x: graph.call_function(aten.slice.Tensor, (x, 0, 1)),
    "part": lambda graph, aten, x: graph.call_function(
        operator.getitem, (graph.call_function(aten.split.Tensor, (x, 2)), 0)),
    "unsafe": lambda graph, aten, x: graph.call_function(aten._unsafe_view.default, (x, [-1])),
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_elements_that_are_read_later_are_not_overwritten(view):
    graph = read_later(view)
    write_in_place(graph)
    assert PUT not in [str(node.target) for node in graph.nodes]


def test_a_write_whose_source_is_part_of_what_it_overwrites_is_no_write_in_place():
    aten, graph = torch.ops.aten, fx.Graph()
    cache = graph.placeholder("cache")
    source = graph.call_function(aten.slice.Tensor, (cache, 0, 0, 3))
    made = graph.call_function(aten.slice_scatter.default, (cache, source, 0, 1, 4))
    graph.call_function(aten.copy_.default, (cache, made))
    graph.output(())
    write_in_place(graph)
    assert made in graph.nodes


def test_sums_at_positions_stay_a_step_of_aten():
    def adding(cache, at, x):
        cache.index_put_((torch.tensor([1, 1]),), x, accumulate=True)
        return cache + 1

    given = torch.zeros(4, 2), None, torch.ones(2)
    found = torch.compile(adding, backend="pto")(*given)
    assert torch.equal(found, given[0] + 1) and torch.equal(given[0][1], torch.full((2,), 2.0))
    assert PUT not in [str(step.node.target) for step in graphs()[-1].steps]


class Cached(nn.Module):
    """Attention of one query over the keys so far."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(16, 16), nn.Linear(16, 32)
        self.register_buffer("keys", torch.zeros(1, 2, 12, 8))
        self.register_buffer("values", torch.zeros(1, 2, 12, 8))

    def forward(self, x, at):
        q = self.q(x).view(1, 1, 2, 8).transpose(1, 2)
        k, v = self.kv(x).view(1, 1, 4, 8).transpose(1, 2).chunk(2, 1)
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        seen = (torch.arange(12) <= at)[None]
        return nn.functional.scaled_dot_product_attention(q, self.keys, self.values, seen)


def test_a_decoder_writes_its_caches_row_by_row():
    model, other = Cached().eval().requires_grad_(False), Cached().eval().requires_grad_(False)
    other.load_state_dict(model.state_dict())
    run = torch.compile(model, backend="pto")
    for place in range(12):
        x, at = torch.randn(1, 1, 16), torch.tensor([place])
        torch.testing.assert_close(run(x, at), other(x, at), rtol=1e-5, atol=1e-6)
    assert_same(model.keys, other.keys, rtol=1e-5, atol=1e-6)
    steps = [str(step.node.target) for step in graphs()[-1].steps]
    assert steps.count(PUT) == 2 and "aten.copy_.default" not in steps
