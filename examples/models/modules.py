# SPDX-License-Identifier: Apache-2.0
"""Modules of transformers with operators of pto.models in the place of their forward.

    attention.forward = modules.latent_attention(attention)

The weights are those of the module, laid out for the operators once. A cache is an object of
pages.py instead of transformers' own; without one the tokens are all that there is.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from examples.models.pages import Pages
from pto import models


def columns(layer: nn.Linear) -> Tensor:
    """[in, out]."""
    return layer.weight.detach().T.contiguous()


def indexer_weights(m: Any) -> dict[str, Tensor]:
    """The weights of DeepseekV32Indexer, by the names of indexer_prolog_float."""
    return {
        "w_qb": columns(m.wq_b), "wk": columns(m.wk), "w_proj": columns(m.weights_proj),
        "gamma": m.k_norm.weight.detach(), "beta": m.k_norm.bias.detach(),
    }  # fmt: skip


def latent_weights(m: Any) -> dict[str, Tensor]:
    """The weights of DeepseekV32Attention but its indexer, named as in mla_decode_step_float."""
    nope, rope, heads = m.qk_nope_head_dim, m.qk_rope_head_dim, m.num_heads
    up = m.kv_b_proj.weight.detach().view(heads, nope + m.v_head_dim, m.kv_lora_rank)
    assert m.q_b_proj.out_features == heads * (nope + rope)
    return {
        "w_dq": columns(m.q_a_proj), "w_uq_qr": columns(m.q_b_proj),
        "w_uk": up[:, :nope].contiguous(), "w_dkv_kr": columns(m.kv_a_proj_with_mqa),
        "gamma_q": m.q_a_layernorm.weight.detach(), "gamma_kv": m.kv_a_layernorm.weight.detach(),
        "w_uv": up[:, nope:].mT.contiguous(), "w_o": columns(m.o_proj),
    }  # fmt: skip


def latent_rows(config: Any) -> dict[str, tuple[int, ...]]:
    """The rows of the caches of DeepseekV32Attention."""
    return {
        "kv_cache": (1, config.kv_lora_rank), "kr_cache": (1, config.qk_rope_head_dim),
        "k_cache": (1, config.index_head_dim),
    }  # fmt: skip


def indexer(m: Any) -> Callable[..., Tensor]:
    """The forward of DeepseekV32Indexer: i32 [b, s, k], -1 where a query sees fewer keys."""
    weights = indexer_weights(m)

    def forward(
        hidden_states: Tensor,
        q_resid: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Pages | None = None,
    ) -> Tensor:
        b, s, _ = hidden_states.shape
        rows = {"k_cache": (1, m.head_dim)}
        pages = past_key_values or Pages(b, s, rows, hidden_states.dtype)
        slots, lengths = pages.next(s)
        cos, sin = (x.expand(b, s, -1).flatten(0, 1) for x in position_embeddings)
        q, factors = models.indexer_prolog_float(
            hidden_states.flatten(0, 1), q_resid.flatten(0, 1), **weights, cos=cos, sin=sin,
            k_cache=pages.caches["k_cache"], slots=slots.flatten(),
        )  # fmt: skip
        found: Tensor = models.lightning_indexer_float(
            q, factors, pages.caches["k_cache"], lengths, pages.table, k=m.index_topk
        )
        return found.view(b, s, -1)

    return forward


def latent_attention(m: Any) -> Callable[..., tuple[Tensor, None]]:
    """The forward of DeepseekV32Attention, one program."""
    weights = latent_weights(m) | indexer_weights(m.indexer)

    def forward(
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        past_key_values: Pages | None = None,
        position_ids: Tensor | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        b, s, hidden = hidden_states.shape
        pages = past_key_values or Pages(b, s, latent_rows(m.config), hidden_states.dtype)
        slots, lengths = pages.next(s)
        cos, sin = (x.expand(b, s, -1).flatten(0, 1) for x in position_embeddings)
        out = models.mla_decode_step_float(
            hidden_states.flatten(0, 1), **weights, cos=cos, sin=sin, **pages.caches,
            slots=slots.flatten(), lengths=lengths, table=pages.table,
            scale=m.scaling, k=m.config.index_topk,
        )  # fmt: skip
        return out.view(b, s, hidden), None

    return forward


def qwen3_attention(m: Any) -> Callable[..., tuple[Tensor, None]]:
    """The forward of Qwen3MoeAttention; its projections stay those of the module."""
    groups = m.num_key_value_groups

    def forward(
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        past_key_values: Pages | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        b, s = hidden_states.shape[:2]
        q, k, v = (
            layer(hidden_states).view(b, s, -1, m.head_dim)
            for layer in (m.q_proj, m.k_proj, m.v_proj)
        )
        row = (q.shape[2] // groups, m.head_dim)
        pages = past_key_values or Pages(b, s, {"keys": row, "values": row}, q.dtype)
        slots, lengths = pages.next(s)
        cos, sin = (x.expand(b, s, -1).contiguous() for x in position_embeddings)
        out, _ = models.qwen3_attention(
            q, k, v, m.q_norm.weight, m.k_norm.weight, cos, sin, **pages.caches, slots=slots,
            table=pages.table, lengths=lengths, scale=m.scaling,
        )  # fmt: skip
        return m.o_proj(out.reshape(b, s, -1)), None

    return forward


def expert_weights(m: Any) -> tuple[Tensor, Tensor]:
    """(w_gate_up, w_down) of Qwen3MoeExperts or DeepseekV32Experts."""
    return m.gate_up_proj.detach().mT.contiguous(), m.down_proj.detach().mT.contiguous()


def qwen3_moe(m: Any) -> Callable[[Tensor], Tensor]:
    """The forward of Qwen3MoeSparseMoeBlock, whose router divides weights by their sum."""
    assert m.gate.norm_topk_prob
    router, weights = m.gate.weight.detach().T.contiguous(), expert_weights(m.experts)

    def forward(hidden_states: Tensor) -> Tensor:
        flat = hidden_states.flatten(0, -2)
        out: Tensor = models.moe(flat, router, *weights, k=m.gate.top_k)
        return out.view_as(hidden_states)

    return forward


def router(m: Any) -> Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]:
    """The forward of Glm4MoeTopkRouter and DeepseekV32TopkRouter, which compute in f32."""
    assert m.norm_topk_prob
    weight = m.weight.detach().float().T.contiguous()

    def forward(hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        flat = hidden_states.reshape(-1, m.hidden_dim).float()
        weights, indices = models.topk_gate(
            flat, weight, m.e_score_correction_bias, k=m.top_k, groups=m.num_group,
            best_groups=m.topk_group, scale=float(m.routed_scaling_factor),
        )  # fmt: skip
        return flat @ weight, weights, indices

    return forward


def delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """torch_chunk_gated_delta_rule and torch_recurrent_gated_delta_rule with
    use_qk_l2norm_in_kernel: (out, new state)."""
    b, t, heads, width = value.shape
    states = initial_state
    if states is None:
        states = torch.zeros(b, heads, key.shape[-1], width)
    states, ends = states.float().clone(), torch.arange(b + 1) * t
    q, k, v, factors = (x.flatten(0, 1) for x in (query, key, value, beta))
    out: Tensor = models.gated_delta_rule(q, k, v, factors, g.flatten(0, 1).float(), ends, states)
    return out.view_as(value), states
