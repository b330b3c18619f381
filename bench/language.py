# SPDX-License-Identifier: Apache-2.0
"""Programs of the tile language with loops over data, against what users would call otherwise.

`language_attention`: attention over a paged cache. Sizes are sequences x heads of the cache x
queries a head x width x the largest length; lengths lie between 16 and that. The ceiling is the
larger of reading all keys and values once and of the sum of the softmax and the multiply-adds.
PyTorch gets keys that were gathered before; "torch, gathering" gathers them as a call of a paged
cache must.
`language_decode`: 64 calls of it, each sequence one longer at each, against as many of one length.
"""

import math

import torch
from torch.nn import functional as F

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench.rooflines import WEIGHT, functions, total
from pto.bench.ceilings import binding, peaks
from pto.bench.runner import Ceiling, Expected, Goal, Setting, case
from pto.ceilings import Read

PAGE, CALLS = 128, 64


@pto.jit
def attend(q, keys, values, table, lengths, out):
    page, scale = keys.shape[1], 1 / math.sqrt(128)
    for i in pto.loop(q.shape[0]):
        n = lengths[i]
        for h in pto.loop(q.shape[1]):
            m = pto.full([q.shape[2], 1], -math.inf)
            l, o = pto.zeros([q.shape[2], 1]), pto.zeros(q.shape[2:])  # noqa: E741
            for j in pto.loop((n + page - 1) // page):
                size = pto.min(page, n - j * page)
                k, v = keys[table[i, j], :size, h], values[table[i, j], :size, h]
                s = pto.matmul(q[i, h], k, pto.f32, b_trans=True) * scale
                top = pto.maximum(m, s.amax(-1, keepdim=True))
                p, old = pto.exp(s - top), pto.exp(m - top)
                seen = pto.matmul(pto.cast(p, v.dtype), v, pto.f32)
                l, o, m = l * old + p.sum(-1, keepdim=True), o * old + seen, top  # noqa: E741
            out[i, h] = pto.where(l > 0, o / l, 0.0)


class Cache:
    """Keys and values of sequences in pages of random order, and queries."""

    def __init__(self, size: tuple[int, ...], lengths: torch.Tensor, dtype: torch.dtype):
        sequences, self.heads, queries, self.width = size
        self.lengths, self.counts = lengths, (lengths + PAGE - 1) // PAGE
        self.memory = torch.randn(2, int(self.counts.sum()), PAGE, self.heads, self.width)
        self.memory = self.memory.to(dtype)
        order = torch.randperm(self.memory.shape[1])
        self.table = torch.zeros(sequences, int(self.counts.max()), dtype=torch.int64)
        for i, end in enumerate(self.counts.cumsum(0)):
            self.table[i, : self.counts[i]] = order[end - self.counts[i] : end]
        self.q = torch.randn(sequences, self.heads, queries, self.width).to(dtype)
        self.out = torch.empty(self.q.shape)

    def gathered(self, i: int) -> torch.Tensor:
        rows = self.memory[:, self.table[i, : self.counts[i]]]
        rows = rows.reshape(2, -1, self.heads, self.width)[:, : self.lengths[i]]
        return rows.transpose(1, 2).contiguous()

    def attended(self, lengths: torch.Tensor) -> torch.Tensor:
        attend(self.q, *self.memory, self.table, lengths, self.out)
        return self.out


def attention_of(rows, pairs, x):
    return torch.stack([
        F.scaled_dot_product_attention(x[i][None], k[None], v[None])[0]
        for i, (k, v) in zip(rows, pairs, strict=True)
    ])  # fmt: skip


@case("language_attention", dtypes=["f32", "bf16"],
      sizes=[(32, 4, 8, 128, 4096), (1, 4, 8, 128, 4096), (32, 4, 8, 128, 16384)])  # fmt: skip
def language_attention(setting: Setting):
    *size, most = setting.size
    sequences = size[0]
    lengths = torch.linspace(16, most, sequences).long() if sequences > 1 else torch.tensor([most])
    cache = Cache(size, lengths, {"f32": torch.float32, "bf16": torch.bfloat16}[setting.dtype])
    known, every = [cache.gathered(i) for i in range(sequences)], range(sequences)
    yield "pto", lambda: cache.attended(lengths)
    yield "torch", lambda: attention_of(every, known, cache.q)
    if most < 16384:
        yield "torch, gathering", lambda: attention_of(every, map(cache.gathered, every), cache.q)
    read = Ceiling("read", Read(cache.memory.view(torch.uint8), setting.threads), 1)
    multiply_adds = 2.0 * int(lengths.sum()) * cache.q[0].numel()
    scores = multiply_adds / 2 / cache.width
    products = binding(peaks(setting.dtype, setting.threads, multiply_adds), min)
    operations = functions(setting.threads, WEIGHT[setting.dtype] * scores, exp=scores)
    limit = binding([read, total("computing", [products, *operations])])
    yield limit
    yield Goal("pto", "torch", at_most=1.0)
    yield Goal("pto", limit.name, at_most=round(1 / 0.8, 2))

    def exact(rows):
        chosen = every[rows] if isinstance(rows, slice) else rows.tolist()
        return attention_of(chosen, [known[i].double() for i in chosen], cache.q.double())

    yield Expected(exact, tolerance=1e-5 if setting.dtype == "f32" else 2e-2)


@case("language_decode", sizes=[(32, 4, 8, 128)], dtypes=["f32"])
def language_decode(setting: Setting):
    begin = torch.linspace(100, 1000, setting.size[0]).long()
    cache = Cache(setting.size, begin + CALLS, torch.float32)
    growing = [begin + call for call in range(CALLS)]

    def calls(lengths):
        def run():
            for one in lengths:
                cache.attended(one)
            return cache.out

        return run

    yield "pto", calls(growing)
    yield "of one length", calls([begin + CALLS // 2] * CALLS)
    yield Goal("pto", "of one length", at_most=1.05)
    calls(growing)()  # the first one takes memory for all
    before = pto.memory()
    calls(growing)()
    made = {name: pto.memory()[name] - bytes for name, bytes in before.items()}
    if any(made.values()):
        print(f"  MISSED  no allocation in {CALLS} calls: {made}")
