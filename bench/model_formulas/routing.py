# SPDX-License-Identifier: Apache-2.0
"""The gate of GLM and the experts of Qwen3."""

import torch

from bench.model_formulas.primitives import BF16, q8, random, random_bytes


def gate_arguments(t, experts, hidden=512):
    """Arguments of topk_gate."""
    return [
        torch.randn(t, hidden), torch.randn(hidden, experts) * hidden**-0.5,
        torch.randn(experts) / 10,
    ]  # fmt: skip


def topk_gate(x, w, bias, k=8, groups=1, best_groups=1, by_two=True, scale=1.0):
    scores = (x.float() @ w.float()).sigmoid()
    choice = scores + bias
    grouped = choice.reshape(len(x), groups, -1)
    of_group = grouped.topk(2).values.sum(-1) if by_two else grouped.amax(-1)
    chosen = torch.zeros_like(of_group).scatter(1, of_group.topk(best_groups).indices, 1.0)
    among = grouped.masked_fill(chosen[..., None] == 0, -torch.inf).flatten(1)
    indices = among.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    weights = scores.gather(1, indices)
    return weights / weights.sum(-1, keepdim=True) * scale, indices


def tokens_and_router(t, hidden, experts, k=8):
    """Tokens of which each has a last expert that is the best by more than a rounding."""
    x, router = random(2 * t + 8, hidden), random(hidden, experts, scale=hidden**-0.5)
    best = (x.float() @ router.float()).topk(min(k + 1, experts)).values
    is_clear = best[:, k - 1] - best[:, -1] > 2**-6 * best[:, -1].abs()
    return [x[is_clear][:t], router]


def moe_arguments(t, hidden=256, inner=96, experts=16, k=8):
    """Arguments of moe."""
    return [
        *tokens_and_router(t, hidden, experts, k),
        random(experts, hidden, 2 * inner, scale=hidden**-0.5),
        random(experts, inner, hidden, scale=inner**-0.5),
    ]  # fmt: skip


def moe_experts(x, weights, indices, w_gate_up, w_down):
    """As transformers computes Qwen3MoeExperts, summed in f32."""
    total, inner = torch.zeros(x.shape), w_down.shape[1]
    for e in indices.unique().tolist():
        token, rank = torch.where(indices == e)
        both = x[token] @ w_gate_up[e]
        h = torch.nn.functional.silu(both[:, :inner]) * both[:, inner:]
        total.index_add_(0, token, (h @ w_down[e]).float() * weights[token, rank, None])
    return total.to(x.dtype)


def routed(x, w_router, k):
    best = torch.softmax((x @ w_router).float(), -1).topk(k)
    return best.values / best.values.sum(-1, keepdim=True), best.indices


def moe(x, w_router, w_gate_up, w_down, k=8):
    return moe_experts(x, *routed(x, w_router, k), w_gate_up, w_down)


def random_expert(hidden, inner, *experts):
    """(w_gate_up, gate_up_scale, w_down, down_scale) of bytes."""
    up, down = random_bytes(*experts, hidden, 2 * inner), random_bytes(*experts, inner, hidden)
    scales = (torch.rand(*experts, n) / 100 for n in (2 * inner, hidden))
    return [up, next(scales) * hidden**-0.5, down, next(scales) * inner**-0.5]


def moe_int8_arguments(t, hidden=256, inner=96, experts=16, k=8):
    """Arguments of moe_int8."""
    return [*tokens_and_router(t, hidden, experts, k), *random_expert(hidden, inner, experts)]


def int8_product(rows, row_scale, w, scale):
    return (torch._int_mm(rows, w).float() * row_scale * scale).to(BF16)


def expert_int8(x, w_gate_up, gate_up_scale, w_down, down_scale):
    """SwiGLU of bytes: rows are quantised before each product."""
    both, inner = int8_product(*q8(x), w_gate_up, gate_up_scale), len(w_down)
    h = torch.nn.functional.silu(both[:, :inner]) * both[:, inner:]
    return int8_product(*q8(h), w_down, down_scale)


def moe_int8(x, w_router, w_gate_up, gate_up_scale, w_down, down_scale, k=8):
    weights, indices = routed(x, w_router, k)
    total = torch.zeros(x.shape)
    for e in indices.unique().tolist():
        token, rank = torch.where(indices == e)
        made = expert_int8(x[token], w_gate_up[e], gate_up_scale[e], w_down[e], down_scale[e])
        total.index_add_(0, token, made.float() * weights[token, rank, None])
    return total.to(x.dtype)


def topk_gate_shared(x, w, bias, *expert, **options):
    return *topk_gate(x.to(w.dtype), w, bias, **options), expert_int8(x, *expert)
