# SPDX-License-Identifier: Apache-2.0
"""The prologs, the indexer and the attention of DeepSeek V3.2."""

from typing import Any

import torch

from bench.model_formulas.paged import paged
from bench.model_formulas.primitives import (
    BF16,
    q8,
    random,
    random_bytes,
    rms_norm,
    rope_half,
    rope_pair,
    scatter,
)


def indexer_arguments(t, eighth=True, pages=6):
    """Arguments of indexer_prolog, in the sizes of the model or an eighth of them."""
    by = 8 if eighth else 1
    hidden, rank, heads, width, rope, page = (n // by for n in (7168, 1536, 64, 128, 64, 128))
    angles = torch.rand(t, rope) * 6
    slots = torch.randperm(pages * page)[:t]
    return [
        random(t, hidden), random_bytes(t, rank), torch.rand(t, 1) / 100,
        random_bytes(rank, heads * width), torch.rand(heads * width) / 1000,
        random(hidden, width, scale=hidden**-0.5), random(hidden, heads, scale=hidden**-0.5),
        random(width), random(width), angles.cos().to(BF16), angles.sin().to(BF16),
        random(width, width, scale=width**-0.5), random(width, width, scale=width**-0.5),
        random_bytes(pages, page, 1, width), torch.rand(pages, page, 1, 1).half(), slots,
    ]  # fmt: skip


def turned(v, cos, sin):
    """v with its first elements turned."""
    rope = cos.shape[-1]
    return torch.cat([rope_half(v[..., :rope], cos, sin), v[..., rope:]], -1)


def indexer_keys(x, wk, gamma, beta, cos, sin):
    k = torch.nn.functional.layer_norm(
        x.float() @ wk.float(), gamma.shape, gamma.float(), beta.float(), 1e-6
    )
    return turned(k.to(x.dtype), cos, sin)


def indexer_prolog_float(x, q_norm, w_qb, wk, w_proj, gamma, beta, cos, sin, k_cache, slots):
    heads, width, cos, sin = w_proj.shape[1], wk.shape[1], cos.float(), sin.float()
    q = (q_norm @ w_qb).reshape(len(x), heads, width)
    scatter(k_cache, slots, indexer_keys(x, wk, gamma, beta, cos, sin))
    weights = (x @ w_proj).float() * (heads**-0.5 * width**-0.5)
    return turned(q, cos[:, None], sin[:, None]), weights


def indexer_prolog(
    x, q_norm, q_norm_scale, w_qb, w_qb_scale, wk, w_proj, gamma, beta, cos, sin,
    hadamard_q, hadamard_k, k_cache, k_scale, slots, chosen=None,
):  # fmt: skip
    t, heads, width = len(x), w_proj.shape[1], wk.shape[1]
    cos, sin = cos.float(), sin.float()
    q = torch._int_mm(q_norm, w_qb).float() * q_norm_scale * w_qb_scale
    q = q.to(BF16).reshape(t, heads, width)
    q, q_scale = q8(turned(q, cos[:, None], sin[:, None]) @ hadamard_q)
    k, new_scale = q8(indexer_keys(x, wk, gamma, beta, cos, sin) @ hadamard_k)
    if chosen is not None:
        slots, k, new_scale = slots[chosen], k[chosen], new_scale[chosen]
    scatter(k_cache, slots, k)
    scatter(k_scale, slots, new_scale.half())
    weights = (x @ w_proj).float() * (heads**-0.5 * width**-0.5)
    return q, q_scale.squeeze(-1).half(), weights.half()


def lightning_arguments(lengths, s1, eighth=True, spare=0, k=2048):
    """Arguments of lightning_indexer; scores are exact in f32 in any order of their sums."""
    by = 8 if eighth else 1
    heads, width, page = (n // by for n in (64, 128, 128))
    (pages, table), t = paged(lengths, page, spare), len(lengths) * s1
    return [
        random_bytes(t, heads, width), 2.0 ** torch.randint(-3, 2, (t, heads)).half(),
        torch.randint(-1, 4, (t, heads)).half() / 4, random_bytes(pages, page, 1, width),
        torch.rand(pages, page, 1, 1).half(), torch.tensor(lengths, dtype=torch.int32), table,
    ]  # fmt: skip


def rows_of(cache, table, n):
    """The first n rows that a sequence has in a cache."""
    page = cache.shape[1]
    return cache[table[: -(-n // page)].long()].flatten(0, 1)[:n, 0]


def lightning_scores(q, factor, keys, scale):
    """[queries, keys]; without a scale they are of bf16."""
    flat = q.flatten(0, 1)
    if scale is None:
        h = (flat.float() @ keys.float().T).relu()
        return (h.view(*factor.shape, -1) * factor[..., None]).sum(1)
    h = (torch._int_mm(flat, keys.T).float().relu() / 2048).half()
    return (h.view(*factor.shape, -1).float() * factor[..., None]).sum(1) * scale.flatten().float()


def selected(q, factor, k_cache, k_scale, lengths, table, k, is_exact):
    """[t, k]; `is_exact`: of equal scores the smaller position comes first."""
    found, s1 = torch.full((len(q), k), -1, dtype=torch.int32), len(q) // max(1, len(lengths))
    for i, n in enumerate(lengths.tolist()):
        own = slice(i * s1, i * s1 + s1)
        scale = None if k_scale is None else rows_of(k_scale, table[i], n)
        scores = lightning_scores(q[own], factor[own], rows_of(k_cache, table[i], n), scale)
        for s in range(s1):
            seen = scores[s, : max(0, n - (s1 - 1 - s))]
            best = seen.argsort(descending=True, stable=True)[:k] if is_exact else (
                seen.topk(min(k, len(seen))).indices)  # fmt: skip
            found[i * s1 + s, : len(best)] = best
    return found


def lightning_indexer(q, q_scale, w, k_cache, k_scale, lengths, table, k=2048, is_exact=False):
    factor = (q_scale * w).float()
    return selected(q, factor, k_cache, k_scale, lengths, table, k, is_exact)


def lightning_indexer_float(q, weights, k_cache, lengths, table, k=2048, is_exact=False):
    return selected(q, weights.float(), k_cache, None, lengths, table, k, is_exact)


def mla_arguments(t, eighth=True, pages=6, quantised=True):
    """Arguments of mla_prolog, or of mla_prolog_float."""
    by = 8 if eighth else 1
    hidden, rank, heads, nope, rope, latent, page = (
        n // by for n in (7168, 1536, 128, 128, 64, 512, 128)
    )
    angles, columns = torch.rand(t, rope) * 6, heads * (nope + rope)
    up = random_bytes(rank, columns) if quantised else random(rank, columns, scale=rank**-0.5)
    scales = [torch.rand(columns) / 1000] if quantised else []
    caches = [random(pages, page, 1, latent), random(pages, page, 1, rope)]
    if quantised:
        caches = [random_bytes(pages, page, 1, latent), caches[1], torch.rand(pages, page, 1, 4)]
    return [
        random(t, hidden), random(hidden, rank, scale=hidden**-0.5), up, *scales,
        random(heads, nope, latent, scale=nope**-0.5),
        random(hidden, latent + rope, scale=hidden**-0.5), random(rank), random(latent),
        angles.cos().to(BF16), angles.sin().to(BF16), *caches, torch.randperm(pages * page)[:t],
    ]  # fmt: skip


def _mla(q, x, w_uk, w_dkv_kr, gamma_kv, cos, sin):
    """(q_nope, q_rope, latent rows, turned rows) of queries [t, heads * ...]."""
    (heads, nope, latent), cos, sin = w_uk.shape, cos.float(), sin.float()
    q = q.reshape(len(x), heads, -1)
    q_nope = torch.bmm(q[..., :nope].transpose(0, 1), w_uk).transpose(0, 1)
    q_rope = rope_pair(q[..., nope:], cos[:, None], sin[:, None])
    kv = x @ w_dkv_kr
    rows = rms_norm(kv[:, :latent], gamma_kv), rope_pair(kv[:, latent:], cos, sin)
    return q_nope, q_rope, *rows


def mla_prolog(
    x, w_dq, w_uq_qr, w_uq_qr_scale, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin,
    kv_cache, kr_cache, k_scale, slots,
):  # fmt: skip
    q_norm, scale = q8(rms_norm(x @ w_dq, gamma_q))
    q = (torch._int_mm(q_norm, w_uq_qr).float() * scale * w_uq_qr_scale).to(BF16)
    q_nope, q_rope, rows, by_angle = _mla(q, x, w_uk, w_dkv_kr, gamma_kv, cos, sin)
    values, new_scale = q8(rows.reshape(len(x), k_scale.shape[-1], -1))
    scatter(kv_cache, slots, values)
    scatter(kr_cache, slots, by_angle)
    scatter(k_scale, slots, new_scale)
    return q_nope, q_rope, q_norm, scale


def mla_prolog_float(
    x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, kv_cache, kr_cache, slots
):
    q_norm = rms_norm(x @ w_dq, gamma_q)
    q_nope, q_rope, rows, by_angle = _mla(q_norm @ w_uq_qr, x, w_uk, w_dkv_kr, gamma_kv, cos, sin)
    scatter(kv_cache, slots, rows)
    scatter(kr_cache, slots, by_angle)
    return q_nope, q_rope, q_norm


def sparse_arguments(lengths, s1, eighth=True, k=2048, quantised=True):
    """Arguments of sparse_attention, or of sparse_attention_float."""
    by = 8 if eighth else 1
    heads, latent, rope, page = (n // by for n in (128, 512, 64, 128))
    (pages, table), t = paged(lengths, page), len(lengths) * s1
    indices = torch.full((t, k), -1, dtype=torch.int32)
    for i, row in enumerate(indices):
        chosen = torch.randperm(lengths[i // s1])[:k]
        row[: len(chosen)] = chosen
    caches = [random(pages, page, 1, latent), random(pages, page, 1, rope)]
    if quantised:
        caches = [random_bytes(pages, page, 1, latent), caches[1],
                  torch.rand(pages, page, 1, 4) / 64]  # fmt: skip
    return [
        random(t, heads, latent), random(t, heads, rope), *caches, indices,
        torch.tensor(lengths, dtype=torch.int32), table,
    ]  # fmt: skip


def sparse_attention(
    q_nope, q_rope, kv_cache, kr_cache, k_scale, indices, lengths, table, scale, is_exact=False,
    at_once=32,
):  # fmt: skip
    """`is_exact`: scores are not rounded to bf16 on their way."""
    out, page, s1 = torch.zeros_like(q_nope), kv_cache.shape[1], len(q_nope) // max(1, len(lengths))
    kv, kr = kv_cache.flatten(0, 2), kr_cache.flatten(0, 2)
    for i in range(len(lengths)):
        for start in range(i * s1, i * s1 + s1, at_once):
            own = slice(start, min(start + at_once, i * s1 + s1))
            is_there = (indices[own] >= 0) & (indices[own] < lengths[i])
            places = torch.where(is_there, indices[own], 0).long()
            rows = table[i][places // page].long().clamp(0) * page + places % page
            v = kv[rows]
            if k_scale is not None:
                scales = k_scale.flatten(0, 2)[rows]
                v = (v.unflatten(-1, (scales.shape[-1], -1)).float() * scales[..., None]).to(BF16)
                v = v.flatten(-2)
            q, k = torch.cat([q_nope[own], q_rope[own]], -1), torch.cat([v, kr[rows]], -1)
            if is_exact:
                q, k = q.float(), k.float()
            scores = (q @ k.transpose(1, 2)).float() * scale
            p = torch.softmax(scores.masked_fill(~is_there[:, None], -torch.inf), -1)
            out[own] = torch.where(is_there.any(-1)[:, None, None], p.to(v.dtype) @ v, 0)
    return out


def sparse_attention_float(q_nope, q_rope, kv_cache, kr_cache, indices, lengths, table, scale):
    return sparse_attention(
        q_nope, q_rope, kv_cache, kr_cache, None, indices, lengths, table, scale
    )


def packed(kv_cache, kr_cache, k_scale):
    """The cache of sparse_attention_packed with the rows of these three."""
    rows = [x.contiguous().view(torch.int8) for x in (kv_cache, k_scale, kr_cache)]
    return torch.cat(rows, -1)


def decode_arguments(lengths, s1, eighth=True):
    """Arguments of mla_decode_step, whose new keys are the last ones of their sequences."""
    page, t = 128 // (8 if eighth else 1), len(lengths) * s1
    pages, table = paged(lengths, page)
    latent, index = mla_arguments(t, eighth, pages), indexer_arguments(t, eighth, pages)
    last = torch.tensor(lengths)[:, None] - s1 + torch.arange(s1)
    slots = table.gather(1, last // page).long() * page + last % page
    return [
        *latent[:10], *index[3:9], *index[11:13], *latent[10:12], latent[12] / 64, *index[13:15],
        slots.flatten(),
        torch.tensor(lengths, dtype=torch.int32), table,
    ]  # fmt: skip


def decode_step(ops, given, scale, k):
    """The results of mla_decode_step by four operators, which write into `given`."""
    q_nope, q_rope, *q_norm = ops.mla_prolog(*given[:10], *given[18:21], given[23])
    keys = ops.indexer_prolog(
        given[0], *q_norm, *given[10:16], *given[8:10], *given[16:18], *given[21:24]
    )
    indices = ops.lightning_indexer(*keys, *given[21:23], *given[24:], k=k)
    return ops.sparse_attention(q_nope, q_rope, *given[18:21], indices, *given[24:], scale=scale)


def decode_float_arguments(lengths, s1, dtype, eighth=True):
    """Arguments of mla_decode_step_float up to its table, then w_uv and w_o."""
    given = decode_arguments(lengths, s1, eighth)
    x, w_dq, _, _, w_uk, w_dkv_kr, *rest = given
    (heads, _, latent), pages, page = w_uk.shape, *given[18].shape[:2]
    (rank, columns), (_, of_index), d = given[2].shape, given[10].shape, 128 // (8 if eighth else 1)
    kv, kr, k = (random(pages, page, 1, given[i].shape[3]) for i in (18, 19, 21))
    floats = [
        x, w_dq, random(rank, columns, scale=rank**-0.5), w_uk, w_dkv_kr, *rest[:4],
        random(rank, of_index, scale=rank**-0.5), *given[12:16], kv, kr, k,
    ]  # fmt: skip
    after = [random(heads, latent, d, scale=latent**-0.5),
             random(heads * d, x.shape[1], scale=(heads * d) ** -0.5)]  # fmt: skip
    convert = [[a.to(dtype) for a in some] for some in (floats, after)]
    return [*convert[0], *given[23:26], *convert[1]]


def projected(out: torch.Tensor, w_uv: torch.Tensor, w_o: torch.Tensor) -> torch.Tensor:
    """The values of each head, then what they add to the layer's input."""
    return torch.bmm(out.transpose(0, 1), w_uv).transpose(0, 1).flatten(1) @ w_o


def decode_step_float(ops: Any, given: list[torch.Tensor], scale: float, k: int) -> Any:
    """The results of mla_decode_step_float, before its projections, by four operators."""
    *q, q_norm = ops.mla_prolog_float(*given[:9], *given[14:16], given[17])
    keys = ops.indexer_prolog_float(given[0], q_norm, *given[9:14], *given[7:9], *given[16:18])
    indices = ops.lightning_indexer_float(*keys, given[16], *given[18:20], k=k)
    return ops.sparse_attention_float(*q, *given[14:16], indices, *given[18:20], scale=scale)
