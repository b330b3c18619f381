# SPDX-License-Identifier: Apache-2.0
"""Functions below a compiled one, in models that PyTorch does not capture whole: small ones on few
elements are left to eager mode."""

from pathlib import Path

import pytest
import torch

import pto.torch


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def small(x):
    return x.sort()[0] * 2


def large(x):
    return ((x * 2 + 1).tanh() - 3).exp()


def model(x):
    for each in (small, large):  # PyTorch does not capture a loop that breaks
        torch._dynamo.graph_break()
        x = each(x)
    return x


def test_a_small_function_below_a_model_is_left_to_eager_mode():
    x = torch.randn(4)
    report = pto.torch.explain(model, x)
    assert [step.kind for step in report.steps] == ["program"]
    (line,) = report.left
    assert line == f"{Path(__file__)}:{small.__code__.co_firstlineno + 1}"
    assert f"eager mode runs, being small: {line}" in str(report)
    torch.testing.assert_close(torch.compile(model, backend="pto")(x), model(x))


def test_a_small_function_that_the_user_compiles_is_a_graph():
    def alone(x):  # a function that was left once stays so, as all that Dynamo skips
        return x.sort()[0] * 2

    report = pto.torch.explain(alone, torch.randn(4))
    assert [step.kind for step in report.steps] == ["ATen", "program"]
    assert report.left == () and "eager mode" not in str(report)


@pytest.mark.parametrize("count, graphs", [(4096, 1), (4097, 2)])
def test_a_small_function_on_many_elements_is_a_graph(count, graphs):
    x = torch.randn(count)
    assert len(pto.torch.explain(model, x).graphs) == graphs
    torch.testing.assert_close(torch.compile(model, backend="pto")(x), model(x))


def test_no_function_is_left_where_every_step_has_to_be_ours():
    run = torch.compile(model, backend="pto", options={"fallback": "error"})
    with pytest.raises(Exception, match="sort would run in ATen"):
        run(torch.randn(4))
