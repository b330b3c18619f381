# SPDX-License-Identifier: Apache-2.0
"""Entries of graphs of backend="pto", which Dynamo writes, do no more than the graphs need."""

import pytest
import torch
from torch._dynamo import callback_handler, config, utils
from torch._dynamo.backends.registry import lookup_backend

import pto.torch  # noqa: F401 registers the backend

_LABEL = "record_pregraph_bytecode_enter"


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def asked(monkeypatch):
    """The names of the functions that entries call, as they are called."""
    found = []

    def noted(name):
        before = getattr(utils, name)
        return lambda *args: found.append(name) or before(*args)

    for name in ("call_size", _LABEL):
        monkeypatch.setattr(utils, name, noted(name))
    return found


def model(x, weight):
    return (x.reshape(x.shape[0] * x.shape[1]) * 2).sum() + torch.nn.functional.silu(x @ weight)


def inputs(rows, columns=3):
    return torch.randn(rows, columns), torch.randn(columns, 5)


@pytest.mark.parametrize("dynamic", [True, False])
def test_an_entry_asks_no_tensor_for_its_size_and_has_no_label(dynamic, asked):
    run = torch.compile(model, backend="pto", dynamic=dynamic)
    for given in (inputs(2), inputs(7), inputs(4)):
        torch.testing.assert_close(run(*given), model(*given))
    assert asked == []
    assert config.record_runtime_overhead
    assert callback_handler.end_callbacks == []


def test_a_size_is_that_of_its_axis(asked):
    def sizes(x, y):  # a step of ATen takes the number itself
        return torch.kthvalue(x, x.shape[1] // 2 + 1)[0], y * y.shape[2] + y.shape[0]

    run = torch.compile(sizes, backend="pto", dynamic=True)
    for rows, columns, planes in ((2, 3, 5), (7, 4, 6), (4, 9, 2)):
        given = torch.randn(rows, columns), torch.ones(planes, 3, rows + columns)
        torch.testing.assert_close(run(*given), sizes(*given), rtol=0, atol=0)
    assert asked == []


@config.patch(record_runtime_overhead=False)
def test_a_label_that_the_user_leaves_out_stays_out():
    torch.compile(model, backend="pto")(*inputs(2))
    assert not config.record_runtime_overhead


def test_other_backends_keep_their_label(asked):
    torch.compile(model, backend="pto", dynamic=True)(*inputs(2))
    torch._dynamo.reset()
    torch.compile(model, backend="eager", dynamic=True)(*inputs(2))
    assert set(asked) == {"call_size", _LABEL}


def test_a_graph_that_is_captured_while_the_profiler_runs_keeps_its_label(asked):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        torch.compile(model, backend="pto", dynamic=True)(*inputs(2))
    assert asked == [_LABEL]
    assert "Pregraph bytecode" in {event.name for event in seen.events()}


def test_a_backend_around_ours_may_hand_over_another_graph():
    def around(graph, given):
        double = torch.fx.symbolic_trace(lambda x: (x * 2,))
        four = torch.randn(4)
        assert torch.equal(lookup_backend("pto")(double, [four])(four)[0], four * 2)
        return graph.forward

    run = torch.compile(model, backend=around, dynamic=True)
    for given in (inputs(2), inputs(7)):
        torch.testing.assert_close(run(*given), model(*given))


def test_gradients_of_graphs_whose_sizes_their_tensors_tell(asked):
    run = torch.compile(model, backend="pto", dynamic=True)
    for rows in (2, 6):
        given = [x.requires_grad_() for x in inputs(rows)]
        got = torch.autograd.grad(run(*given).square().sum(), given)
        want = torch.autograd.grad(model(*given).square().sum(), given)
        torch.testing.assert_close(got, want)
    assert asked == []


def test_a_size_that_the_user_specialises_on_is_passed(asked):
    x, weight = inputs(8)
    torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda size: size == 8])
    run = torch.compile(model, backend="pto")
    torch.testing.assert_close(run(x, weight), model(x, weight))
    x, weight = inputs(9)
    torch.testing.assert_close(run(x, weight), model(x, weight))
    assert "call_size" in asked


def test_numbers_of_the_call_are_passed_as_before():
    def scaled(x, count):
        return x * count + x.shape[0]

    run = torch.compile(scaled, backend="pto", dynamic=True)
    for rows, count in ((3, 4), (5, 5), (6, 7)):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(run(x, count), scaled(x, count))


def test_sizes_of_an_input_that_the_model_writes():
    def grown(x):
        y = x * x.shape[0]
        x.add_(1)
        return y, x.shape[0]

    run = torch.compile(grown, backend="pto", dynamic=True)
    for rows in (3, 6):
        x = torch.randn(rows, 4)
        mine, theirs = x.clone(), x.clone()
        got, want = run(mine), grown(theirs)
        torch.testing.assert_close(got, want)
        assert torch.equal(mine, theirs)
