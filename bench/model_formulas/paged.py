# SPDX-License-Identifier: Apache-2.0
"""Attention over pages, and that of Qwen3."""

import torch

from bench.model_formulas.primitives import BF16, random_bytes, scatter


def paged(lengths, page, spare=0):
    """(pages that these lengths need and some, table of shuffled ones, i32), with columns to spare
    that name no page."""
    counts = [-(-n // page) for n in lengths]
    pages, table = sum(counts) + 1, torch.full((len(counts), max([0, *counts]) + spare), -7)
    order = torch.randperm(pages).split([*counts, 1])
    for row, numbers in zip(table, order, strict=False):
        row[: len(numbers)] = numbers
    return pages, table.int()


def paged_arguments(lengths, queries, heads, key_heads, d, page, dtype=torch.float32, holes=1):
    """Arguments of paged_attention with tables of `holes` more columns than pages, of -1; scales
    follow where dtype is int8."""
    counts = [-(-n // page) for n in lengths]
    pages = sum(counts) + 3
    order = iter(torch.randperm(pages).tolist())
    table = torch.full((len(lengths), max(counts, default=0) + holes), -1)
    for row, count in zip(table, counts, strict=True):
        row[:count] = torch.tensor([next(order) for _ in range(count)])
    shape, is_bytes = (pages, page, key_heads, d), dtype == torch.int8
    caches = [random_bytes(*shape) if is_bytes else torch.randn(shape).to(dtype) for _ in "kv"]
    q = torch.randn(len(lengths), queries, heads, d).to(BF16 if is_bytes else dtype)
    scales = [torch.rand(pages, page) / 50 for _ in "kv"] if is_bytes else []
    return [q, *caches, table, torch.tensor(lengths, dtype=torch.int64), *scales]


def gathered(cache, table, n, scale=None):
    """The n keys or values of a sequence, [heads, n, d]."""
    pages = table[: -(-n // cache.shape[1])]
    rows = cache[pages].flatten(0, 1)[:n]
    if scale is not None:
        rows = rows.float() * scale[pages].flatten()[:n, None, None]
    return rows.transpose(0, 1)


def paged_attention(q, keys, values, table, lengths, k_scale=None, v_scale=None):
    """Each sequence gathers its keys; SDPA takes them."""
    made = torch.zeros_like(q)
    for i, n in enumerate(lengths.tolist()):
        if n == 0:
            continue
        k = gathered(keys, table[i], n, k_scale).to(q.dtype)
        v = gathered(values, table[i], n, v_scale).to(q.dtype)
        queries = q.shape[1]
        first = max(queries - n, 0)  # of the queries that see a key
        seen = torch.ones(queries - first, n, dtype=torch.bool).tril(n - queries + first)
        seen = seen if queries > 1 else None
        made[i, first:] = torch.nn.functional.scaled_dot_product_attention(
            q[i, first:].transpose(0, 1)[None], k[None], v[None], seen, enable_gqa=True
        )[0].transpose(0, 1)
    return made


def qwen3_arguments(lengths, queries, heads, key_heads, d, page, dtype=BF16):
    """Arguments of qwen3_attention, for sequences of these lengths with their queries."""
    b = len(lengths)
    _, keys, values, table, ends = paged_arguments(lengths, 1, heads, key_heads, d, page, dtype)
    places = ends[:, None] - queries + torch.arange(queries)
    slots = table.gather(1, places.clamp(0) // page) * page + places % page
    angles = torch.rand(b, queries, d) * 6
    new = [torch.randn(b, queries, n, d) for n in (heads, key_heads, key_heads)]
    rest = [torch.rand(d) + 0.5, torch.rand(d) + 0.5, angles.cos(), angles.sin()]
    given = [x.to(dtype) for x in (*new, *rest)]
    return [*given, keys, values, torch.where(places < 0, -1, slots), table, ends]


def qwen3_attention(q, k, v, gamma_q, gamma_k, cos, sin, keys, values, slots, table, lengths):
    """Norm, turn, scatter; then each sequence gathers its keys. log_sums are f64 with f64."""

    def turned(x, gamma):
        wide = x if x.dtype == torch.float64 else x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * gamma
        normed = normed.to(x.dtype)
        half = x.shape[-1] // 2
        other = torch.cat([-normed[..., half:], normed[..., :half]], -1)
        return (normed * cos[:, :, None] + other * sin[:, :, None]).to(x.dtype)

    is_new = slots.flatten() >= 0
    scatter(keys, slots.flatten()[is_new], turned(k, gamma_k).flatten(0, 1)[is_new])
    scatter(values, slots.flatten()[is_new], v.flatten(0, 1)[is_new])
    q, (b, s, heads, d) = turned(q, gamma_q), q.shape
    result, log_sums = torch.zeros_like(q), torch.full((b, s, heads), -torch.inf, dtype=q.dtype)
    for i, n in enumerate(lengths.tolist()):
        k, v = (gathered(x, table[i], n) for x in (keys, values))
        k, v = (x.repeat_interleave(heads // x.shape[0], 0) for x in (k, v))
        scores = q[i].transpose(0, 1) @ k.mT * d**-0.5
        seen = torch.ones(s, n, dtype=torch.bool).tril(n - s)
        scores = scores.masked_fill(~seen, -torch.inf)
        result[i] = (scores.softmax(-1).nan_to_num() @ v).transpose(0, 1)
        log_sums[i] = scores.logsumexp(-1).T
    return result, log_sums
