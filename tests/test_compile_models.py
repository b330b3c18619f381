# SPDX-License-Identifier: Apache-2.0
"""Whole models under torch.compile(backend="pto"): at most twice eager's error against float64."""

import copy

import pytest
import torch
from compile_cases import assert_same, leaves
from compile_models import MODELS

import pto.torch
from pto.adapters.torch.compile.plan import ATEN

SIZES = ((2, 7), (3, 12), (1, 5))
DYNAMIC = ("t5", "convolutions")  # in the quick run; for the others: test_compile_architectures.py
TRAINED = ("bert", "llama", "convolutions")  # in the quick run
INPUTS = 4  # of each size: the error of a single small one is chance, eager's too


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def wide(value):
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if is_float else value


def assert_as_right_as_eager(model, run, *calls):
    """The largest error of each result over these calls, (args, kwargs), is at most twice eager's,
    plus 1e-7 of the largest value."""
    exact_model = copy.deepcopy(model).double()
    errors = []
    for args, kwargs in calls:
        exact = exact_model(*map(wide, args), **{n: wide(v) for n, v in kwargs.items()})
        found, eager = run(*args, **kwargs), model(*args, **kwargs)
        errors.append([])
        for a, b, c in zip(leaves(found), leaves(eager), leaves(exact), strict=True):
            strides = [s for n, s in zip(a.shape, a.stride(), strict=True) if n != 1]
            assert a.shape == b.shape and a.dtype == b.dtype
            assert strides == [s for n, s in zip(b.shape, b.stride(), strict=True) if n != 1]
            scale = c.abs().max() + 1e-30
            errors[-1].append([float((one.double() - c).abs().max() / scale) for one in (a, b)])
    for of_result in zip(*errors, strict=True):
        error, bound = map(max, zip(*of_result, strict=True))
        assert error <= 2 * bound + 1e-7, (error, bound)


@pytest.mark.parametrize("dynamic", (None, True), ids=("captured", "dynamic"))
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_as_right_as_eager_at_three_sizes(name, dynamic, deep):
    if not deep and dynamic and name not in DYNAMIC:
        pytest.skip("in ./dev test --deep")
    make, inputs = MODELS[name]
    model = make().eval().requires_grad_(False)
    run = torch.compile(model, backend="pto", dynamic=dynamic)
    for batch, length in SIZES:
        calls = [(inputs(batch, length), {}) for _ in range(INPUTS)]
        assert_as_right_as_eager(model, run, *calls)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_a_model_are_those_of_eager(name, deep):
    if not deep and name not in TRAINED:
        pytest.skip("in ./dev test --deep")
    make, inputs = MODELS[name]
    model, given = make().train(), inputs(2, 7)
    other = copy.deepcopy(model)
    run = torch.compile(model, backend="pto")
    for function in (run, other):
        results = leaves(function(*given))
        weights = (torch.linspace(-1, 1, one.numel()).view(one.shape) for one in results)
        sum((one * w).sum() for one, w in zip(results, weights, strict=True)).backward()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            assert_same(a.grad, b.grad, rtol=1e-3, atol=1e-5 * (1 + float(b.grad.abs().max())))


def test_layers_of_a_model_without_convolutions_leave_nothing_to_aten():
    model = MODELS["bert"][0]().eval().requires_grad_(False)
    shown = pto.torch.explain(model, *MODELS["bert"][1](2, 7))
    assert [step.kind for step in shown.steps if step.kind == ATEN] == []
    assert len(shown.steps) <= 6 and shown.graphs[0].has_our_bits
    assert "1 graph, no breaks" in str(shown) and "compile_models.py" in str(shown)


def test_explain_says_why_aten_runs_a_step_and_where():
    model = MODELS["convolutions"][0]().eval().requires_grad_(False)
    shown = pto.torch.explain(model, *MODELS["convolutions"][1](2, 7))
    step = next(one for one in shown.steps if "convolution" in one.operations)
    assert step.kind == ATEN and "oneDNN" in step.why and "compile_models.py" in step.line
    assert not shown.graphs[0].has_our_bits and 0 < shown.share_of_aten() < 1


def test_verify_finds_the_first_step_that_deviates(monkeypatch):
    from pto.adapters.torch.compile import rows

    model = MODELS["llama"][0]().eval().requires_grad_(False)
    args = MODELS["llama"][1](2, 6)
    report = pto.torch.verify(model, *args)
    assert report.is_right and len(report.steps) > 5, report
    torch._dynamo.reset()
    wrong = rows.Row(rows.Kind.POINT, lambda out, x: pto.silu(x) * 1.01)
    monkeypatch.setitem(rows.TABLE, "silu", wrong)
    report = pto.torch.verify(model, *args)
    assert not report.is_right and "silu" in report.first.operations
    assert "DEVIATES" in str(report) and "graph graph_" in str(report)


def test_verify_grants_a_deep_product_its_chain_and_no_more(monkeypatch):
    from pto.adapters.torch.compile import rows

    def product(a, b):
        return a @ b * 2

    deep = torch.rand(16, 4096), torch.rand(4096, 16)
    for a, b in (deep, (torch.full((16, 4096), 0.1), deep[1]), [one.double() for one in deep]):
        torch._dynamo.reset()
        report = pto.torch.verify(product, a, b)
        assert report.is_right, report
    right = rows.TABLE["mm"]
    wrong = rows.Row(right.kind, lambda out, a, b: right.build(out, a, b) * 1.001)
    monkeypatch.setitem(rows.TABLE, "mm", wrong)
    for pair in (deep, [one.double() for one in deep]):
        torch._dynamo.reset()
        report = pto.torch.verify(product, *pair)
        assert not report.is_right and "mm" in report.first.operations


@pytest.mark.parametrize("tool", [pto.torch.verify, pto.torch.explain])
@pytest.mark.parametrize("model", [None, 3, "model"])
def test_what_is_no_model_is_refused(tool, model):
    with pytest.raises(pto.errors.InvalidType, match="the model is .*\n  why: a model is a torch"):
        tool(model, torch.ones(2))


def test_verify_does_not_call_right_what_it_did_not_compare():
    other = torch.compile(lambda x: x + 1, backend="eager")
    assert str(pto.torch.verify(other, torch.ones(2))).startswith("nothing was compared")


def test_verify_names_no_line_where_a_module_of_pytorch_has_it():
    (step,) = pto.torch.verify(torch.nn.Linear(4, 3), torch.randn(2, 4)).steps
    assert str(step).startswith("agrees: addmm: error ")
