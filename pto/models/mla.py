# SPDX-License-Identifier: Apache-2.0
"""Latent attention of DeepSeek V3.2, up to its scores: queries, and rows of the cache."""

from collections.abc import Callable

from pto.language.control import loop
from pto.language.dtypes import bf16, f32, i32
from pto.language.jit import jit
from pto.language.local import tensor
from pto.language.matrix import matmul
from pto.language.op import op
from pto.language.selection import scatter_update
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.models.formulas import q8, require_shapes, rms_norm, sizes_of, turn


@jit
def head_by_head(x, w):
    """[t, heads, m] of x [t, heads, n] and w [heads, n, m]: the rows of each head times its w."""
    out = tensor([x.shape[0], x.shape[1], w.shape[2]], x.dtype)
    for h in loop(w.shape[0]):
        out[:, h] = matmul(x[:, h], w[h])
    return out


def _halves(pairs: Tensor, shape: tuple) -> tuple[Tensor, Tensor]:
    """The first and the second elements of pairs as f32; they lie beside each other in memory, so
    that what reads them reads runs."""
    halves, half = tensor(shape, pairs.dtype), pairs.shape[-2]
    halves[..., :half], halves[..., half:] = pairs[..., 0], pairs[..., 1]
    return cast(halves[..., :half], f32), cast(halves[..., half:], f32)


def _queries(part: Callable, w_uk: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """(q_nope, q_rope); part(i) has elements i of the queries of each head."""
    (t, rope), (heads, nope, _) = cos.shape, w_uk.shape
    shape = (t, heads, rope)
    pairs = part(slice(nope, None)).reshape(t, heads, rope // 2, 2)
    q_rope = tensor(shape, pairs.dtype)
    turn(*_halves(pairs, shape), cos[:, None], sin[:, None], q_rope)
    return head_by_head(part(slice(0, nope)), w_uk), q_rope


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
        t, heads, columns = _check(
            x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, slots
        )
        pages, page, _, groups = sizes_of("k_scale", k_scale, 4)
        latent, rope = gamma_kv.shape[0], cos.shape[1]
        require_shapes(
            w_uq_qr_scale=(w_uq_qr_scale, (columns,)),
            kv_cache=(kv_cache, (pages, page, 1, latent)),
            kr_cache=(kr_cache, (pages, page, 1, rope)),
            k_scale=(k_scale, (pages, page, 1, groups)),
        )  # fmt: skip
        cos, sin = cast(cos, f32), cast(sin, f32)
        q_norm, row_scale = q8(rms_norm(matmul(x, w_dq), gamma_q))
        sums = matmul(q_norm, w_uq_qr, i32)

        def part(i):
            scales = row_scale.reshape(t, 1, 1), w_uq_qr_scale.reshape(heads, columns // heads)
            found = cast(sums.reshape(t, heads, columns // heads)[..., i], f32)
            return cast(found * scales[0] * scales[1][:, i], bf16)

        q_nope, q_rope = _queries(part, w_uk, cos, sin)
        k_latent, k_rope = _keys(matmul(x, w_dkv_kr), gamma_kv, cos, sin)
        values, new_scale = q8(k_latent.reshape(t, groups, latent // groups))
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
        t, heads, columns = _check(
            x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, slots
        )
        pages, page, *_ = sizes_of("kv_cache", kv_cache, 4)
        latent, rope = gamma_kv.shape[0], cos.shape[1]
        require_shapes(kv_cache=(kv_cache, (pages, page, 1, latent)),
                       kr_cache=(kr_cache, (pages, page, 1, rope)))  # fmt: skip
        cos, sin = cast(cos, f32), cast(sin, f32)
        q_norm = rms_norm(matmul(x, w_dq), gamma_q)
        q = matmul(q_norm, w_uq_qr).reshape(t, heads, columns // heads)
        q_nope, q_rope = _queries(lambda i: q[..., i], w_uk, cos, sin)
        k_latent, k_rope = _keys(matmul(x, w_dkv_kr), gamma_kv, cos, sin)
        caches = _put(kv_cache, slots, k_latent), _put(kr_cache, slots, k_rope)
        return q_nope, q_rope, q_norm, *caches


def _check(x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, slots):
    """States the shapes that both forms have; returns (t, heads, columns of w_uq_qr)."""
    (t, hidden), (_, rank) = sizes_of("x", x, 2), sizes_of("w_dq", w_dq, 2)
    (heads, nope, latent), (_, rope) = sizes_of("w_uk", w_uk, 3), sizes_of("cos", cos, 2)
    columns = heads * (nope + rope)
    require_shapes(
        w_dq=(w_dq, (hidden, rank)), w_uq_qr=(w_uq_qr, (rank, columns)), gamma_q=(gamma_q, (rank,)),
        w_uk=(w_uk, (heads, nope, latent)), w_dkv_kr=(w_dkv_kr, (hidden, latent + rope)),
        gamma_kv=(gamma_kv, (latent,)), cos=(cos, (t, rope)), sin=(sin, (t, rope)),
        slots=(slots, (t,)),
    )  # fmt: skip
    return t, heads, columns
