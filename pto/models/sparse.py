# SPDX-License-Identifier: Apache-2.0
"""Attention over the keys that an indexer selected, in the latent form of DeepSeek V3.2."""

import math

from pto.language.control import loop
from pto.language.dtypes import f32, i64
from pto.language.elementwise import where
from pto.language.fill import zeros
from pto.language.generated import arange
from pto.language.jit import jit
from pto.language.local import tensor
from pto.language.matrix import matmul
from pto.language.nn import softmax
from pto.language.op import op
from pto.language.reduce import amax
from pto.language.types import cast
from pto.language.whole import min
from pto.models.formulas import check_lengths, per_sequence, require_shapes, sizes_of

AT_ONCE = 256  # selected keys whose rows are in the second cache until they are scored


@jit
def attended(q_nope, q_rope, kv, kr, k_scale, indices, table, lengths, page, scale):
    """[t, heads, latent], as q: softmax(scale * q k) v over the selected keys of each query.

    q = [q_nope | q_rope] and k = [v | kr]; kv, kr and k_scale (none: kv is v) have a row for each
    place of the cache.
    """
    t, heads, latent = q_nope.shape
    per = per_sequence(q_nope, lengths)
    groups = 1 if k_scale is None else k_scale.shape[1]
    kind, out = q_nope.dtype, zeros([t, heads, latent], q_nope.dtype)
    for i in loop(t):
        n, pages = lengths[i // per], table[i // per]
        is_key = (indices[i] >= 0) & (indices[i] < n)
        last = amax(where(is_key, arange(indices.shape[1]) + 1, 0))
        count = min(last, indices.shape[1])  # tells the compiler the most that it can be
        if count > 0:
            chosen = indices[i, count - 1]  # stands for those that are none
            places = cast(where(is_key, indices[i], chosen)[:count], i64)
            rows = cast(pages[places // page], i64) * page + places % page
            v = tensor([rows.shape[0], groups, latent // groups], kind)
            s = tensor([heads, rows.shape[0]])
            for j in loop((count + (AT_ONCE - 1)) // AT_ONCE):
                first = j * AT_ONCE
                size = min(AT_ONCE, count - first)
                own = rows[first : first + size]
                part = kv[own].reshape(own.shape[0], groups, latent // groups)
                if k_scale is not None:
                    part = cast(cast(part, f32) * k_scale[own][:, :, None], kind)
                v[first : first + size] = part
                k = v[first : first + size].reshape(own.shape[0], latent)
                scores = matmul(q_nope[i], k, f32, b_trans=True)
                scores = scores + matmul(q_rope[i], kr[own], f32, b_trans=True)
                is_there = is_key[first : first + size]
                s[:, first : first + size] = where(is_there, scores * scale, -math.inf)
            out[i] = matmul(cast(softmax(s), kind), v.reshape(rows.shape[0], latent))
    return out


@op(
    "sparse_attention(Tensor q_nope, Tensor q_rope, Tensor kv_cache, Tensor kr_cache,"
    " Tensor k_scale, Tensor indices, Tensor lengths, Tensor table, *, float scale) -> Tensor"
)
class SparseAttention:
    """Attention of each query over the selected keys of its sequence, of bytes."""

    types = "(bf16, bf16, i8, bf16, f32, K, I, J) -> bf16 where K: i32 i64, I: i32 i64, J: i32 i64"

    def build(q_nope, q_rope, kv_cache, kr_cache, k_scale, indices, lengths, table, scale):
        pages, page, _, groups = sizes_of("k_scale", k_scale, 4)
        _check(q_nope, q_rope, kv_cache, kr_cache, indices, lengths, table)
        require_shapes(k_scale=(k_scale, (*kv_cache.shape[:3], groups)))
        flat = [x.reshape(pages * page, x.shape[3]) for x in (kv_cache, kr_cache, k_scale)]
        return attended(q_nope, q_rope, *flat, indices, table, lengths, page, scale)


@op(
    "sparse_attention_float(Tensor q_nope, Tensor q_rope, Tensor kv_cache, Tensor kr_cache,"
    " Tensor indices, Tensor lengths, Tensor table, *, float scale) -> Tensor"
)
class SparseAttentionFloat:
    """sparse_attention without bytes."""

    types = "(T, T, T, T, K, I, J) -> T where T: bf16 f32, K: i32 i64, I: i32 i64, J: i32 i64"

    def build(q_nope, q_rope, kv_cache, kr_cache, indices, lengths, table, scale):
        _check(q_nope, q_rope, kv_cache, kr_cache, indices, lengths, table)
        pages, page, *_ = kv_cache.shape
        flat = [x.reshape(pages * page, x.shape[3]) for x in (kv_cache, kr_cache)]
        return attended(q_nope, q_rope, *flat, None, indices, table, lengths, page, scale)


def _check(q_nope, q_rope, kv_cache, kr_cache, indices, lengths, table):
    """States the shapes that both forms have."""
    (t, heads, latent), (_, _, rope) = sizes_of("q_nope", q_nope, 3), sizes_of("q_rope", q_rope, 3)
    (pages, page, *_), (b,) = sizes_of("kv_cache", kv_cache, 4), sizes_of("lengths", lengths, 1)
    (_, chosen), (_, most) = sizes_of("indices", indices, 2), sizes_of("table", table, 2)
    require_shapes(
        q_rope=(q_rope, (t, heads, rope)), kv_cache=(kv_cache, (pages, page, 1, latent)),
        kr_cache=(kr_cache, (pages, page, 1, rope)), indices=(indices, (t, chosen)),
        table=(table, (b, most)),
    )  # fmt: skip
    check_lengths(lengths, table, page)
