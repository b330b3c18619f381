# SPDX-License-Identifier: Apache-2.0
"""Attention over keys and values that lie in pages, as in vLLM: a table says which pages a sequence
has. Three f32 tensors sum up the keys so far: `most` [heads, rows, 1], the largest score, `total`
of that shape, the sum of exponentials, and `out` [heads, rows, d], the values with these weights;
heads are those of keys, and rows their queries."""

import math
from typing import Any

from pto.errors import InvalidType
from pto.language.control import loop
from pto.language.dtypes import f32, i8
from pto.language.elementwise import exp, maximum, where
from pto.language.fill import full, zeros
from pto.language.jit import jit
from pto.language.matrix import matmul
from pto.language.op import op
from pto.language.reduce import amax, sum
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.language.whole import max, min
from pto.models.formulas import check_lengths, require_parts, require_shapes, rsqrt_of, sizes_of

BLOCK = 128  # keys at a time: whole pages, at least one


def no_keys(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(most, total, out) of these queries without keys."""
    column = [*rows.shape[:-1], 1]
    return full(column, -math.inf), zeros(column), zeros(rows.shape)


def more_keys(scores, v, dtype, most, total, out, v_scale=None) -> tuple[Tensor, Tensor, Tensor]:
    """(most, total, out) with more keys: scores [heads, rows, keys], values v [keys, heads, d];
    weights are rounded to dtype, that of queries."""
    top = maximum(most, amax(scores, -1, True))
    base = where(top == -math.inf, 0.0, top)  # of rows that see no key yet
    p, old = exp(scores - base), exp(most - base)
    weights = cast(p if v_scale is None else p * v_scale, dtype)
    added = matmul(weights, v.transpose(0, 1), f32)
    return top, total * old + sum(p, -1, True), out * old + added


def outputs(total: Tensor, out: Tensor) -> Tensor:
    """The outputs [heads, rows, d]; zeros where there is no key."""
    return where(total == 0, 0.0, out / total)


def rows_of(cache: Tensor, pages: Tensor, size: Any) -> Tensor:
    """The first rows of these pages, [size, ...]."""
    some = cache[pages]
    return some.reshape(some.shape[0] * some.shape[1], *some.shape[2:])[:size]


def scores_of(rows: Tensor, k: Tensor, scale: Any, k_scale: Tensor | None = None) -> Tensor:
    """[heads, rows, keys] of queries [heads, rows, d] and keys [keys, heads, d], f32."""
    found = matmul(rows, k.transpose(0, 1), f32, b_trans=True) * scale
    return found if k_scale is None else found * k_scale


@jit
def paged(q, keys, values, table, lengths, scale, scales):
    """Result of paged_attention; `scales` are those of keys and values, or empty."""
    (b, s, heads, d), (_, page, of_keys, _) = q.shape, keys.shape
    group, some = heads // of_keys, max(1, BLOCK // page)
    made = zeros([b, s, of_keys, group, d], q.dtype)
    for i in loop(b):
        n = lengths[i]
        first = max(n - max(s - 1, 0), 0)  # the keys that all queries see
        pages = (first + page - 1) // page
        rows = q[i].reshape(s, of_keys, group, d).transpose(0, 1).reshape(of_keys, s * group, d)
        most, total, out = no_keys(rows)
        for j in loop((pages + some - 1) // some):
            these = table[i, j * some : min(j * some + some, pages)]
            size = min(some * page, first - j * some * page)
            k, v = (rows_of(one, these, size) for one in (keys, values))
            by_k, by_v = (rows_of(one, these, size) for one in scales) if scales else (None, None)
            scores = scores_of(rows, k, scale, by_k)
            most, total, out = more_keys(scores, v, q.dtype, most, total, out, by_v)
        for j in loop(first, n):  # and those that only the last ones see
            at, by, place = (s - n + j) * group, table[i, j // page], j % page
            k, v = (one[by, place : place + 1] for one in (keys, values))
            by_k, by_v = (one[by, place] for one in scales) if scales else (None, None)
            scores = scores_of(rows[:, at:], k, scale, by_k)
            most[:, at:], total[:, at:], out[:, at:] = more_keys(
                scores, v, q.dtype, most[:, at:], total[:, at:], out[:, at:], by_v
            )
        found = cast(outputs(total, out), q.dtype)
        made[i] = found.reshape(of_keys, s, group, d).transpose(0, 1)
    return made.reshape(b, s, heads, d)


@op(
    "paged_attention(Tensor q, Tensor keys, Tensor values, Tensor table, Tensor lengths,"
    " Tensor? k_scale=None, Tensor? v_scale=None, *, float? scale=None) -> Tensor"
)
class PagedAttention:
    """softmax(scale q k^T) v over the keys of each sequence, which lie in pages of a cache."""

    types = (
        "(T, K, K, I, J, f32, f32) -> T where T: f32 bf16, K: f32 bf16 i8, I: i64 i32, J: i64 i32"
    )

    def build(q, keys, values, table, lengths, k_scale, v_scale, scale):
        (b, _, _, d), (pages, page, of_keys, _) = sizes_of("q", q, 4), sizes_of("keys", keys, 4)
        _, columns = sizes_of("table", table, 2)
        require_shapes(
            keys=(keys, (pages, page, of_keys, d)), values=(values, (pages, page, of_keys, d)),
            table=(table, (b, columns)), lengths=(lengths, (b,)),
        )  # fmt: skip
        require_parts(q, 2, of_keys, "heads of q and keys")
        check_lengths(lengths, table, page)
        _check_types(q, keys, k_scale, v_scale)
        scales = () if k_scale is None else (k_scale, v_scale)
        for name, one in zip(("k_scale", "v_scale"), scales, strict=False):
            require_shapes(**{name: (one, (pages, page))})
        factor = rsqrt_of(q, d) if scale is None else cast(scale, f32)
        return paged(q, keys, values, table, lengths, factor, scales)


def _check_types(q: Tensor, keys: Tensor, *scales: Tensor | None) -> None:
    given = [x is not None for x in scales]
    if keys.dtype != i8 and keys.dtype != q.dtype:
        raise InvalidType(
            f"paged_attention: keys are {keys.dtype}, and q is {q.dtype}",
            "keys and values are of the type of q, or bytes with scales",
            f"convert one of them, to {q.dtype}",
        )
    if given != [keys.dtype == i8] * 2:
        raise InvalidType(
            f"paged_attention: keys are {keys.dtype}, and {given.count(True)} scales are given",
            "bytes have a scale for each token of keys and of values, floats have none",
            "pass k_scale and v_scale [pages, page] with i8, and neither with floats",
        )
