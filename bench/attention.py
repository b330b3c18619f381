# SPDX-License-Identifier: Apache-2.0
"""Attention as users call it, against PyTorch's scaled_dot_product_attention.

pto/bench/attention.py has the contenders of `not_causal` and `causal`; sizes are heads x length x
width, as those of `gradients` are; their ceilings are multiply-adds alone, of which the goals are
shares. Sizes of decode are heads x heads of the cache x length of the cache x width, one query; the
ceiling is what binds: reading the cache once, or the sum of the softmax and the multiply-adds, by
tiles, by pairs or with each bf16 widened once. Pairs are of two values below each other: a permute
makes those of a vector.
"""

from collections.abc import Iterator

import torch
from torch.nn import functional as F

import pto.torch  # noqa: F401 registers torch.ops.pto
from bench.rooflines import WEIGHT, functions, total
from pto.bench.attention import attention, causal, pairs
from pto.bench.ceilings import binding, peaks
from pto.bench.runner import Ceiling, Expected, Setting, case
from pto.ceilings import Read

LENGTHS = (512, 1024, 2048, 4096)
SIZES = [(4, n, d) for d in (64, 128) for n in LENGTHS] + [(96, 64, 32), (12, 128, 32)]
CACHES = [(8, 8, 16384, 128), (32, 4, 32768, 128), (32, 8, 16384, 128), (32, 8, 4096, 128)]


HALF_SIZES = [(4, n, 64) for n in (512, 2048)] + [(4, 2048, 128)]
case("not_causal", sizes=SIZES, dtypes=["f32"])(attention)
case("causal", sizes=SIZES, dtypes=["f32"])(causal)
case("not_causal_bf16", sizes=HALF_SIZES, dtypes=["bf16"])(attention)
case("causal_bf16", sizes=HALF_SIZES, dtypes=["bf16"])(causal)


def trained(setting: Setting, is_causal: bool):
    """The gradients of q, k and v: five products where attention has two."""
    heads, length, width = setting.size
    q, k, v = (torch.randn(1, heads, length, width, requires_grad=True) for _ in range(3))
    d = torch.randn(1, heads, length, width)
    with torch.enable_grad():
        # As PyTorch does, it keeps the logarithms of the sums; attention finds them again.
        ours = torch.ops.pto.attention_with_log_sums(q, k, v, causal=is_causal)[0]
        theirs = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    def gradients(result):
        return torch.stack(torch.autograd.grad(result, (q, k, v), d, retain_graph=True))

    yield "pto", lambda: gradients(ours)
    yield "torch", lambda: gradients(theirs)
    work = 5 * heads * pairs(length, length, is_causal) * width
    yield from peaks("f32", setting.threads, work)

    def exact(rows):
        double = [x.detach().double().requires_grad_() for x in (q, k, v)]
        with torch.enable_grad():
            result = F.scaled_dot_product_attention(*double, is_causal=is_causal)
        return torch.stack(torch.autograd.grad(result, double, d.double()))[rows]

    yield Expected(exact, tolerance=1e-4)


TRAINED = [(4, n, 64) for n in (512, 2048)] + [(4, 2048, 128)]
case("gradients", sizes=TRAINED, dtypes=["f32"])(lambda setting: trained(setting, False))
case("causal_gradients", sizes=TRAINED, dtypes=["f32"])(lambda setting: trained(setting, True))


@case("decode", sizes=CACHES, dtypes=["f32", "bf16"])
def decode(setting: Setting):
    heads, kept, length, width = setting.size
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[setting.dtype]
    q = torch.randn(heads, 1, width).to(dtype)
    cache = torch.randn(2, kept, length, width).to(dtype)
    k, v = cache
    yield "pto", lambda: torch.ops.pto.attention(q, k, v)
    batch = q[None], k[None], v[None]
    yield "torch", lambda: F.scaled_dot_product_attention(*batch, enable_gqa=True)[0]
    read = Ceiling("read", Read(cache.view(torch.uint8), setting.threads), 1)
    scores, values, threads = heads * length, kept * length * width, setting.threads
    elements = WEIGHT[setting.dtype] * scores

    def computed(dtype: str, way: str, conversions: float) -> Iterator[Ceiling]:
        operations = [*functions(threads, elements + conversions, exp=scores)]
        for products in peaks(dtype, threads, 2 * scores * width):
            if way in products.name:
                yield total(f"computing, {products.name}", [products, *operations])

    is_half = setting.dtype == "bf16"
    found = [*computed("f32", "f32", 2 * values if is_half else 0)]
    if is_half:
        found += computed("bf16", "pairs", values / 2)
        found += computed("bf16", "tiles", values / 2)
    yield binding([read, binding(found, choose=min)])

    def exact(rows):
        double = q.double(), k.double(), v.double()
        return F.scaled_dot_product_attention(*double, enable_gqa=True)[rows]

    yield Expected(exact, tolerance=1e-5 if setting.dtype == "f32" else 1e-2)
