# SPDX-License-Identifier: Apache-2.0
"""The indexer of DeepSeek V3.2: what selects the keys that its attention reads."""

from collections.abc import Callable
from typing import Any

from pto.language.control import loop
from pto.language.dtypes import bf16, f16, f32, i8, i32
from pto.language.elementwise import relu
from pto.language.fill import full
from pto.language.jit import jit
from pto.language.local import tensor
from pto.language.matrix import matmul
from pto.language.op import op
from pto.language.ordering import topk
from pto.language.reduce import sum
from pto.language.selection import scatter_update
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.language.whole import max, min
from pto.models.formulas import (
    at_once,
    check_lengths,
    check_number,
    layer_norm,
    per_sequence,
    q8,
    require_shapes,
    rsqrt_of,
    sizes_of,
    turn,
)


def _turned(v: Callable, shape: tuple, cos: Tensor, sin: Tensor) -> Tensor:
    """v, whose parts `v(slice)` gives, with its first elements turned, of this shape."""
    rope: Any = cos.shape[-1]
    cos.trace.here().guard_equal(
        max(rope, shape[-1]), shape[-1], "the columns of a head, of which cos turns the first"
    )
    rest = v(slice(rope, None))
    turned = tensor(shape, rest.dtype)
    first, second = (cast(v(part), f32) for part in (slice(0, rope // 2), slice(rope // 2, rope)))
    turn(first, second, cos, sin, turned)
    turned[..., rope:] = rest
    return turned


def _rotated(v: Callable, shape: tuple, cos: Tensor, sin: Tensor, hadamard: Tensor) -> Tensor:
    """_turned times hadamard."""
    turned = _turned(v, shape, cos, sin)
    return matmul(turned.reshape(-1, shape[-1]), hadamard).reshape(shape)


@jit
def queries(q_norm, q_norm_scale, w_qb, w_qb_scale, cos, sin, hadamard):
    """(i8 [t, heads, width], f32 [t, heads, 1]): q8 of the turned and rotated queries."""
    t, width = q_norm.shape[0], hadamard.shape[0]
    heads = w_qb.shape[1] // width
    q, q_scale = tensor([t, heads, width], i8), tensor([t, heads, 1], f32)
    tokens, some = at_once(t, heads)
    groups = (heads + some - 1) // some
    for u in loop((t + tokens - 1) // tokens * groups):
        i, h = u // groups * tokens, u % groups * some
        n, m = min(tokens, t - i), min(some, heads - h)
        first = h * width
        rows, columns = slice(i, i + n), slice(first, first + m * width)
        sums = matmul(q_norm[rows], w_qb[:, columns], i32).reshape(n, m, width)
        row_scale = q_norm_scale[rows].reshape(n, 1, 1)
        scales = w_qb_scale[columns].reshape(m, width)

        def q_part(part, sums=sums, row_scale=row_scale, scales=scales):
            return cast(cast(sums[..., part], f32) * row_scale * scales[:, part], bf16)

        angles = cos[rows][:, None], sin[rows][:, None]
        found = q8(_rotated(q_part, (n, m, width), *angles, hadamard))
        q[rows, h : h + m], q_scale[rows, h : h + m] = found
    return q, q_scale


@op(
    "indexer_prolog(Tensor x, Tensor q_norm, Tensor q_norm_scale, Tensor w_qb, Tensor w_qb_scale,"
    " Tensor wk, Tensor w_proj, Tensor gamma, Tensor beta, Tensor cos, Tensor sin,"
    " Tensor hadamard_q, Tensor hadamard_k, Tensor(a!) k_cache, Tensor(b!) k_scale, Tensor slots)"
    " -> (Tensor q, Tensor q_scale, Tensor weights)"
)
class IndexerProlog:
    """Queries as bytes with a scale each, the weights of their heads, and new keys in the cache."""

    types = (
        "(bf16, i8, f32, i8, f32, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, i8, f16, I)"
        " -> (i8, f16, f16) where I: i64 i32"
    )
    constants = ("w_qb", "wk", "w_proj", "hadamard_q", "hadamard_k")

    def build(
        x, q_norm, q_norm_scale, w_qb, w_qb_scale, wk, w_proj, gamma, beta, cos, sin,
        hadamard_q, hadamard_k, k_cache, k_scale, slots,
    ):  # fmt: skip
        (t, hidden), (_, rank) = sizes_of("x", x, 2), sizes_of("q_norm", q_norm, 2)
        (_, width), (_, heads) = sizes_of("wk", wk, 2), sizes_of("w_proj", w_proj, 2)
        (_, rope), (pages, page, *_) = sizes_of("cos", cos, 2), sizes_of("k_cache", k_cache, 4)
        require_shapes(
            q_norm=(q_norm, (t, rank)), q_norm_scale=(q_norm_scale, (t, 1)),
            w_qb=(w_qb, (rank, heads * width)), w_qb_scale=(w_qb_scale, (heads * width,)),
            wk=(wk, (hidden, width)), w_proj=(w_proj, (hidden, heads)), gamma=(gamma, (width,)),
            beta=(beta, (width,)), cos=(cos, (t, rope)), sin=(sin, (t, rope)),
            hadamard_q=(hadamard_q, (width, width)), hadamard_k=(hadamard_k, (width, width)),
            k_cache=(k_cache, (pages, page, 1, width)), k_scale=(k_scale, (pages, page, 1, 1)),
            slots=(slots, (t,)),
        )  # fmt: skip
        cos, sin = cast(cos, f32), cast(sin, f32)

        q, q_scale = queries(q_norm, q_norm_scale, w_qb, w_qb_scale, cos, sin, hadamard_q)

        normed = cast(layer_norm(matmul(x, wk, f32), gamma, beta), bf16)
        k = _rotated(lambda part: normed[:, part], (t, width), cos, sin, hadamard_k)
        k, new_scale = q8(k)
        row = tuple(k_cache.shape[2:])
        k_cache = scatter_update(k_cache, slots, k.reshape(t, *row))
        new_scale = cast(new_scale, f16).reshape(t, *k_scale.shape[2:])
        k_scale = scatter_update(k_scale, slots, new_scale)

        factor = rsqrt_of(x, heads, width)
        weights = cast(cast(matmul(x, w_proj), f32) * factor, f16)
        return q, cast(q_scale.squeeze(-1), f16), weights, k_cache, k_scale


@op(
    "indexer_prolog_float(Tensor x, Tensor q_norm, Tensor w_qb, Tensor wk, Tensor w_proj,"
    " Tensor gamma, Tensor beta, Tensor cos, Tensor sin, Tensor(a!) k_cache, Tensor slots)"
    " -> (Tensor q, Tensor weights)"
)
class IndexerPrologFloat:
    """indexer_prolog without bytes, and so without hadamard matrices, which change no score."""

    types = "(T, T, T, T, T, T, T, T, T, T, I) -> (T, f32) where T: bf16 f32, I: i64 i32"
    constants = ("w_qb", "wk", "w_proj")

    def build(x, q_norm, w_qb, wk, w_proj, gamma, beta, cos, sin, k_cache, slots):
        (t, hidden), (_, rank) = sizes_of("x", x, 2), sizes_of("q_norm", q_norm, 2)
        (_, width), (_, heads) = sizes_of("wk", wk, 2), sizes_of("w_proj", w_proj, 2)
        (_, rope), (pages, page, *_) = sizes_of("cos", cos, 2), sizes_of("k_cache", k_cache, 4)
        require_shapes(
            q_norm=(q_norm, (t, rank)), w_qb=(w_qb, (rank, heads * width)),
            wk=(wk, (hidden, width)), w_proj=(w_proj, (hidden, heads)), gamma=(gamma, (width,)),
            beta=(beta, (width,)), cos=(cos, (t, rope)), sin=(sin, (t, rope)),
            k_cache=(k_cache, (pages, page, 1, width)), slots=(slots, (t,)),
        )  # fmt: skip
        cos, sin = cast(cos, f32), cast(sin, f32)
        rows = matmul(q_norm, w_qb).reshape(t, heads, width)
        q = _turned(lambda part: rows[..., part], (t, heads, width), cos[:, None], sin[:, None])
        normed = cast(layer_norm(matmul(x, wk, f32), gamma, beta), x.dtype)
        k = _turned(lambda part: normed[:, part], (t, width), cos, sin)
        k_cache = scatter_update(k_cache, slots, k.reshape(t, *k_cache.shape[2:]))
        return q, cast(matmul(x, w_proj), f32) * rsqrt_of(x, heads, width), k_cache


# --- scores of keys, and the best of them --------------------------------------------------------

AT_ONCE = 4  # queries of a sequence that read a page together


@jit
def best_keys(q, weights, k_cache, k_scale, lengths, table, k):
    """[t, k], i32: the keys of each query with the largest scores, then -1.

    The score of a key is the sum of weights * h(q k) over heads, times its scale (none: 1).
    """
    page, (_, heads, width) = k_cache.shape[1], q.shape
    per = per_sequence(q, lengths)
    found = full([q.shape[0], k], -1, i32)
    scores = tensor([min(per, AT_ONCE), table.shape[1] * page], f32)
    for i in loop(lengths.shape[0]):
        n = lengths[i]
        for c in loop((per + (AT_ONCE - 1)) // AT_ONCE):
            first = i * per + c * AT_ONCE
            m = min(per - c * AT_ONCE, AT_ONCE)
            rows, factor = q[first : first + m], weights[first : first + m]
            rows = rows.reshape(rows.shape[0] * heads, width)
            for j in loop((n + page - 1) // page):
                size, number = min(page, n - j * page), table[i, j]
                score = _scores(rows, factor, k_cache[number, :size, 0])
                if k_scale is not None:
                    score = score * cast(k_scale[number, :size, 0, 0], f32)
                scores[:m, j * page : j * page + size] = score
            for s in loop(m):
                seen = min(max(n - (per - 1 - c * AT_ONCE - s), 0), scores.shape[1])
                best = topk(scores[s, :seen], min(seen, k)).indices
                found[first + s, : best.shape[0]] = cast(best, i32)
    return found


def _scores(rows: Tensor, weights: Tensor, keys: Tensor) -> Tensor:
    """[queries, keys], f32: the sums over heads of weights * relu(rows keys), of bytes / 2048 and
    rounded to f16."""
    is_bytes = keys.dtype == i8
    h = matmul(rows, keys, i32 if is_bytes else f32, b_trans=True)
    h = relu(cast(h.reshape(*weights.shape, keys.shape[0]), f32))
    if is_bytes:
        h = cast(cast(h * 2.0**-11, f16), f32)
    return sum(h * weights[:, :, None], 1)


@op(
    "lightning_indexer(Tensor q, Tensor q_scale, Tensor weights, Tensor k_cache, Tensor k_scale,"
    " Tensor lengths, Tensor table, *, int k=2048) -> Tensor"
)
class LightningIndexer:
    """The k keys of each query with the largest scores, of bytes, as positions in its sequence."""

    types = "(i8, f16, f16, i8, f16, I, J) -> i32 where I: i32 i64, J: i32 i64"

    def build(q, q_scale, weights, k_cache, k_scale, lengths, table, k):
        pages, page = _check_scoring(q, weights, k_cache, lengths, table, k)
        require_shapes(
            q_scale=(q_scale, tuple(weights.shape)), k_scale=(k_scale, (pages, page, 1, 1))
        )
        factor = cast(cast(cast(q_scale, f32) * cast(weights, f32), f16), f32)
        return best_keys(q, factor, k_cache, k_scale, lengths, table, k)


@op(
    "lightning_indexer_float(Tensor q, Tensor weights, Tensor k_cache, Tensor lengths,"
    " Tensor table, *, int k=2048) -> Tensor"
)
class LightningIndexerFloat:
    """lightning_indexer without bytes: scores are sums over heads of weights * relu(q k)."""

    types = "(T, W, T, I, J) -> i32 where T: bf16 f32, W: f32 bf16, I: i32 i64, J: i32 i64"

    def build(q, weights, k_cache, lengths, table, k):
        _check_scoring(q, weights, k_cache, lengths, table, k)
        return best_keys(q, cast(weights, f32), k_cache, None, lengths, table, k)


def _check_scoring(q, weights, k_cache, lengths, table, k):
    """States the shapes that both forms have; returns (pages, rows of a page) of the cache."""
    (t, heads, width), (pages, page, *_) = sizes_of("q", q, 3), sizes_of("k_cache", k_cache, 4)
    (b,), (_, most) = sizes_of("lengths", lengths, 1), sizes_of("table", table, 2)
    require_shapes(
        weights=(weights, (t, heads)), k_cache=(k_cache, (pages, page, 1, width)),
        table=(table, (b, most)),
    )  # fmt: skip
    check_lengths(lengths, table, page)
    why = "a query selects some of its keys, and gets -1 where it has fewer"
    check_number("lightning_indexer", "k", k, 1, why)
    return pages, page
