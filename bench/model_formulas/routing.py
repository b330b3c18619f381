# SPDX-License-Identifier: Apache-2.0
"""The gate of GLM and the experts of Qwen3."""

import torch

from bench.model_formulas.primitives import random


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


def moe_arguments(t, hidden=256, inner=96, experts=16):
    """Arguments of moe."""
    return [
        random(t, hidden), random(hidden, experts, scale=hidden**-0.5),
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


def moe(x, w_router, w_gate_up, w_down, k=8):
    best = torch.softmax((x @ w_router).float(), -1).topk(k)
    weights = best.values / best.values.sum(-1, keepdim=True)
    return moe_experts(x, weights, best.indices, w_gate_up, w_down)
