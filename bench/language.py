# SPDX-License-Identifier: Apache-2.0
"""Programs of the tile language, against what their users would call otherwise.

Sizes of paged_attention are sequences x heads of the cache x queries a head x width; lengths lie
between 16 and 4096. The ceiling is reading all keys and values once. PyTorch gets keys that were
gathered before; "torch, gathering" gathers them as a call of a paged cache must.
Sizes of layer_gelu are rows x depth x columns; `matmul` is PyTorch's product alone.
"""

import math

import pto.torch  # noqa: F401 registers torch.ops.pto
import torch
from torch.nn import functional as F

import pto
from pto.bench.ceilings import peaks
from pto.bench.runner import Ceiling, Expected, Setting, case
from pto.ceilings import Read

PAGE = 128


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
                s = pto.matmul(q[i, h], k, b_trans=True) * scale
                top = pto.maximum(m, s.amax(-1, keepdim=True))
                p, old = pto.exp(s - top), pto.exp(m - top)
                l, o, m = l * old + p.sum(-1, keepdim=True), o * old + p @ v, top  # noqa: E741
            out[i, h] = pto.where(l > 0, o / l, 0.0)


@case("paged_attention", sizes=[(32, 4, 8, 128), (1, 4, 8, 128)], dtypes=["f32"])
def paged_attention(setting: Setting):
    sequences, heads, queries, width = setting.size
    lengths = torch.linspace(16, 4096, sequences).long() if sequences > 1 else torch.tensor([4096])
    counts = (lengths + PAGE - 1) // PAGE
    cache = torch.randn(2, int(counts.sum()), PAGE, heads, width)
    order, table = torch.randperm(cache.shape[1]), torch.zeros(sequences, 32, dtype=torch.int64)
    for i, end in enumerate(counts.cumsum(0)):
        table[i, : counts[i]] = order[end - counts[i] : end]
    q = torch.randn(sequences, heads, queries, width)
    out = torch.empty_like(q)

    def gathered(i: int):
        rows = cache[:, table[i, : counts[i]]].reshape(2, -1, heads, width)[:, : lengths[i]]
        return rows.transpose(1, 2).contiguous()

    def attended(rows, pairs, x):
        return torch.stack([
            F.scaled_dot_product_attention(x[i][None], k[None], v[None])[0]
            for i, (k, v) in zip(rows, pairs, strict=True)
        ])  # fmt: skip

    def ours():
        attend(q, *cache, table, lengths, out)
        return out

    known = [gathered(i) for i in range(sequences)]
    yield "pto", ours
    yield "torch", lambda: attended(range(sequences), known, q)
    yield "torch, gathering", lambda: attended(range(sequences), map(gathered, range(sequences)), q)
    yield Ceiling("read", Read(cache, setting.threads), 1)

    def exact(rows):
        chosen = range(sequences)[rows] if isinstance(rows, slice) else rows.tolist()
        return attended(chosen, [gathered(i).double() for i in chosen], q.double())

    yield Expected(exact, tolerance=1e-5)


@pto.jit
def gelu_layer(x, w, bias):
    return pto.gelu(x @ w + bias)


@case("layer_gelu", sizes=[(512, 384, 1536), (128, 1536, 384)], dtypes=["f32"])
def layer_gelu(setting: Setting):
    rows, depth, columns = setting.size
    x, w, bias = (torch.randn(s) for s in ((rows, depth), (depth, columns), (columns,)))
    yield "pto", lambda: gelu_layer(x, w, bias)
    yield "torch", lambda: F.gelu(torch.addmm(bias, x, w))
    yield from peaks("f32", setting.threads, rows * depth * columns)
    yield Expected(lambda r: F.gelu(x[r].double() @ w.double() + bias.double()), tolerance=1e-4)
