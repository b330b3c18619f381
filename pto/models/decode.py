# SPDX-License-Identifier: Apache-2.0
"""A decode step of the attention of DeepSeek V3.2 over its caches, as one program."""

from pto.errors import InvalidValue
from pto.language.matrix import matmul
from pto.language.op import op
from pto.language.tensor import Tensor
from pto.models.formulas import check_pages, require_shapes, sizes_of
from pto.models.indexer import (
    IndexerProlog,
    IndexerPrologFloat,
    LightningIndexer,
    LightningIndexerFloat,
)
from pto.models.mla import MlaProlog, MlaPrologFloat, head_by_head
from pto.models.sparse import SparseAttention, SparseAttentionFloat


def _projected(out: Tensor, w_uv: Tensor | None, w_o: Tensor | None) -> Tensor:
    """[t, hidden] of [t, heads, latent]: the values of each head, then what they add to the layer's
    input; without both weights `out` as it is."""
    if (w_uv is None) != (w_o is None):
        raise InvalidValue(
            f"mla_decode_step: {'w_o' if w_uv is None else 'w_uv'} is given alone",
            "values are projected head by head, then all together",
            "pass both w_uv [heads, latent, d] and w_o [heads * d, hidden], or neither",
        )
    if w_uv is None:
        return out
    (t, heads, latent), (_, _, d) = out.shape, sizes_of("w_uv", w_uv, 3)
    _, hidden = sizes_of("w_o", w_o, 2)
    require_shapes(w_uv=(w_uv, (heads, latent, d)), w_o=(w_o, (heads * d, hidden)))
    return matmul(head_by_head(out, w_uv).reshape(t, heads * d), w_o)


@op(
    "mla_decode_step(Tensor x, Tensor w_dq, Tensor w_uq_qr, Tensor w_uq_qr_scale, Tensor w_uk,"
    " Tensor w_dkv_kr, Tensor gamma_q, Tensor gamma_kv, Tensor cos, Tensor sin, Tensor w_qb,"
    " Tensor w_qb_scale, Tensor wk, Tensor w_proj, Tensor gamma, Tensor beta, Tensor hadamard_q,"
    " Tensor hadamard_k, Tensor(a!) kv_cache, Tensor(b!) kr_cache, Tensor(c!) kv_scale,"
    " Tensor(d!) k_cache, Tensor(e!) k_scale, Tensor slots, Tensor lengths, Tensor table,"
    " Tensor? w_uv=None, Tensor? w_o=None, *, float scale, int k=2048) -> Tensor"
)
class MlaDecodeStep:
    """Both prologs, attention over the k keys that the indexer selects, new ones included, and the
    projections of values."""

    types = (
        "(bf16, bf16, i8, f32, bf16, bf16, bf16, bf16, bf16, bf16, i8, f32, bf16, bf16, bf16, bf16,"
        " bf16, bf16, i8, bf16, f32, i8, f16, I, J, K, bf16, bf16) -> bf16"
        " where I: i64 i32, J: i32 i64, K: i32 i64"
    )
    constants = (
        "w_dq", "w_uq_qr", "w_uk", "w_dkv_kr", "w_qb", "wk", "w_proj", "hadamard_q", "hadamard_k",
        "w_uv", "w_o",
    )  # fmt: skip

    def build(
        x, w_dq, w_uq_qr, w_uq_qr_scale, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, w_qb,
        w_qb_scale, wk, w_proj, gamma, beta, hadamard_q, hadamard_k, kv_cache, kr_cache, kv_scale,
        k_cache, k_scale, slots, lengths, table, w_uv, w_o, scale, k,
    ):  # fmt: skip
        q_nope, q_rope, q_norm, q_norm_scale, *latent = MlaProlog(
            x, w_dq, w_uq_qr, w_uq_qr_scale, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin,
            kv_cache, kr_cache, kv_scale, slots,
        )  # fmt: skip
        q, q_scale, weights, *keys = IndexerProlog(
            x, q_norm, q_norm_scale, w_qb, w_qb_scale, wk, w_proj, gamma, beta, cos, sin,
            hadamard_q, hadamard_k, k_cache, k_scale, slots,
        )  # fmt: skip
        indices = LightningIndexer(q, q_scale, weights, *keys, lengths, table, k=k)
        check_pages(lengths, table, k_cache)
        out = SparseAttention(q_nope, q_rope, *latent, indices, lengths, table, scale=scale)
        return _projected(out, w_uv, w_o), *latent, *keys


@op(
    "mla_decode_step_float(Tensor x, Tensor w_dq, Tensor w_uq_qr, Tensor w_uk, Tensor w_dkv_kr,"
    " Tensor gamma_q, Tensor gamma_kv, Tensor cos, Tensor sin, Tensor w_qb, Tensor wk,"
    " Tensor w_proj, Tensor gamma, Tensor beta, Tensor(a!) kv_cache, Tensor(b!) kr_cache,"
    " Tensor(c!) k_cache, Tensor slots, Tensor lengths, Tensor table, Tensor? w_uv=None,"
    " Tensor? w_o=None, *, float scale, int k=2048) -> Tensor"
)
class MlaDecodeStepFloat:
    """mla_decode_step without bytes."""

    types = (
        "(T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, I, J, K, T, T) -> T"
        " where T: bf16 f32, I: i64 i32, J: i32 i64, K: i32 i64"
    )
    constants = (
        "w_dq", "w_uq_qr", "w_uk", "w_dkv_kr", "w_qb", "wk", "w_proj", "w_uv", "w_o",
    )  # fmt: skip

    def build(
        x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, w_qb, wk, w_proj, gamma,
        beta, kv_cache, kr_cache, k_cache, slots, lengths, table, w_uv, w_o, scale, k,
    ):  # fmt: skip
        q_nope, q_rope, q_norm, *latent = MlaPrologFloat(
            x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, kv_cache, kr_cache, slots
        )
        q, weights, keys = IndexerPrologFloat(
            x, q_norm, w_qb, wk, w_proj, gamma, beta, cos, sin, k_cache, slots
        )
        indices = LightningIndexerFloat(q, weights, keys, lengths, table, k=k)
        check_pages(lengths, table, k_cache)
        out = SparseAttentionFloat(q_nope, q_rope, *latent, indices, lengths, table, scale=scale)
        return _projected(out, w_uv, w_o), *latent, keys
