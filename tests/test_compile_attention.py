# SPDX-License-Identifier: Apache-2.0
"""Attention that models write themselves, under the option bits="free"."""

import pytest
import torch
from compile_cases import assert_same, captured, kinds, run
from torch import randn

import pto.torch
from pto.adapters.torch.compile.compiled import CompiledGraph
from pto.adapters.torch.compile.options import Options

torch.manual_seed(0)
Q, K, V = randn(2, 3, 5, 8), randn(2, 3, 6, 8), randn(2, 3, 6, 4)
BIAS, PADDING, CAUSAL = randn(1, 3, 5, 6), randn(2, 1, 1, 6) * 9, randn(5, 6)


def attention(q, k, v, *masks, before=0.3, after=None):
    scores = q @ k.transpose(-1, -2) * before
    for mask in masks:
        scores = scores + mask
    scores = scores if after is None else scores / after
    return scores.softmax(-1) @ v


def heads(x, w):
    """Attention of rows that were split into heads, as models write it."""
    q, k, v = ((x @ w).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)).unbind(0)
    scores = torch.matmul(q, k.transpose(2, 3)) / 2.0
    made = torch.matmul(torch.nn.functional.softmax(scores, dim=-1), v)
    return made.transpose(1, 2).reshape(2, 5, 8) * 2


RECOGNISED = {
    "plain": (attention, Q, K, V),
    "one mask": (attention, Q, K, V, PADDING),
    "several masks": (attention, Q, K, V, BIAS, PADDING, CAUSAL),
    "a mask in front": (
        lambda q, k, v, m: (m + q @ k.transpose(2, 3)).softmax(3) @ v, Q, K, V, BIAS,
    ),
    "a negative scale": (lambda q, k, v: attention(q, k, v, before=-0.7, after=1.5), Q, K, V),
    "heads of a product": (heads, randn(2, 5, 8), randn(8, 24)),
    "shared keys": (lambda q, k, v: attention(q, k[:, :1].expand(2, 3, 6, 8), v), Q, K, V),
    "bf16": (attention, *(x.bfloat16() for x in (Q, K, V, BIAS))),
    "no rows": (attention, Q[:, :, :0], K, V),
}  # fmt: skip
LEFT = {
    "weights that are read": (
        lambda q, k, v: (w := (q @ k.transpose(2, 3)).softmax(-1), w @ v), Q, K, V,
    ),
    "scores that are read": (
        lambda q, k, v: (s := q @ k.transpose(2, 3), s.softmax(-1) @ v), Q, K, V,
    ),
    "a scale behind a mask": (lambda *x: attention(*x, after=2.0), Q, K, V, BIAS),
    "a scale of nothing": (lambda q, k, v: attention(q, k, v, before=0.0), Q, K, V),
    "filled scores": (
        lambda q, k, v, m: (q @ k.transpose(2, 3)).masked_fill(m > 0, -9.0).softmax(-1) @ v,
        Q, K, V, BIAS,
    ),
    "another axis": (lambda q, k, v: (q @ k.transpose(2, 3)).softmax(-2) @ v, Q, K, V),
    "three axes": (attention, Q[0], K[0], V[0]),
    "a sum with a factor": (
        lambda q, k, v, m: torch.add(q @ k.transpose(2, 3), m, alpha=2).softmax(-1) @ v,
        Q, K, V, BIAS,
    ),
    "a softmax on the right": (
        lambda q, k, v: v.transpose(2, 3) @ (k @ q.transpose(2, 3)).softmax(-1), Q, K, V,
    ),
    "f64": (attention, *(x.double() for x in (Q, K, V))),
}  # fmt: skip


def compiled(function, args, bits="free"):
    return CompiledGraph("inference", Options(bits=bits), captured(function, *args), set())


@pytest.mark.parametrize("name", RECOGNISED)
def test_two_products_and_a_softmax_are_attention(name):
    function, *args = RECOGNISED[name]
    graph = compiled(function, args)
    assert "attention" in kinds(graph)
    assert_same(run(graph, *args), [function(*args)])
    assert "attention" not in kinds(compiled(function, args, "fixed"))


def test_attention_of_sizes_that_vary_is_recognised():
    def function(q, k, v, mask):
        return (q @ k.transpose(-1, -2) * 0.3 + mask).softmax(-1) @ v

    free = torch.compile(function, backend="pto", dynamic=True, options={"bits": "free"})
    for rows, keys in ((5, 6), (9, 4), (3, 17)):
        args = randn(2, 3, rows, 8), randn(2, 3, keys, 8), randn(2, 3, keys, 4), randn(rows, keys)
        assert_same(free(*args), function(*args))
    steps = pto.torch.explain(free, *args).steps
    assert "attention" in [step.kind for step in steps]


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_attention_or_is_read_by_others_stays(name):
    function, *args = LEFT[name]
    graph = compiled(function, args)
    assert "attention" not in kinds(graph)
    assert_same(run(graph, *args), function(*args) if name.endswith("read") else [function(*args)])


def test_the_errors_of_a_model_are_within_four_times_those_of_eager():
    pytest.importorskip("transformers", reason="./dev demo installs it")
    import copy

    from compile_architectures import architecture

    torch.manual_seed(0)
    model, inputs = architecture("MPNet")
    model = model.eval().requires_grad_(False)
    free = torch.compile(model, backend="pto", options={"bits": "free"})
    given = inputs(2, 9)
    exact = copy.deepcopy(model).double()(**given)[0]
    errors = [float((one(**given)[0] - exact).abs().max()) for one in (free, model)]
    assert errors[0] <= 4 * errors[1] + 1e-7
