# SPDX-License-Identifier: Apache-2.0
"""Graphs below Dynamo: each step equal to eager, in values, types and strides of all outputs."""

import functools

import pytest
import torch
import torch.nn.functional as F
from compile_cases import assert_same, below_dynamo, by_turns, kinds, run
from torch import arange, randn

import pto.torch
from pto.adapters.torch.compile.plan import ATEN

INF = float("inf")
torch.manual_seed(0)
LENGTHS = torch.rand(2, 1, 5, 5) > 0.3
CASES = {
    "types": (lambda x, i: (x * i + 2, i * 2.5, i / 2, (i > 1) & (i < 5)), (3, 4), arange(4)),
    "sums": (lambda x: (x.sum(), x.sum(0), x.mean(), x.amax(1), x.var(1), x.std(0)), (3, 4)),
    "integers": (lambda i: (i + 1, i.sum(), i // 2, i % 3, ~(i > 2), (i > 2).sum()), arange(7)),
    "conditions": (
        lambda x: ((x > 0).any(), (x > 0).all(1), torch.where(x > 0, x, 0.0), (x > 0) * (x < 1),
                   x.masked_fill(x > 0, -1e9), (x > 0).float()),
        (3, 4),
    ),
    "views of inputs": (
        lambda x: (x.t(), x[1:], x[:, ::2], x[0], x.expand(2, 3, 4), x.t().reshape(-1),
                   x.chunk(2, 1)[1], x.split([1, 2])[1], x.unbind(1)[2], x.diagonal()),
        (3, 4),
    ),
    "views of results": (
        lambda y: (lambda x: (x.t(), x[1:], x[:, ::2], x[0], x.expand(2, 3, 4), x.t().flatten() * 2,
                   x.chunk(2, 1)[1] + 1, x.split([1, 2])[1], x.unbind(1)[2], x.diagonal()))(y * 2),
        (3, 4),
    ),
    "orders of axes": (
        lambda x: (x.permute(2, 0, 1) * 2, (x.permute(2, 0, 1) * 2).contiguous(),
                   x.permute(1, 0, 2).clone(), (x.permute(1, 0, 2) + 1).reshape(6, -1)),
        (2, 3, 4),
    ),
    "channels last": (
        lambda x: (x * 2, x.mean((2, 3)), x.clone(memory_format=torch.contiguous_format) + 1),
        randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ),
    "gaps": (lambda x: (x * 2, x.sum(0), F.layer_norm(x, (2,))), randn(4, 6)[::2, ::3]),
    "repeats": (lambda x: (x * 2, x.sum(0)), randn(1, 6).expand(4, 6)),
    "empty": (lambda x: (x * 2, x.sum(), x.sum(0), x.reshape(0, 2)), (0, 4)),
    "as large as": (lambda x: (x + 1, torch.ones_like(x + 1), -torch.full_like(x * 2, 3)),
                    (3, 4)),
    "numbers": (lambda x, s: (x * s, s + 1, x.sum() * s, s.expand(3) * 2), (3,), torch.tensor(2.5)),
    "wide number": (lambda x, s: x * s, (3,), torch.tensor(2.5, dtype=torch.float64)),
    "half": (lambda x: (x * 2 + 1, x.softmax(-1), x.float().mean(-1)), randn(3, 4).half()),
    "bfloat16": (lambda x, y: (x @ y, F.gelu(x), F.silu(x) * x, F.layer_norm(x, (4,))),
                 randn(3, 4).bfloat16(), randn(4, 5).bfloat16()),
    "products": (
        lambda x, y, b: (x @ y, torch.addmm(b, x, y), torch.addmm(b, x, y, beta=0.5, alpha=2),
                         x.t() @ x, torch.outer(b, b)),
        (3, 4), (4, 5), (5,),
    ),
    "batches of products": (lambda x, y: (x @ y, x.transpose(1, 2) @ x), (2, 3, 4), (2, 4, 5)),
    "products of integers": (
        lambda i, j, b: (i @ j, torch.baddbmm(b, i, j, beta=2.7, alpha=-1.2),
                         torch.baddbmm(b, i, j, beta=0.6, alpha=3)),
        arange(24).view(2, 3, 4), arange(40).view(2, 4, 5), arange(30).view(2, 3, 5),
    ),
    "norms": (
        lambda x, w: (F.layer_norm(x, (4,), w, w), F.group_norm(x.view(2, 4, 6), 2),
                      F.log_softmax(x, 0), torch.logsumexp(x, 1),
                      x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w),
        (12, 4), (4,),
    ),
    "embeddings": (lambda w, i: (F.embedding(i, w), F.embedding(i, w).sum(1), w[i]),
                   (10, 4), torch.randint(0, 10, (2, 3))),
    "negative positions": (lambda w, i: w[i] * 2, (10, 4), torch.tensor([-1, 3])),
    "joined": (lambda x, y: (torch.cat([x * 2, y])[1:] + 1, torch.stack([x, y], 1) * 2,
                             F.pad(x, (1, 2)) * 3), (3, 4), (3, 4)),
    "made": (lambda x: (torch.zeros_like(x) + x, arange(x.shape[0]), x.new_zeros(3),
                        torch.full((2,), 3.0) * x.sum(), torch.tril(torch.ones(4, 4)) * x[0, 0]),
             (3, 4)),
    "inputs among outputs": (lambda x: (x, x.clone(), x + 0), (3, 4)),
    "powers": (lambda x: (x**2, x.abs() ** 0.5, 2**x, x.clamp(-1, 1), x.clamp(min=0), 1 - x, 1 / x),
               (3, 4)),
    "no numbers": (lambda x: (x.isnan(), x.nan_to_num(), x.amax(), x.relu(), torch.maximum(x, -x)),
                   torch.tensor([1.0, float("nan"), INF, -INF])),
    "no axes and no elements": (
        lambda x: (torch.any(x > 0, dim=()), torch.all(x > 0, dim=()), x[:0].var(0)), (3, 4),
    ),
    "order": (lambda x: (x.cumsum(1), torch.sort(x)[0], x.topk(2)[1], x.argmax(1)), (3, 4)),
    "patches of pictures": (
        lambda x, w, b: (F.conv2d(x, w, b, stride=8), F.conv2d(x, w, stride=8) * 2),
        (2, 3, 16, 24), (4, 3, 8, 8), (4,),
    ),
    "patches of sound and of volumes": (
        lambda x, w, y, v: (F.conv1d(x, w, stride=8), F.conv3d(y, v, stride=(2, 3, 8)) + 1),
        (2, 3, 16), (4, 3, 8), (1, 2, 4, 6, 8), (3, 2, 2, 3, 8),
    ),
    "patches that leave out elements": (
        lambda x, w: F.conv2d(x, w, stride=8), (2, 3, 17, 24), (4, 3, 8, 8),
    ),
    "patches of no pictures": (lambda x, w: F.conv2d(x, w, stride=8), (0, 3, 16, 8), (4, 3, 8, 8)),
    "patches of bf16": (lambda x, w: F.conv2d(x, w, stride=8), randn(1, 3, 16, 8).bfloat16(),
                        randn(4, 3, 8, 8).bfloat16()),
    "convolution": (lambda x, w: F.relu(F.conv2d(x, w, padding=1)) + 1, (1, 3, 8, 8), (4, 3, 3, 3)),
    "rotary": (lambda q, c: torch.cat((-q[..., 2:], q[..., :2]), -1) * c + q * c,
               (1, 2, 5, 4), (5, 4)),
    "attention": (
        lambda q, m: (F.scaled_dot_product_attention(q, q, q),
                      F.scaled_dot_product_attention(q, q, q, is_causal=True),
                      F.scaled_dot_product_attention(q, q, q, attn_mask=m)),
        (2, 2, 5, 4), LENGTHS,
    ),
    "attention of one matrix": (
        lambda x: F.scaled_dot_product_attention(
            *(one.view(2, 5, 2, 4).transpose(1, 2) for one in x.split(8, -1))
        ).transpose(1, 2).reshape(2, 5, 8) * 2,
        (2, 5, 24),
    ),
    "sizes from data": (lambda x: (x.nonzero() * 2, x[x > 0] * 2 + 1), (3, 4)),
    "complex": (lambda x: torch.view_as_real(torch.view_as_complex(x) * 2) + 1, (3, 4, 2)),
    "casts": (lambda x: (x.double() * 2, x.int(), x.long() + 1, x.bool(), x.half() * 2), (3, 4)),
    "masks": (lambda x: torch.where(arange(4)[None] <= arange(4)[:, None], x, -INF).softmax(-1),
              (4, 4)),
    "positions alone": (lambda x: (arange(4)[None] - arange(3)[:, None]).abs() * 2 < 3, (3,)),
    "bytes": (lambda x: (x + 1, x.float() / 255, x > 3), arange(8, dtype=torch.uint8)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:var")  # of no elements
@pytest.mark.parametrize("symbolic", (False, True), ids=("numbers", "symbols"))
@pytest.mark.parametrize("name", CASES)
def test_a_graph_equals_eager_in_values_types_and_strides(name, symbolic, deep):
    by_turns(CASES, name, symbolic, deep)
    function, *shapes = CASES[name]
    torch.manual_seed(0)
    args = [randn(one) if isinstance(one, tuple) else one for one in shapes]
    graph = below_dynamo(function, *args, symbolic=symbolic)
    for _ in range(2):  # the second call runs what the first one made
        assert_same(run(graph, *args), function(*args))


ROUNDED = (
    F.softplus, F.logsigmoid, F.celu, torch.sinc, lambda x: torch.lerp(x, x * 2, 0.3),
    lambda x: torch.addcmul(x, x, x, value=0.3), lambda x: torch.hypot(x, x + 1),
)  # fmt: skip


@pytest.mark.parametrize("function", ROUNDED)
def test_formulas_of_several_operations_round_bf16_once(function):
    torch.manual_seed(0)
    x = randn(40, 30).bfloat16()
    graph = below_dynamo(lambda x: function(x), x)
    exact, eager, (found,) = function(x.double()), function(x), run(graph, x)
    assert ATEN not in kinds(graph)
    assert (found.double() - exact).abs().max() <= (eager.double() - exact).abs().max()


def test_patches_that_lie_side_by_side_are_products_of_a_program():
    x, w = randn(2, 3, 16, 24), randn(4, 3, 8, 8)
    embedded = below_dynamo(lambda x, w: F.conv2d(x, w, stride=8).flatten(2) + 1, x, w)
    assert kinds(embedded) == ["program"]
    others = (dict(stride=4), dict(stride=8, padding=1), dict(stride=8, dilation=2))
    for more in others:
        graph = below_dynamo(functools.partial(F.conv2d, **more), x, w)
        assert kinds(graph) == [ATEN] and "oneDNN" in graph.steps[0].reason


def test_positions_beside_floats_keep_their_type():
    x, at = randn(5, 4), torch.tensor([[3], [0], [2], [1], [3]])
    graph = below_dynamo(lambda x, at: x.gather(1, at) * 2, x, at)
    assert kinds(graph) == ["program"]
    assert_same(run(graph, x, at), x.gather(1, at) * 2)


def test_random_numbers_are_those_of_eager():
    def function(x):
        return torch.bernoulli(x), F.rrelu(-x, training=True), F.dropout(x, 0.4)

    graph = below_dynamo(function, x := torch.rand(50))
    torch.manual_seed(5)
    found = run(graph, x)
    torch.manual_seed(5)
    assert_same(found, function(x))


def test_a_graph_of_symbols_runs_other_sizes_without_compiling(monkeypatch):
    def function(x, w, b):
        h = F.layer_norm(F.gelu(F.linear(x, w, b)), (8,))
        return h.transpose(1, 2) * 2, h.flatten(0, 1).sum(0), h[:, 1:] + 1, arange(x.shape[1]) + h

    def inputs(batch):
        return randn(batch, 8, 4), randn(8, 4), randn(8)

    compiled = torch.compile(function, backend="pto", dynamic=True)
    compiled(*inputs(2))
    monkeypatch.setattr("pto._core.compile", lambda *args, **more: pytest.fail("compiles again"))
    with torch.compiler.set_stance("fail_on_recompile"):
        for batch in (3, 5, 17):
            given = inputs(batch)
            assert_same(compiled(*given), function(*given), rtol=1e-3, atol=1e-4)


def test_pointwise_operations_reductions_norms_and_products_are_one_program():
    def function(x, w, b, g):
        h = F.layer_norm(F.gelu(x @ w + b) + x, (8,), g, g)
        return h * torch.sigmoid(h), h.sum(-1)

    graph = below_dynamo(function, randn(4, 8), randn(8, 8), randn(8), randn(8))
    assert kinds(graph) == ["program"]


def test_equal_layers_share_one_program():
    def function(x, *layers):
        for w, b in zip(layers[::2], layers[1::2], strict=True):
            h = F.layer_norm(F.gelu(x @ w + b), (8,)).view(1, 4, 2, 4).transpose(1, 2)
            h = F.scaled_dot_product_attention(h, h, h)
            x = h.transpose(1, 2).reshape(4, 8)
        return x

    layers = [one for _ in range(4) for one in (randn(8, 8), randn(8))]
    graph = below_dynamo(function, randn(4, 8), *layers)
    programs = [step.program for step in graph.steps if step.program is not None]
    assert (
        len(programs) == 4 and len({id(one) for one in programs}) == 2
    )  # the first has no reshape
    assert_same(run(graph, x := randn(4, 8), *layers), function(x, *layers))


def attended(h):
    """Attention that reads the rows of h as heads."""
    rows, width = h.shape
    heads = h.view(1, rows, 2, width // 2).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(rows, width)


READ_IN_OTHER_SHAPES = {
    "by attention": (lambda h: attended(h) * 2, True),
    "by attention and a program": (lambda h: attended(h) + h, False),
    "by attention and the caller": (lambda h: (attended(h), h.view(-1)), False),
    "in two shapes": (lambda h: (torch.sort(h.view(-1))[0], attended(h)), False),
    "by sorting and a program behind it": (
        lambda h: (lambda rows: torch.sort(rows)[0] * 2 + rows)(h.view(3, 16)), False,
    ),
    "by the caller": (lambda h: (h.view(2, 3, 8), h.sum()), True),
    "by the caller in two shapes": (lambda h: (h.view(2, 3, 8), h), False),
    "by sorting": (lambda h: torch.sort(h.view(2, -1, 8).view(-1))[0] + 1, True),
    "by sorting a slice": (lambda h: torch.sort(h[2:4])[0] + 1, True),
    "by sorting every other row": (lambda h: torch.sort(h[::2])[0] + 1, False),
    "in another order": (lambda h: torch.sort(h.t())[0] + 1, False),
}  # fmt: skip


@pytest.mark.parametrize("symbolic", (False, True), ids=("numbers", "symbols"))
@pytest.mark.parametrize("name", READ_IN_OTHER_SHAPES)
def test_a_step_makes_its_results_in_the_shape_in_which_others_read_them(name, symbolic):
    read, is_reshaped = READ_IN_OTHER_SHAPES[name]

    def function(x, w):
        return read(x @ w)

    x, w = randn(6, 8), randn(8, 8)
    graph = below_dynamo(function, x, w, symbolic=symbolic)
    assert bool(graph.replay.shown) == is_reshaped
    if is_reshaped:
        assert not any(word in graph.replay.source for word in ("strided", ".view"))
    assert_same(run(graph, x, w), function(x, w))


def masked(x):
    """Reads a mask of constants alone."""
    mask = torch.where(arange(5)[None] <= arange(5)[:, None], 0.0, -INF)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def test_steps_that_read_no_input_run_once(monkeypatch):
    x = randn(1, 2, 5, 4)
    graph = below_dynamo(masked, x)
    assert kinds(graph) == ["program", "attention"] and graph.replay.once == graph.steps[:1]
    calls = []
    monkeypatch.setattr(type(graph.steps[0].program), "__call__", calls.append, raising=False)
    assert_same(run(graph, x), masked(x))
    assert not calls


def test_explain_says_which_steps_ran_once():
    shown = pto.torch.explain(torch.compile(masked, backend="pto"), randn(1, 2, 5, 4))
    assert [(step.kind, step.us > 0) for step in shown.steps] == [
        ("program", False), ("attention", True)
    ]  # fmt: skip
    assert "ran once" in str(shown)


NOT_ONCE = {
    "what the caller gets": lambda x: (masked(x), torch.where(arange(5) < 3, 0.0, 1.0)),
    "what the caller gets a view of": lambda x: torch.where(arange(6) < 3, 0.0, 1.0).view(2, 3),
    "what a step of ATen writes": lambda x: torch.where(arange(20) < 3, 0.0, 1.0).index_put(
        (torch.tensor([1, 1]),), torch.ones(2), accumulate=True),
    "many megabytes": lambda x: torch.sort(torch.where(arange(300000) < 3, 0.0, 1.0))[0] + x[0, 0],
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_ONCE)
def test_results_that_others_may_change_and_large_ones_are_made_by_each_call(name):
    function, x = NOT_ONCE[name], randn(1, 2, 5, 4)
    if name == "many megabytes":
        x = x.reshape(-1)[None, :1]
    graph = below_dynamo(function, x)
    first = run(graph, x)
    for one in first:
        one.fill_(7)
    wanted = function(x)
    assert_same(run(graph, x), wanted if isinstance(wanted, tuple) else [wanted])


def test_a_mask_whose_size_the_call_tells_is_made_by_each_call():
    def function(x):
        mask = torch.where(arange(x.shape[2])[None] <= arange(x.shape[2])[:, None], 0.0, -INF)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    graph = below_dynamo(function, randn(2, 2, 5, 4), symbolic=True)
    assert not graph.replay.once
    for length in (5, 7, 3):
        x = randn(2, 2, length, 4)
        assert_same(run(graph, x), [function(x)])


def test_a_program_with_more_tensors_than_a_call_takes_is_cut():
    def function(*xs):
        y = xs[0]
        for x in xs[1:]:
            y = torch.tanh(y + x)
        return y

    xs = [randn(4) for _ in range(70)]
    graph = below_dynamo(function, *xs)
    assert kinds(graph) == ["program"] * 3
    assert_same(run(graph, *xs), function(*xs))


def test_what_does_not_compile_runs_in_aten(monkeypatch):
    from pto.graphs.program import GroupProgram

    def refuse(self):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(GroupProgram, "compile_ahead", refuse)
    with pytest.warns(RuntimeWarning, match="1 programs did not compile.*no compiler"):
        graph = below_dynamo(lambda x: torch.tanh(x * 3) + x.sum(), x := randn(5))
    assert set(kinds(graph)) == {ATEN} and "no compiler" in graph.steps[0].reason
    assert_same(run(graph, x), torch.tanh(x * 3) + x.sum())
