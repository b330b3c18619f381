# SPDX-License-Identifier: Apache-2.0
"""One layer of DeepSeek V3.2 and one of Qwen3-MoE: operators of pto.models on random weights.

Sizes have the names of transformers' configurations. A layer takes the weights of a module, if
there is one, and else makes its own; `ops` are Ours, or Plain, the same in plain torch.
"""

from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from bench import model_formulas as formulas
from examples.models.pages import Pages
from pto import models, ops

BF16 = torch.bfloat16


@dataclass(frozen=True)
class DeepseekSizes:
    hidden_size: int = 7168
    num_attention_heads: int = 128
    q_lora_rank: int = 1536
    kv_lora_rank: int = 512
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int = 128
    index_n_heads: int = 64
    index_head_dim: int = 128
    index_topk: int = 2048
    n_routed_experts: int = 256
    moe_intermediate_size: int = 2048
    num_experts_per_tok: int = 8
    n_group: int = 8
    topk_group: int = 4
    routed_scaling_factor: float = 2.5
    rope_theta = 10000.0

    def small(self) -> "DeepseekSizes":
        return replace(
            self, hidden_size=256, num_attention_heads=8, q_lora_rank=64, kv_lora_rank=64,
            qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, index_n_heads=8,
            index_head_dim=16, index_topk=64, n_routed_experts=16, moe_intermediate_size=64,
        )  # fmt: skip


@dataclass(frozen=True)
class Qwen3Sizes:
    hidden_size: int = 2048
    num_attention_heads: int = 32
    num_key_value_heads: int = 4
    head_dim: int = 128
    num_experts: int = 128
    moe_intermediate_size: int = 768
    num_experts_per_tok: int = 8
    rope_theta = 1e6

    def small(self) -> "Qwen3Sizes":
        return replace(
            self, hidden_size=256, num_attention_heads=8, num_key_value_heads=2, head_dim=32,
            num_experts=16, moe_intermediate_size=64,
        )  # fmt: skip


class Ours:
    linear = ops.linear
    mla_decode_step_float = models.mla_decode_step_float
    qwen3_attention = models.qwen3_attention
    topk_gate = models.topk_gate
    moe = models.moe
    moe_experts = models.moe_experts


class Plain:
    linear = staticmethod(torch.nn.functional.linear)
    qwen3_attention = staticmethod(formulas.qwen3_attention)
    topk_gate = staticmethod(formulas.topk_gate)
    moe = staticmethod(formulas.moe)
    moe_experts = staticmethod(formulas.moe_experts)

    @staticmethod
    def mla_decode_step_float(
        x: Tensor, *, w_uv: Tensor, w_o: Tensor, scale: float, k: int, **given: Tensor
    ) -> Tensor:
        names = [*signature(models.mla_decode_step_float).parameters][1:-5]
        ordered = [x, *(given[name] for name in names)]
        out = formulas.decode_step_float(formulas, ordered, scale, k)
        return formulas.projected(out, w_uv, w_o)


Operators = type[Ours] | type[Plain]


def random(*shape: int) -> Tensor:
    """bf16, [..., in, out]: numbers that keep the size of what is multiplied by them."""
    return torch.empty(shape, dtype=BF16).normal_(0, shape[-2] ** -0.5)


def normed(x: Tensor, gamma: Tensor) -> Tensor:
    """RMSNorm in f32."""
    return torch.nn.functional.rms_norm(x.float(), gamma.shape, gamma.float(), 1e-6).to(x.dtype)


def angles(sizes: DeepseekSizes | Qwen3Sizes, width: int, place: int) -> tuple[Tensor, Tensor]:
    """(cos, sin) bf16 [1, width] of a token at this place of its sequence."""
    turns = place * sizes.rope_theta ** (-torch.arange(0, width, 2) / width)
    both = torch.cat([turns, turns])[None]
    return both.cos().to(BF16), both.sin().to(BF16)


class Deepseek:
    """Attention over selected keys, then the experts of a gate and a shared one."""

    def __init__(self, sizes: DeepseekSizes, weights: dict[str, Any] | None = None) -> None:
        self.sizes, self.width = sizes, sizes.qk_rope_head_dim
        self.weights = weights or self.random_weights()
        s = sizes
        self.rows = {"kv_cache": (1, s.kv_lora_rank), "kr_cache": (1, s.qk_rope_head_dim),
                     "k_cache": (1, s.index_head_dim)}  # fmt: skip
        self.scale = (s.qk_nope_head_dim + s.qk_rope_head_dim) ** -0.5

    def random_weights(self) -> dict[str, Any]:
        s = self.sizes
        heads, nope, hidden, experts = (
            s.num_attention_heads, s.qk_nope_head_dim, s.hidden_size, s.n_routed_experts,
        )  # fmt: skip
        ones = [torch.ones(n, dtype=BF16) for n in (s.q_lora_rank, s.kv_lora_rank)]
        attention = {
            "w_dq": random(hidden, s.q_lora_rank),
            "w_uq_qr": random(s.q_lora_rank, heads * (nope + s.qk_rope_head_dim)),
            "w_uk": random(heads, nope, s.kv_lora_rank),
            "w_dkv_kr": random(hidden, s.kv_lora_rank + s.qk_rope_head_dim),
            "gamma_q": ones[0], "gamma_kv": ones[1],
            "w_qb": random(s.q_lora_rank, s.index_n_heads * s.index_head_dim),
            "wk": random(hidden, s.index_head_dim), "w_proj": random(hidden, s.index_n_heads),
            "gamma": torch.ones(s.index_head_dim, dtype=BF16),
            "beta": torch.zeros(s.index_head_dim, dtype=BF16),
            "w_uv": random(heads, s.kv_lora_rank, s.v_head_dim),
            "w_o": random(heads * s.v_head_dim, hidden),
        }  # fmt: skip
        return {
            "attention": attention, "norms": [torch.ones(hidden, dtype=BF16) for _ in "ab"],
            "gate": (random(hidden, experts), torch.randn(experts) / 10),
            "experts": (random(experts + 1, hidden, 2 * s.moe_intermediate_size),
                        random(experts + 1, s.moe_intermediate_size, hidden)),
        }  # fmt: skip

    def decode(
        self, ops: Operators, pages: Pages, x: Tensor, turn: tuple[Tensor, Tensor]
    ) -> Tensor:
        """The layer's output for a new token [b, hidden] of each sequence."""
        s, w, b = self.sizes, self.weights, len(x)
        slots, lengths = pages.next(1)
        cos, sin = (one.expand(b, -1).contiguous() for one in turn)
        given = {"cos": cos, "sin": sin, **pages.caches, "slots": slots.flatten(),
                 "lengths": lengths, "table": pages.table, **w["attention"]}  # fmt: skip
        x = x + ops.mla_decode_step_float(
            normed(x, w["norms"][0]), **given, scale=self.scale, k=s.index_topk
        )
        rest = normed(x, w["norms"][1])
        gate, bias = w["gate"]
        weights, indices = ops.topk_gate(
            rest, gate, bias, k=s.num_experts_per_tok, groups=s.n_group,
            best_groups=s.topk_group, scale=s.routed_scaling_factor,
        )  # fmt: skip
        shared = len(w["experts"][0]) - 1  # every token takes the last expert too
        weights = torch.cat([weights, torch.ones(b, 1)], 1)
        indices = torch.cat([indices, torch.full((b, 1), shared)], 1)
        x = x + ops.moe_experts(rest, weights, indices, *w["experts"])
        return x


class Qwen3:
    """Attention with grouped heads, then the experts of a softmax."""

    def __init__(self, sizes: Qwen3Sizes, weights: dict[str, Any] | None = None) -> None:
        self.sizes, self.width = sizes, sizes.head_dim
        self.weights = weights or self.random_weights()
        row = (sizes.num_key_value_heads, sizes.head_dim)
        self.rows = {"keys": row, "values": row}

    def random_weights(self) -> dict[str, Any]:
        s = self.sizes
        heads, inner = s.num_attention_heads * s.head_dim, s.moe_intermediate_size
        rows = [heads, s.num_key_value_heads * s.head_dim, s.num_key_value_heads * s.head_dim]
        return {
            "qkv": [random(s.hidden_size, n).T.contiguous() for n in rows],
            "o": random(heads, s.hidden_size).T.contiguous(),
            "heads": [torch.ones(s.head_dim, dtype=BF16) for _ in "qk"],
            "norms": [torch.ones(s.hidden_size, dtype=BF16) for _ in "ab"],
            "experts": (random(s.hidden_size, s.num_experts),
                        random(s.num_experts, s.hidden_size, 2 * inner),
                        random(s.num_experts, inner, s.hidden_size)),
        }  # fmt: skip

    def decode(
        self, ops: Operators, pages: Pages, x: Tensor, turn: tuple[Tensor, Tensor]
    ) -> Tensor:
        """The layer's output for a new token [b, hidden] of each sequence."""
        w, b = self.weights, len(x)
        slots, lengths = pages.next(1)
        new = normed(x, w["norms"][0])
        q, k, v = (ops.linear(new, one).view(b, 1, -1, self.width) for one in w["qkv"])
        cos, sin = (one.expand(b, 1, -1).contiguous() for one in turn)
        (gamma_q, gamma_k), (keys, values) = w["heads"], pages.caches.values()
        out, _ = ops.qwen3_attention(
            q, k, v, gamma_q, gamma_k, cos, sin, keys, values, slots, pages.table, lengths
        )
        x = x + ops.linear(out.view(b, -1), w["o"])
        rest, (router, up, down) = normed(x, w["norms"][1]), w["experts"]
        x = x + ops.moe(rest, router, up, down, k=self.sizes.num_experts_per_tok)
        return x
