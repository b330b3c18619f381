# SPDX-License-Identifier: Apache-2.0
"""Products of matrices as users call them, against every library that the machine has.

pto/bench/products.py has the contenders of f32. Sizes are rows x depth x columns. `linear` has a
weight that is seen again and so packed; `few_rows` is the same with few rows, `few_rows_unpacked`
reads the matrix as it is. "one thread" is ours, beside two.
`half_products`: bf16 and f16 to f32, against PyTorch's (to its own type) and ours of f32; "packed"
has a weight. `byte_products`: int8 to i32.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

import pto.torch  # noqa: F401 registers torch.ops.pto
from bench.rooflines import of_weight, packed_once
from pto.bench.ceilings import peaks
from pto.bench.products import linear, matmul
from pto.bench.runner import Ceiling, Expected, Setting, Work, case
from pto.config import config

SQUARES = [(n, n, n) for n in (16, 32, 48, 64, 96, 128, 256, 512, 1024, 2048)]
ODD = [(97, 101, 103), (333, 1001, 515), (1000, 999, 1013)]
MODEL = [(128, 384, 1536), (512, 1536, 384), (4096, 384, 384)]
SKINNY = [(4096, 64, 64), (64, 4096, 64), (48, 1024, 1024)]
FEW = (1, 4, 16)
MATRICES = {"f32": ((4096, 4096), (1024, 1024)), "bf16": ((4096, 8192), (1024, 2048))}  # 64, 4 MB
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
FROM = 256  # rows, and more: two threads are compared with one


def on_one_thread(function: Callable, threads: int) -> Callable:
    def run() -> Any:
        config.threads = 1
        try:
            return function()
        finally:
            config.threads = threads

    return run


def unpacked(setting: Setting) -> Iterator[Any]:
    """The product, with ours on one thread beside ours on more."""
    for item in matmul(setting):
        yield item
        is_ours = isinstance(item, tuple) and item[0] == "pto"
        if is_ours and setting.threads > 1 and min(setting.size) >= FROM:
            yield "one thread", on_one_thread(item[1], setting.threads)


def few_rows(setting: Setting) -> Iterator[Any]:
    """A weight that is seen again; the ceiling is its roofline."""
    m, k, n = setting.size
    items = [item for item in linear(setting) if not isinstance(item, Ceiling)]
    ours = dict(item for item in items if isinstance(item, tuple))["pto"]
    own, packed = k * n * (4 if setting.dtype == "f32" else 2), packed_once(ours)
    yield from items
    yield from of_weight(own, packed, setting, m * k * n, setting.dtype, has_parts=True)


def half_products(setting: Setting) -> Iterator[Any]:
    m, k, n = setting.size
    dtype, ops = TYPES[setting.dtype], torch.ops.pto
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    weight, wide = b.t().contiguous(), (a.float(), b.float())
    yield "pto", lambda: ops.matmul_f32(a, b)
    yield "packed", lambda: ops.linear(a, weight)
    yield "f32", lambda: ops.matmul(*wide)
    if dtype is torch.bfloat16:  # PyTorch multiplies f16 slowly on most CPUs
        yield "torch", lambda: torch.mm(a, b)
    yield from peaks(setting.dtype, setting.threads, m * k * n)
    yield Work("GFLOP/s", 2e-9 * m * k * n)
    right = b.double()
    yield Expected(lambda rows: a[rows].double() @ right)


def byte_products(setting: Setting) -> Iterator[Any]:
    m, k, n = setting.size
    a, b = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((m, k), (k, n)))
    ours = torch.ops.pto.matmul_i32
    yield "pto", lambda: ours(a, b)
    yield "torch", lambda: torch._int_mm(a, b)
    yield from peaks("i8", setting.threads, m * k * n)
    yield from peaks("f32", setting.threads, m * k * n)
    yield Work("Gop/s", 2e-9 * m * k * n)
    right = b.double()
    yield Expected(lambda rows: a[rows].double() @ right, tolerance=0.0)


LARGER = [size for size in SQUARES if size[0] >= 128]
case("squares", sizes=SQUARES, dtypes=["f32"])(unpacked)
case("odd_shapes", sizes=ODD + MODEL + SKINNY, dtypes=["f32"])(unpacked)
case("linear", sizes=LARGER + MODEL, dtypes=["f32"])(linear)
for dtype, matrices in MATRICES.items():
    sizes = [(m, *one) for one in matrices for m in FEW]
    case(f"few_rows_{dtype}", sizes=sizes, dtypes=[dtype])(few_rows)
    if dtype == "f32":
        case("few_rows_unpacked", sizes=sizes, dtypes=["f32"])(matmul)
case("half_products", sizes=LARGER, dtypes=["bf16", "f16"])(half_products)
case("byte_products", sizes=LARGER, dtypes=["i8"])(byte_products)
