# SPDX-License-Identifier: Apache-2.0
# Written by ./dev docs from the operators' schemas; arrays are those of any library.
from typing import Any

def indexer_prolog(
    x: Any,
    q_norm: Any,
    q_norm_scale: Any,
    w_qb: Any,
    w_qb_scale: Any,
    wk: Any,
    w_proj: Any,
    gamma: Any,
    beta: Any,
    cos: Any,
    sin: Any,
    hadamard_q: Any,
    hadamard_k: Any,
    k_cache: Any,
    k_scale: Any,
    slots: Any,
    *,
    out: Any = ...,
) -> Any:
    """Queries as bytes with a scale each, the weights of their heads, and new keys in the cache."""

def indexer_prolog_float(
    x: Any,
    q_norm: Any,
    w_qb: Any,
    wk: Any,
    w_proj: Any,
    gamma: Any,
    beta: Any,
    cos: Any,
    sin: Any,
    k_cache: Any,
    slots: Any,
    *,
    out: Any = ...,
) -> Any:
    """indexer_prolog without bytes, and so without hadamard matrices, which change no score."""

def mla_prolog(
    x: Any,
    w_dq: Any,
    w_uq_qr: Any,
    w_uq_qr_scale: Any,
    w_uk: Any,
    w_dkv_kr: Any,
    gamma_q: Any,
    gamma_kv: Any,
    cos: Any,
    sin: Any,
    kv_cache: Any,
    kr_cache: Any,
    k_scale: Any,
    slots: Any,
    *,
    out: Any = ...,
) -> Any:
    """Absorbed and turned queries, their latent form as bytes, and new bytes in the caches."""

def mla_prolog_float(
    x: Any,
    w_dq: Any,
    w_uq_qr: Any,
    w_uk: Any,
    w_dkv_kr: Any,
    gamma_q: Any,
    gamma_kv: Any,
    cos: Any,
    sin: Any,
    kv_cache: Any,
    kr_cache: Any,
    slots: Any,
    *,
    out: Any = ...,
) -> Any:
    """mla_prolog without bytes."""

def topk_gate(
    x: Any,
    w: Any,
    bias: Any,
    *,
    k: int = ...,
    groups: int = ...,
    best_groups: int = ...,
    by_two: bool = ...,
    scale: float = ...,
    out: Any = ...,
) -> Any:
    """The k experts of each token with the largest sigmoid(x w) + bias, of its best groups, and
    their sigmoid(x w), divided by its sum, times scale.
    """

def topk_gate_shared(
    x: Any,
    w: Any,
    bias: Any,
    w_gate_up: Any,
    gate_up_scale: Any,
    w_down: Any,
    down_scale: Any,
    *,
    k: int = ...,
    groups: int = ...,
    best_groups: int = ...,
    by_two: bool = ...,
    scale: float = ...,
    out: Any = ...,
) -> Any:
    """topk_gate, and the expert of bytes that every token takes (GLM)."""

def moe(x: Any, w_router: Any, w_gate_up: Any, w_down: Any, *, k: int = ..., out: Any = ...) -> Any:
    """The sum of the k best experts of each token, by their softmax divided by its sum."""

def moe_int8(
    x: Any,
    w_router: Any,
    w_gate_up: Any,
    gate_up_scale: Any,
    w_down: Any,
    down_scale: Any,
    *,
    k: int = ...,
    out: Any = ...,
) -> Any:
    """moe with experts of bytes, a scale for each of their columns; rows become bytes by q8."""

def moe_experts(
    x: Any,
    weights: Any,
    indices: Any,
    w_gate_up: Any,
    w_down: Any,
    *,
    out: Any = ...,
) -> Any:
    """The sum of the experts that a gate chose for each token, with its weights."""

def lightning_indexer(
    q: Any,
    q_scale: Any,
    weights: Any,
    k_cache: Any,
    k_scale: Any,
    lengths: Any,
    table: Any,
    *,
    k: int = ...,
    out: Any = ...,
) -> Any:
    """The k keys of each query with the largest scores, of bytes, as positions in its sequence."""

def lightning_indexer_float(
    q: Any,
    weights: Any,
    k_cache: Any,
    lengths: Any,
    table: Any,
    *,
    k: int = ...,
    out: Any = ...,
) -> Any:
    """lightning_indexer without bytes: scores are sums over heads of weights * relu(q k)."""

def sparse_attention(
    q_nope: Any,
    q_rope: Any,
    kv_cache: Any,
    kr_cache: Any,
    k_scale: Any,
    indices: Any,
    lengths: Any,
    table: Any,
    *,
    scale: float,
    out: Any = ...,
) -> Any:
    """Attention of each query over the selected keys of its sequence, of bytes."""

def sparse_attention_packed(
    q_nope: Any,
    q_rope: Any,
    cache: Any,
    indices: Any,
    lengths: Any,
    table: Any,
    *,
    scale: float,
    out: Any = ...,
) -> Any:
    """sparse_attention whose rows of bytes, scales and turned keys lie one after another."""

def sparse_attention_float(
    q_nope: Any,
    q_rope: Any,
    kv_cache: Any,
    kr_cache: Any,
    indices: Any,
    lengths: Any,
    table: Any,
    *,
    scale: float,
    out: Any = ...,
) -> Any:
    """sparse_attention without bytes."""

def mla_decode_step(
    x: Any,
    w_dq: Any,
    w_uq_qr: Any,
    w_uq_qr_scale: Any,
    w_uk: Any,
    w_dkv_kr: Any,
    gamma_q: Any,
    gamma_kv: Any,
    cos: Any,
    sin: Any,
    w_qb: Any,
    w_qb_scale: Any,
    wk: Any,
    w_proj: Any,
    gamma: Any,
    beta: Any,
    hadamard_q: Any,
    hadamard_k: Any,
    kv_cache: Any,
    kr_cache: Any,
    kv_scale: Any,
    k_cache: Any,
    k_scale: Any,
    slots: Any,
    lengths: Any,
    table: Any,
    w_uv: Any = ...,
    w_o: Any = ...,
    *,
    scale: float,
    k: int = ...,
    out: Any = ...,
) -> Any:
    """Both prologs, attention over the k keys that the indexer selects, new ones included, and the
    projections of values.
    """

def mla_decode_step_float(
    x: Any,
    w_dq: Any,
    w_uq_qr: Any,
    w_uk: Any,
    w_dkv_kr: Any,
    gamma_q: Any,
    gamma_kv: Any,
    cos: Any,
    sin: Any,
    w_qb: Any,
    wk: Any,
    w_proj: Any,
    gamma: Any,
    beta: Any,
    kv_cache: Any,
    kr_cache: Any,
    k_cache: Any,
    slots: Any,
    lengths: Any,
    table: Any,
    w_uv: Any = ...,
    w_o: Any = ...,
    *,
    scale: float,
    k: int = ...,
    out: Any = ...,
) -> Any:
    """mla_decode_step without bytes."""

def gated_delta_rule(
    query: Any,
    key: Any,
    value: Any,
    beta: Any,
    g: Any,
    cu_lengths: Any,
    states: Any,
    *,
    out: Any = ...,
) -> Any:
    """The part of the state that a token's query finds, once the token has changed that state."""

def paged_attention(
    q: Any,
    keys: Any,
    values: Any,
    table: Any,
    lengths: Any,
    k_scale: Any = ...,
    v_scale: Any = ...,
    *,
    scale: float | None = ...,
    out: Any = ...,
) -> Any:
    """softmax(scale q k^T) v over the keys of each sequence, which lie in pages of a cache."""

def qwen3_attention(
    q: Any,
    k: Any,
    v: Any,
    gamma_q: Any,
    gamma_k: Any,
    cos: Any,
    sin: Any,
    keys: Any,
    values: Any,
    slots: Any,
    table: Any,
    lengths: Any,
    *,
    scale: float | None = ...,
    out: Any = ...,
) -> Any:
    """Puts normed, turned keys and values into a paged cache; queries, normed and turned, see the
    keys of their sequence up to their own.
    """
