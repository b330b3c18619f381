# SPDX-License-Identifier: Apache-2.0
"""Attention of Qwen3: normed and turned queries and keys, a paged cache, causal; prefill and decode
are one program. Some queries meet some keys at a time (paged.py)."""

import math

from pto.language.control import loop
from pto.language.dtypes import f32, i32
from pto.language.elementwise import log, where
from pto.language.fill import full, zeros
from pto.language.generated import arange
from pto.language.jit import jit
from pto.language.local import tensor
from pto.language.op import op
from pto.language.selection import scatter_update
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.language.whole import max, min
from pto.models.formulas import (
    check_lengths,
    check_pages,
    require_parts,
    require_shapes,
    rms_norm,
    rsqrt_of,
    sizes_of,
    turn,
)
from pto.models.paged import BLOCK, more_keys, no_keys, outputs, rows_of, scores_of

QUERIES = 32  # tokens at a time


def _turned(x: Tensor, gamma: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """rope_half of the RMSNorm of rows; angles broadcast to the shape of x."""
    normed, out, half = cast(rms_norm(x, gamma), f32), tensor(x.shape, x.dtype), x.shape[-1] // 2
    turn(normed[..., :half], normed[..., half:], cast(cos, f32), cast(sin, f32), out)
    return out


@jit
def causal(q, gamma, cos, sin, keys, values, table, lengths, scale):
    """(result [b, s, heads, d], log_sums [b, s, heads]); blocks of queries go side by side."""
    (b, s, heads, d), (_, page, of_keys, _) = q.shape, keys.shape
    group, width, some = heads // of_keys, max(1, min(s, QUERIES)), max(1, BLOCK // page)
    blocks = (s + width - 1) // width
    made = zeros([b, s, of_keys, group, d], q.dtype)
    sums = full([b, s, of_keys, group], -math.inf)
    for t in loop(b * blocks):
        i, start = t // blocks, t % blocks * width
        n, tokens = lengths[i], min(width, s - start)
        mine, angles = slice(start, start + tokens), (None, slice(start, start + tokens), None)
        by_heads = q[i, mine].reshape(tokens, of_keys, group, d).transpose(0, 1)
        rows = _turned(by_heads, gamma, cos[i][angles], sin[i][angles])
        rows = rows.reshape(of_keys, tokens * group, d)
        first = n - s + 1 + start  # how many keys the first query sees
        end = max(first + tokens - 1, 0)
        pages = (end + page - 1) // page
        sees = arange(rows.shape[1], dtype=i32) // group  # keys more than the first query
        most, total, out = no_keys(rows)
        span = some * page
        whole = max(first, 0) // span  # blocks of keys that all these queries see
        for j in loop(whole):
            k, v = (
                rows_of(one, table[i, j * some : j * some + some], span) for one in (keys, values)
            )
            most, total, out = more_keys(scores_of(rows, k, scale), v, q.dtype, most, total, out)
        for j in loop(whole, (pages + some - 1) // some):
            begin = j * span
            these = table[i, j * some : min(j * some + some, pages)]
            k, v = (rows_of(one, these, min(span, end - begin)) for one in (keys, values))
            limit = sees + (first - begin)
            seen = arange(k.shape[0], dtype=i32)[None, :] < limit[:, None]
            scores = where(seen, scores_of(rows, k, scale), -math.inf)
            most, total, out = more_keys(scores, v, q.dtype, most, total, out)
        found = cast(outputs(total, out), q.dtype).reshape(of_keys, tokens, group, d)
        made[i, mine] = found.transpose(0, 1)
        sums[i, mine] = (most + log(total)).reshape(of_keys, tokens, group).transpose(0, 1)
    return made.reshape(b, s, heads, d), sums.reshape(b, s, heads)


@op(
    "qwen3_attention(Tensor q, Tensor k, Tensor v, Tensor gamma_q, Tensor gamma_k, Tensor cos,"
    " Tensor sin, Tensor(a!) keys, Tensor(b!) values, Tensor slots, Tensor table, Tensor lengths,"
    " *, float? scale=None) -> (Tensor result, Tensor log_sums)"
)
class Qwen3Attention:
    """Puts normed, turned keys and values into a paged cache; queries, normed and turned, see the
    keys of their sequence up to their own."""

    types = (
        "(T, T, T, T, T, T, T, T, T, I, J, K) -> (T, f32)"
        " where T: bf16 f32, I: i64 i32, J: i64 i32, K: i64 i32"
    )

    def build(q, k, v, gamma_q, gamma_k, cos, sin, keys, values, slots, table, lengths, scale):
        (b, s, _, d), (pages, page, of_keys, _) = sizes_of("q", q, 4), sizes_of("keys", keys, 4)
        new, cache, angles = (b, s, of_keys, d), (pages, page, of_keys, d), (b, s, d)
        require_shapes(
            k=(k, new), v=(v, new), gamma_q=(gamma_q, (d,)), gamma_k=(gamma_k, (d,)),
            cos=(cos, angles), sin=(sin, angles), keys=(keys, cache), values=(values, cache),
            slots=(slots, (b, s)), table=(table, (b, sizes_of("table", table, 2)[1])),
            lengths=(lengths, (b,)),
        )  # fmt: skip
        check_lengths(lengths, table, page)
        check_pages(lengths, table, keys)
        require_parts(q, 2, of_keys, "heads of q and keys")
        rows = (_turned(k, gamma_k, cos[:, :, None], sin[:, :, None]), v)
        slots = slots.reshape(b * s)
        caches = [
            scatter_update(one, slots, x.reshape(b * s, of_keys, d))
            for one, x in zip((keys, values), rows, strict=True)
        ]
        factor = rsqrt_of(q, d) if scale is None else cast(scale, f32)
        found = causal(q, gamma_q, cos, sin, *caches, table, lengths, factor)
        return *found, *caches
