# SPDX-License-Identifier: Apache-2.0
"""A decode step of the attention of DeepSeek V3.2 over its caches, as one program."""

from pto.language.op import op
from pto.models.indexer import IndexerProlog, LightningIndexer
from pto.models.mla import MlaProlog
from pto.models.sparse import SparseAttention


@op(
    "mla_decode_step(Tensor x, Tensor w_dq, Tensor w_uq_qr, Tensor w_uq_qr_scale, Tensor w_uk,"
    " Tensor w_dkv_kr, Tensor gamma_q, Tensor gamma_kv, Tensor cos, Tensor sin, Tensor w_qb,"
    " Tensor w_qb_scale, Tensor wk, Tensor w_proj, Tensor gamma, Tensor beta, Tensor hadamard_q,"
    " Tensor hadamard_k, Tensor(a!) kv_cache, Tensor(b!) kr_cache, Tensor(c!) kv_scale,"
    " Tensor(d!) k_cache, Tensor(e!) k_scale, Tensor slots, Tensor lengths, Tensor table, *,"
    " float scale, int k=2048) -> Tensor"
)
class MlaDecodeStep:
    """Both prologs, then attention over the k keys that the indexer selects, new ones included."""

    types = (
        "(bf16, bf16, i8, f32, bf16, bf16, bf16, bf16, bf16, bf16, i8, f32, bf16, bf16, bf16, bf16,"
        " bf16, bf16, i8, bf16, f32, i8, f16, I, J, K) -> bf16"
        " where I: i64 i32, J: i32 i64, K: i32 i64"
    )
    constants = (
        "w_dq", "w_uq_qr", "w_uk", "w_dkv_kr", "w_qb", "wk", "w_proj", "hadamard_q", "hadamard_k",
    )  # fmt: skip

    def build(
        x, w_dq, w_uq_qr, w_uq_qr_scale, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, w_qb,
        w_qb_scale, wk, w_proj, gamma, beta, hadamard_q, hadamard_k, kv_cache, kr_cache, kv_scale,
        k_cache, k_scale, slots, lengths, table, scale, k,
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
        out = SparseAttention(q_nope, q_rope, *latent, indices, lengths, table, scale=scale)
        return out, *latent, *keys
