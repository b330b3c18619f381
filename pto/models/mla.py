# SPDX-License-Identifier: Apache-2.0
"""Latent attention of DeepSeek V3.2, up to its scores: queries, and rows of the cache."""

from functools import partial

from pto.language.control import loop
from pto.language.dtypes import bf16, f32, i32
from pto.language.jit import jit
from pto.language.local import tensor
from pto.language.matrix import matmul
from pto.language.op import op
from pto.language.selection import scatter_update
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.language.whole import min
from pto.models.formulas import (
    at_once,
    q8,
    require_pairs,
    require_parts,
    require_shapes,
    rms_norm,
    sizes_of,
    turn,
)


@jit
def head_by_head(x, w):
    """[t, heads, m] of x [t, heads, n] and w [heads, n, m]: the rows of each head times its w."""
    out = tensor([x.shape[0], x.shape[1], w.shape[2]], x.dtype)
    for h in loop(x.shape[1]):
        out[:, h] = matmul(x[:, h], w[h])
    return out


def _halves(pairs: Tensor, shape: tuple) -> tuple[Tensor, Tensor]:
    """The first and the second elements of pairs as f32; they lie beside each other in memory, so
    that what reads them reads runs."""
    halves, half = tensor(shape, pairs.dtype), pairs.shape[-2]
    halves[..., :half], halves[..., half:] = pairs[..., 0], pairs[..., 1]
    return cast(halves[..., :half], f32), cast(halves[..., half:], f32)


@jit
def queries(q_norm, row_scale, w, scales, w_uk, cos, sin):
    """(q_nope, q_rope) of rows times w, of floats, or of bytes with scales of rows and columns."""
    (t, rope), (heads, nope, latent) = cos.shape, w_uk.shape
    q_nope = tensor([t, heads, latent], w_uk.dtype)
    q_rope = tensor([t, heads, rope], w_uk.dtype)
    tokens, some = at_once(t, heads)
    groups = (heads + some - 1) // some
    for u in loop((t + tokens - 1) // tokens * groups):
        i, h = u // groups * tokens, u % groups * some
        n, m = min(tokens, t - i), min(some, heads - h)
        mine, own = slice(i, i + n), slice(h, h + m)
        each = nope + rope
        first, wide = h * each, [n, m, each]
        columns = slice(first, first + m * each)
        if scales is None:
            q = matmul(q_norm[mine], w[:, columns]).reshape(wide)
            part = partial(_part, q)
        else:
            sums = matmul(q_norm[mine], w[:, columns], i32).reshape(wide)
            of_rows, of_columns = row_scale[mine], scales[columns]
            part = partial(_scaled, sums, of_rows.reshape(n, 1, 1), of_columns.reshape(wide[1:]))
        pairs = part(slice(nope, None)).reshape(n, m, rope // 2, 2)
        turned = tensor([n, m, rope], pairs.dtype)
        turn(*_halves(pairs, turned.shape), cos[mine][:, None], sin[mine][:, None], turned)
        q_rope[mine, own] = turned
        q_nope[mine, own] = head_by_head(part(slice(0, nope)), w_uk[own])
    return q_nope, q_rope


def _part(q: Tensor, elements: slice) -> Tensor:
    return q[..., elements]


def _scaled(sums: Tensor, of_rows: Tensor, of_columns: Tensor, elements: slice) -> Tensor:
    """Some elements of the queries of heads, from their sums of bytes."""
    return cast(cast(sums[..., elements], f32) * of_rows * of_columns[:, elements], bf16)


def _keys(kv: Tensor, gamma: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """(latent, rope) rows of the cache, of the type of kv."""
    (t, rope), latent = cos.shape, gamma.shape[0]
    k_rope, of_rope = tensor((t, rope), kv.dtype), latent // 2
    pairs = kv.reshape(t, (latent + rope) // 2, 2)
    turn(*(cast(pairs[:, of_rope:, i], f32) for i in (0, 1)), cos, sin, k_rope)
    return rms_norm(kv[:, :latent], gamma), k_rope


def _put(cache: Tensor, slots: Tensor, rows: Tensor) -> Tensor:
    return scatter_update(cache, slots, rows.reshape(rows.shape[0], *cache.shape[2:]))


_WEIGHTS = ("w_dq", "w_uq_qr", "w_uk", "w_dkv_kr")


@op(
    "mla_prolog(Tensor x, Tensor w_dq, Tensor w_uq_qr, Tensor w_uq_qr_scale, Tensor w_uk,"
    " Tensor w_dkv_kr, Tensor gamma_q, Tensor gamma_kv, Tensor cos, Tensor sin,"
    " Tensor(a!) kv_cache, Tensor(b!) kr_cache, Tensor(c!) k_scale, Tensor slots)"
    " -> (Tensor q_nope, Tensor q_rope, Tensor q_norm, Tensor q_norm_scale)"
)
class MlaProlog:
    """Absorbed and turned queries, their latent form as bytes, and new bytes in the caches."""

    types = (
        "(bf16, bf16, i8, f32, bf16, bf16, bf16, bf16, bf16, bf16, i8, bf16, f32, I)"
        " -> (bf16, bf16, i8, f32) where I: i64 i32"
    )
    constants = _WEIGHTS

    def build(
        x, w_dq, w_uq_qr, w_uq_qr_scale, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin,
        kv_cache, kr_cache, k_scale, slots,
    ):  # fmt: skip
        _check(x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, slots)
        pages, page, _, groups = sizes_of("k_scale", k_scale, 4)
        latent, rope = gamma_kv.shape[0], cos.shape[1]
        require_shapes(
            w_uq_qr_scale=(w_uq_qr_scale, (w_uq_qr.shape[1],)),
            kv_cache=(kv_cache, (pages, page, 1, latent)),
            kr_cache=(kr_cache, (pages, page, 1, rope)),
            k_scale=(k_scale, (pages, page, 1, groups)),
        )  # fmt: skip
        require_parts(kv_cache, 3, groups, "the columns of kv_cache, in the groups of k_scale")
        cos, sin = cast(cos, f32), cast(sin, f32)
        q_norm, row_scale = q8(rms_norm(matmul(x, w_dq), gamma_q))
        q_nope, q_rope = queries(q_norm, row_scale, w_uq_qr, w_uq_qr_scale, w_uk, cos, sin)
        k_latent, k_rope = _keys(matmul(x, w_dkv_kr), gamma_kv, cos, sin)
        values, new_scale = q8(k_latent.reshape(x.shape[0], groups, latent // groups))
        caches = (
            _put(kv_cache, slots, values), _put(kr_cache, slots, k_rope),
            _put(k_scale, slots, new_scale),
        )  # fmt: skip
        return q_nope, q_rope, q_norm, row_scale, *caches


@op(
    "mla_prolog_float(Tensor x, Tensor w_dq, Tensor w_uq_qr, Tensor w_uk, Tensor w_dkv_kr,"
    " Tensor gamma_q, Tensor gamma_kv, Tensor cos, Tensor sin,"
    " Tensor(a!) kv_cache, Tensor(b!) kr_cache, Tensor slots)"
    " -> (Tensor q_nope, Tensor q_rope, Tensor q_norm)"
)
class MlaPrologFloat:
    """mla_prolog without bytes."""

    types = "(T, T, T, T, T, T, T, T, T, T, T, I) -> (T, T, T) where T: bf16 f32, I: i64 i32"
    constants = _WEIGHTS

    def build(
        x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, kv_cache, kr_cache, slots
    ):
        _check(x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, slots)
        pages, page, *_ = sizes_of("kv_cache", kv_cache, 4)
        latent, rope = gamma_kv.shape[0], cos.shape[1]
        require_shapes(kv_cache=(kv_cache, (pages, page, 1, latent)),
                       kr_cache=(kr_cache, (pages, page, 1, rope)))  # fmt: skip
        cos, sin = cast(cos, f32), cast(sin, f32)
        q_norm = rms_norm(matmul(x, w_dq), gamma_q)
        q_nope, q_rope = queries(q_norm, None, w_uq_qr, None, w_uk, cos, sin)
        k_latent, k_rope = _keys(matmul(x, w_dkv_kr), gamma_kv, cos, sin)
        caches = _put(kv_cache, slots, k_latent), _put(kr_cache, slots, k_rope)
        return q_nope, q_rope, q_norm, *caches


def _check(x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, slots):
    """States the shapes that both forms have."""
    (t, hidden), (_, rank) = sizes_of("x", x, 2), sizes_of("w_dq", w_dq, 2)
    (heads, nope, latent), (_, rope) = sizes_of("w_uk", w_uk, 3), sizes_of("cos", cos, 2)
    columns = heads * (nope + rope)
    require_shapes(
        w_dq=(w_dq, (hidden, rank)), w_uq_qr=(w_uq_qr, (rank, columns)), gamma_q=(gamma_q, (rank,)),
        w_uk=(w_uk, (heads, nope, latent)), w_dkv_kr=(w_dkv_kr, (hidden, latent + rope)),
        gamma_kv=(gamma_kv, (latent,)), cos=(cos, (t, rope)), sin=(sin, (t, rope)),
        slots=(slots, (t,)),
    )  # fmt: skip
    require_pairs(cos)  # before rows of the cache are made of pairs
    require_parts(gamma_kv, 0, 2, "the latent columns, which are read in pairs")
