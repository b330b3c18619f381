# SPDX-License-Identifier: Apache-2.0
"""Attention over the keys that an indexer selected, in the latent form of DeepSeek V3.2."""

import math
from typing import Any

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
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.language.whole import min
from pto.models.formulas import (
    bf16_of,
    check_lengths,
    f32_of,
    per_sequence,
    require_parts,
    require_shapes,
    sizes_of,
)

AT_ONCE = 256  # selected keys whose rows are in the second cache until they are scored


def _unpacked(rows: Tensor, latent: Any, groups: Any) -> tuple[Tensor, Tensor, Tensor]:
    """(bytes, scales f32, turned keys bf16) of packed rows: these lie one after another."""
    n, turned = rows.shape[0], latent + groups * 4
    scales = f32_of(rows[:, latent:turned].reshape(n, groups, 4))
    keys = rows[:, turned:]
    return rows[:, :latent], scales, bf16_of(keys.reshape(n, keys.shape[1] // 2, 2))


def _rows_at(cache: Tensor, rows: Tensor) -> Tensor:
    """Rows of a cache, counted over all pages."""
    return cache.reshape(cache.shape[0] * cache.shape[1], cache.shape[3])[rows]


@jit
def attended(q_nope, q_rope, kv, kr, k_scale, groups, indices, table, lengths, page, scale):
    """[t, heads, latent], as q: softmax(scale * q k) v over the selected keys of each query.

    q = [q_nope | q_rope] and k = [v | kr]; kv, kr and k_scale (none: kv is v) are caches. Without
    kr the rows of kv are packed, with `groups` scales.
    """
    t, heads, latent = q_nope.shape
    per = per_sequence(q_nope, lengths)
    require_parts(q_nope, 2, groups, "the latent columns, in the groups of their scales")
    kind, out = q_nope.dtype, zeros([t, heads, latent], q_nope.dtype)
    first_rows = arange(kv.shape[0]) * page  # of each page: one that does not exist has none
    for i in loop(t):
        n, pages = lengths[i // per], table[i // per]
        is_key = (indices[i] >= 0) & (indices[i] < n)
        last = amax(where(is_key, arange(indices.shape[1]) + 1, 0))
        count = min(last, indices.shape[1])  # tells the compiler the most that it can be
        if count > 0:
            chosen = indices[i, count - 1]  # stands for those that are none
            places = cast(where(is_key, indices[i], chosen)[:count], i64)
            rows = first_rows[pages[places // page]] + places % page
            v = tensor([rows.shape[0], groups, latent // groups], kind)
            s = tensor([heads, rows.shape[0]])
            for j in loop((count + (AT_ONCE - 1)) // AT_ONCE):
                first = j * AT_ONCE
                size = min(AT_ONCE, count - first)
                own = rows[first : first + size]
                if kr is None:
                    part, scales, k_rope = _unpacked(_rows_at(kv, own), latent, groups)
                else:
                    part, k_rope = _rows_at(kv, own), _rows_at(kr, own)
                    scales = None if k_scale is None else _rows_at(k_scale, own)
                part = part.reshape(own.shape[0], groups, latent // groups)
                if scales is not None:
                    part = cast(cast(part, f32) * scales[:, :, None], kind)
                v[first : first + size] = part
                k = v[first : first + size].reshape(own.shape[0], latent)
                scores = matmul(q_nope[i], k, f32, b_trans=True)
                scores = scores + matmul(q_rope[i], k_rope, f32, b_trans=True)
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
        caches = kv_cache, kr_cache, k_scale
        return attended(q_nope, q_rope, *caches, groups, indices, table, lengths, page, scale)


@op(
    "sparse_attention_packed(Tensor q_nope, Tensor q_rope, Tensor cache, Tensor indices,"
    " Tensor lengths, Tensor table, *, float scale) -> Tensor"
)
class SparseAttentionPacked:
    """sparse_attention whose rows of bytes, scales and turned keys lie one after another."""

    types = "(bf16, bf16, i8, K, I, J) -> bf16 where K: i32 i64, I: i32 i64, J: i32 i64"

    def build(q_nope, q_rope, cache, indices, lengths, table, scale):
        latent, turned = _check_queries(q_nope, q_rope, indices, lengths, table)
        pages, page, _, row = sizes_of("cache", cache, 4)
        groups = (row - latent - turned * 2) // 4
        require_shapes(cache=(cache, (pages, page, 1, latent + groups * 4 + turned * 2)))
        check_lengths(lengths, table, page)
        return attended(
            q_nope, q_rope, cache, None, None, groups, indices, table, lengths, page, scale
        )


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
        caches = kv_cache, kr_cache, None
        return attended(q_nope, q_rope, *caches, 1, indices, table, lengths, page, scale)


def _check(q_nope, q_rope, kv_cache, kr_cache, indices, lengths, table):
    """States the shapes of queries and of two caches."""
    latent, rope = _check_queries(q_nope, q_rope, indices, lengths, table)
    pages, page, *_ = sizes_of("kv_cache", kv_cache, 4)
    require_shapes(
        kv_cache=(kv_cache, (pages, page, 1, latent)), kr_cache=(kr_cache, (pages, page, 1, rope))
    )
    check_lengths(lengths, table, page)


def _check_queries(q_nope, q_rope, indices, lengths, table):
    """States the shapes that all forms have; returns (latent, rope)."""
    (t, heads, latent), (_, _, rope) = sizes_of("q_nope", q_nope, 3), sizes_of("q_rope", q_rope, 3)
    (b,), (_, most) = sizes_of("lengths", lengths, 1), sizes_of("table", table, 2)
    _, chosen = sizes_of("indices", indices, 2)
    require_shapes(
        q_rope=(q_rope, (t, heads, rope)), indices=(indices, (t, chosen)), table=(table, (b, most))
    )
    return latent, rope
