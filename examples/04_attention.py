# SPDX-License-Identifier: Apache-2.0
"""Programs: attention over a paged cache, and a quantised layer, one launch each.

    python examples/04_attention.py

Keys and values lie in pages; a table says which pages a sequence has, and its length cuts the last
one. Lengths and pages are data: one compilation serves them all, and all batch sizes.
"""

import math

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention

import pto
from pto import Tensor


@pto.jit
def attend(
    q: Tensor, keys: Tensor, values: Tensor, table: Tensor, lengths: Tensor, out: Tensor
) -> None:  # q[b, g, r, d] keys[pages, 128, g, d]
    page, scale = keys.shape[1], 1 / math.sqrt(128)
    for i in pto.loop(q.shape[0]):
        n = lengths[i]
        for h in pto.loop(q.shape[1]):
            m = pto.full([q.shape[2], 1], -math.inf)
            l, o = pto.zeros([q.shape[2], 1]), pto.zeros(q.shape[2:])  # noqa: E741
            for j in pto.loop((n + page - 1) // page):
                size = pto.min(page, n - j * page)  # a tail is a size like any other
                k, v = keys[table[i, j], :size, h], values[table[i, j], :size, h]
                s = pto.matmul(q[i, h], k, b_trans=True, out_dtype=pto.f32) * scale
                top = pto.maximum(m, s.amax(-1, keepdim=True))
                p, old = pto.exp(s - top), pto.exp(m - top)
                l, o, m = l * old + p.sum(-1, keepdim=True), o * old + p @ v, top  # noqa: E741
            out[i, h] = pto.where(l > 0, o / l, 0.0)


@pto.jit
def layer(x: Tensor, w: pto.Constant, w_scale: Tensor, gamma: Tensor) -> Tensor:
    # bf16[t, k], i8[k, n], f32[n], bf16[k]
    h = pto.rms_norm(x, gamma)
    s = 127.0 / pto.amax(pto.abs(h.float()), -1, keepdim=True)
    q = pto.cast(pto.round(h.float() * s), pto.i8, saturate=True)
    return pto.cast(pto.matmul(q, w, out_dtype=pto.i32).float() / s * w_scale, pto.bf16)


def main() -> None:
    torch.manual_seed(0)
    q, lengths = torch.randn(3, 4, 8, 128), torch.tensor([16, 300, 1000])
    keys, values = torch.randn(2, 16, 128, 4, 128)
    table = torch.randperm(16)[: 3 * 5].reshape(3, 5)
    table = torch.cat([table, table[:, :3]], 1)  # 8 pages a sequence, some of them shared
    attend(q, keys, values, table, lengths, out := torch.empty_like(q))
    for i, n in enumerate(lengths):
        k, v = (x[table[i]].reshape(-1, 4, 128)[:n].transpose(0, 1) for x in (keys, values))
        torch.testing.assert_close(out[i], scaled_dot_product_attention(q[i], k, v),
                                   rtol=1e-4, atol=1e-5)  # fmt: skip
    print(f"attention over {lengths.tolist()} keys agrees with PyTorch")

    x, gamma = torch.randn(64, 512).bfloat16(), torch.rand(512).bfloat16()
    w, w_scale = torch.randint(-127, 128, (512, 1024), dtype=torch.int8), torch.rand(1024) / 100
    exact = rms_norm(x.float(), [512], gamma.float(), 1e-6) @ (w.float() * w_scale)
    error = (layer(x, w, w_scale, gamma).float() - exact).abs().max() / exact.abs().max()
    peak = layer.explain(x, w, w_scale, gamma).memory.peak(1)
    assert error < 0.02
    print(
        f"the int8 layer differs from f32 by {error:.1%} and keeps {peak} bytes beside its result"
    )


if __name__ == "__main__":
    main()
