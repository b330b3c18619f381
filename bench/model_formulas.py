# SPDX-License-Identifier: Apache-2.0
"""The formulas of the operators of pto.models in plain torch, and arguments for them.

The tests compare with them; the benches time them, as separate operations and compiled.
"""

import torch

BF16 = torch.bfloat16


def random(*shape, scale=1.0):
    return (torch.randn(shape) * scale).to(BF16)


def random_bytes(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def q8(v):
    v = v.float()
    most = v.abs().amax(-1, keepdim=True)
    factor = torch.where(most == 0, 0.0, torch.full_like(most, 127.0) / most)
    values = (v * factor).round().clamp(-128, 127).to(torch.int8)
    return values, torch.where(most == 0, 0.0, 1 / factor)


def rope_half(v, cos, sin):
    half, v = v.shape[-1] // 2, v.float()
    return (v * cos + torch.cat([-v[..., half:], v[..., :half]], -1) * sin).to(BF16)


def scatter(cache, slots, rows):
    """cache[slot] = row."""
    flat = cache.view(-1, *cache.shape[2:])
    flat[slots] = rows.reshape(-1, *flat.shape[1:])


def lasting(slots):
    """Which slots are written: -1 is skipped, and the last of equal ones stays."""
    numbers = slots.tolist()
    return torch.tensor(
        [s >= 0 and s not in numbers[i + 1 :] for i, s in enumerate(numbers)], dtype=torch.bool
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


def indexer_prolog(
    x, q_norm, q_norm_scale, w_qb, w_qb_scale, wk, w_proj, gamma, beta, cos, sin,
    hadamard_q, hadamard_k, k_cache, k_scale, slots, chosen=None,
):  # fmt: skip
    t, heads, width, rope = len(x), w_proj.shape[1], wk.shape[1], cos.shape[1]
    cos, sin = cos.float(), sin.float()
    q = torch._int_mm(q_norm, w_qb).float() * q_norm_scale * w_qb_scale
    q = q.to(BF16).reshape(t, heads, width)
    turned = rope_half(q[..., :rope], cos[:, None], sin[:, None])
    q, q_scale = q8(torch.cat([turned, q[..., rope:]], -1) @ hadamard_q)
    k = torch.nn.functional.layer_norm(
        x.float() @ wk.float(), (width,), gamma.float(), beta.float(), 1e-6
    ).to(BF16)
    k = torch.cat([rope_half(k[:, :rope], cos, sin), k[:, rope:]], -1)
    k, new_scale = q8(k @ hadamard_k)
    if chosen is not None:
        slots, k, new_scale = slots[chosen], k[chosen], new_scale[chosen]
    scatter(k_cache, slots, k)
    scatter(k_scale, slots, new_scale.half())
    weights = (x @ w_proj).float() * (heads**-0.5 * width**-0.5)
    return q, q_scale.squeeze(-1).half(), weights.half()


def paged(lengths, page, spare=0):
    """(pages that these lengths need and some, table of shuffled ones, i32), with columns to spare
    that name no page."""
    counts = [-(-n // page) for n in lengths]
    pages, table = sum(counts) + 1, torch.full((len(counts), max([0, *counts]) + spare), -7)
    order = torch.randperm(pages).split([*counts, 1])
    for row, numbers in zip(table, order, strict=False):
        row[: len(numbers)] = numbers
    return pages, table.int()


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


def rms_norm(v, gamma):
    v = v.float()
    return (v * torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-6) * gamma.float()).to(BF16)


def rope_pair(v, cos, sin):
    """rope_half of the even elements, then the odd ones."""
    return rope_half(torch.cat([v[..., ::2], v[..., 1::2]], -1), cos, sin)


def mla_arguments(t, eighth=True, pages=6, quantised=True):
    """Arguments of mla_prolog, or of mla_prolog_bf16."""
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
    """(q_nope, q_rope, latent rows, turned rows) of queries, bf16 [t, heads * ...]."""
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
    q_nope, q_rope, rows, turned = _mla(q, x, w_uk, w_dkv_kr, gamma_kv, cos, sin)
    values, new_scale = q8(rows.reshape(len(x), k_scale.shape[-1], -1))
    scatter(kv_cache, slots, values)
    scatter(kr_cache, slots, turned)
    scatter(k_scale, slots, new_scale)
    return q_nope, q_rope, q_norm, scale


def mla_prolog_bf16(
    x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, kv_cache, kr_cache, slots
):
    q_norm = rms_norm(x @ w_dq, gamma_q)
    q_nope, q_rope, rows, turned = _mla(q_norm @ w_uq_qr, x, w_uk, w_dkv_kr, gamma_kv, cos, sin)
    scatter(kv_cache, slots, rows)
    scatter(kr_cache, slots, turned)
    return q_nope, q_rope, q_norm


def sparse_arguments(lengths, s1, eighth=True, k=2048, quantised=True):
    """Arguments of sparse_attention, or of sparse_attention_bf16."""
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
            out[own] = torch.where(is_there.any(-1)[:, None, None], p.to(BF16) @ v, 0)
    return out


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


def gate_arguments(t, experts, hidden=512):
    """Arguments of topk_gate."""
    return [
        torch.randn(t, hidden), torch.randn(hidden, experts) * hidden**-0.5,
        torch.randn(experts) / 10,
    ]  # fmt: skip


def topk_gate(x, w, bias, k=8, groups=1, best_groups=1, by_two=True, scale=1.0):
    scores = (x.float() @ w.float()).sigmoid()
    choice = scores + bias
    grouped = choice.reshape(len(x), groups, -1)
    of_group = grouped.topk(2).values.sum(-1) if by_two else grouped.amax(-1)
    chosen = torch.zeros_like(of_group).scatter(1, of_group.topk(best_groups).indices, 1.0)
    among = grouped.masked_fill(chosen[..., None] == 0, -torch.inf).flatten(1)
    indices = among.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    weights = scores.gather(1, indices)
    return weights / weights.sum(-1, keepdim=True) * scale, indices


def moe_arguments(t, hidden=256, inner=96, experts=16):
    """Arguments of moe."""
    return [
        random(t, hidden), random(hidden, experts, scale=hidden**-0.5),
        random(experts, hidden, 2 * inner, scale=hidden**-0.5),
        random(experts, inner, hidden, scale=inner**-0.5),
    ]  # fmt: skip


def moe(x, w_router, w_gate_up, w_down, k=8):
    """As transformers computes Qwen3MoeSparseMoeBlock, summed in f32."""
    best = torch.softmax((x @ w_router).float(), -1).topk(k)
    weights = best.values / best.values.sum(-1, keepdim=True)
    total, inner = torch.zeros(x.shape), w_down.shape[1]
    for e in best.indices.unique().tolist():
        token, rank = torch.where(best.indices == e)
        both = x[token] @ w_gate_up[e]
        h = torch.nn.functional.silu(both[:, :inner]) * both[:, inner:]
        total.index_add_(0, token, (h @ w_down[e]).float() * weights[token, rank, None])
    return total.to(BF16)


def delta_arguments(lengths, key_heads, heads, depth=128, width=128):
    """Arguments of gated_delta_rule, f32, for sequences of these lengths."""
    t, ends = sum(lengths), torch.tensor([0, *lengths]).cumsum(0)
    return [
        torch.randn(t, key_heads, depth), torch.randn(t, key_heads, depth),
        torch.randn(t, heads, width), torch.rand(t, heads), -torch.rand(t, heads) / 4, ends,
        torch.randn(len(lengths), heads, depth, width),
    ]  # fmt: skip


def unit(v):
    return v * torch.rsqrt(v.square().sum(-1, keepdim=True) + 1e-6)


def _chunks(x, chunk):
    """[heads, chunks, chunk, ...] of [t, heads, ...], filled up with zeros."""
    x = x.transpose(0, 1)
    missing = -x.shape[1] % chunk
    x = torch.cat([x, x.new_zeros(len(x), missing, *x.shape[2:])], 1)
    return x.reshape(len(x), -1, chunk, *x.shape[2:])


def _pairs(q, k, v, beta, g):
    """The parts of gated_delta_rule that do not need the state, of all chunks at once."""
    total, q = g.cumsum(-1)[..., None], q * q.shape[-1] ** -0.5
    within = torch.ones(g.shape[-1], g.shape[-1], dtype=torch.bool).tril()
    decay = (total - total.mT).masked_fill(~within, -torch.inf).exp()
    low = (beta * (k @ k.mT) * decay).tril(-1)
    right = torch.cat([beta * v, beta * k * total.exp()], -1)
    right = torch.linalg.solve_triangular(low, right, upper=False, unitriangular=True)
    last = total[:, :, -1:]
    left = (k * (last - total).exp()).mT
    return right, q * total.exp(), (q @ k.mT) * decay, left, last.exp()


def _step(state, right, q, scores, left, keep):
    d = right[..., : state.shape[-1]] - right[..., state.shape[-1] :] @ state
    return q @ state + scores @ d, state * keep + left @ d


def gated_delta_rule(
    query, key, value, beta, g, cu_lengths, states, chunk=64, pairs=_pairs, step=_step
):
    """One sequence, in chunks: those of a head at once up to the state, then one by one."""
    t, group = len(value), value.shape[1] // key.shape[1]
    q, k = (unit(x).repeat_interleave(group, 1) for x in (query, key))
    parts = pairs(*(_chunks(x, chunk) for x in (q, k, value, beta[..., None], g)))
    state, outs = states[0], []
    for c in range(parts[0].shape[1]):
        out, state = step(state, *(x[:, c] for x in parts))
        outs.append(out)
    states[0] = state
    return torch.cat(outs, 1)[:, :t].transpose(0, 1)


def compiled_delta_rule(**options):
    """gated_delta_rule with its two parts compiled: all chunks at once would take minutes."""
    parts = {
        "pairs": torch.compile(_pairs, dynamic=False, options=options),
        "step": torch.compile(_step, dynamic=False, options=options),
    }
    return lambda *arguments: gated_delta_rule(*arguments, **parts)


def delta_token(query, key, value, beta, g, cu_lengths, states):
    """One token of one sequence."""
    group = value.shape[1] // key.shape[1]
    q, k = (unit(x[0]).repeat_interleave(group, 0)[:, None] for x in (query, key))
    state = states[0] * g[0].exp()[:, None, None]
    d = (value[0][:, None] - k @ state) * beta[0][:, None, None]
    states[0] = state + k.mT * d
    return (q @ states[0]).transpose(0, 1) * q.shape[-1] ** -0.5


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
