# SPDX-License-Identifier: Apache-2.0
"""Architectures of transformers under torch.compile(backend="pto"): results and gradients have at
most twice eager's error against float64.

A run prints, with -s, how many are right.
"""

import copy
import importlib.util

import pytest
import torch
from compile_architectures import ARCHITECTURES, architecture

SIZES = ((2, 7), (3, 12), (1, 5))
QUICK = {False: ("Llama", "ViT"), True: ("FNet",)}  # train: names
NUMBERS_ONLY = {
    **dict.fromkeys(("Swin",), "PyTorch's own capture with symbols for sizes takes minutes"),
}
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs transformers: ./dev demo"
)


class First(torch.nn.Module):
    """A model of which only the first result counts."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **given):
        return self.model(**given)[0]


def outcome(model, run, given, train):
    """The first result, and in training the gradients of all parameters behind it."""
    model.zero_grad()
    with torch.set_grad_enabled(train):
        result = run(**given)
        if not train:
            return {"result": result}
        weights = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).view(result.shape)
        (result * weights.to(result.dtype)).sum().backward()
    found = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    return {"result": result.detach(), **found}


def exact_outcome(model, given, train):
    """As outcome(), of the model in float64."""
    exact = copy.deepcopy(model).double()
    wide = {n: v.double() if v.is_floating_point() else v for n, v in given.items()}
    torch.set_default_dtype(torch.float64)
    try:
        return outcome(exact, exact, wide, train)
    finally:
        torch.set_default_dtype(torch.float32)


def errors(found, exact):
    """The error of the result relative to its largest element, and the largest one of gradients,
    each relative to the largest element of its own and a hundredth of that of all."""
    highest = {name: float(one.abs().max()) for name, one in exact.items()}
    all_highest = max([n for name, n in highest.items() if name != "result"], default=0.0)
    parts = {name: float((found[name].double() - one).abs().max()) for name, one in exact.items()}
    result = parts["result"] / (highest["result"] + 1e-30)
    of = [p / (highest[n] + all_highest / 100 + 1e-30) for n, p in parts.items() if n != "result"]
    return result, max(of, default=0.0)


def layout(x):
    """The type and the strides of axes that have several elements: PyTorch's fake tensors, whose
    promises Inductor and we keep, give other ones than eager where there is one element."""
    return x.dtype, [s for s, n in zip(x.stride(), x.shape, strict=True) if n != 1]


def assert_right(name, train, dynamic, sizes):
    torch.manual_seed(0)
    model, inputs = architecture(name)
    model = First(model.train() if train else model.eval().requires_grad_(False))
    run = torch.compile(model, backend="pto", dynamic=dynamic)
    for batch, length in sizes:
        given = inputs(batch, length)
        before = copy.deepcopy(model.state_dict())
        exact = exact_outcome(model, given, train)
        eager = outcome(model, model, given, train)
        after = copy.deepcopy(model.state_dict())
        model.load_state_dict(before)
        ours = outcome(model, run, given, train)
        assert ours.keys() == eager.keys() == exact.keys()
        for key in ours:
            assert layout(ours[key]) == layout(eager[key]), key
        for error, bound in zip(errors(ours, exact), errors(eager, exact), strict=True):
            assert error <= 2 * bound + 1e-7, (name, batch, length, error, bound)
        for key, wanted in after.items():  # what running statistics became
            torch.testing.assert_close(model.state_dict()[key], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("train", (False, True), ids=("eval", "train"))
@pytest.mark.parametrize("dynamic", (None, True), ids=("captured", "dynamic"))
def test_an_architecture_is_as_right_as_eager(name, train, dynamic, deep):
    if not deep and (name not in QUICK[train] or dynamic is None):
        pytest.skip("a deep test")
    if dynamic and name in NUMBERS_ONLY:
        pytest.skip(NUMBERS_ONLY[name])
    torch._dynamo.reset()
    assert_right(name, train, dynamic, SIZES if deep else SIZES[: 1 if train else 2])
