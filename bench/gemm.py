# SPDX-License-Identifier: Apache-2.0
"""Products of f32 matrices as users call them, against every library that the machine has.

pto/bench/products.py has the contenders. `linear_gelu` adds bias and GELU. Sizes are rows x depth x
columns.
"""

import torch
from torch.nn import functional as F

import pto.torch  # noqa: F401 registers torch.ops.pto
from pto.bench.products import linear, matmul
from pto.bench.runner import Ceiling, Expected, Setting, case

SQUARE = (16, 32, 48, 64, 96, 128, 256, 512, 1024, 2048)
ODD = [(97, 101, 103), (333, 1001, 515), (1000, 999, 1013)]
MODEL = [(128, 384, 1536), (512, 1536, 384), (4096, 384, 384)]
SKINNY = [(m, k, n) for k, n in ((4096, 4096), (1024, 1024)) for m in (1, 4, 16)]


def followed(setting: Setting):
    """A layer with GELU: in one pass, by two kernels, by PyTorch; the ceiling is the product."""
    m, k, n = setting.size
    a, weight, bias = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
    ops = torch.ops.pto
    yield "pto", lambda: ops.linear(a, weight, bias, activation="gelu")
    yield "apart", lambda: ops.bias_gelu(ops.linear(a, weight), bias)
    yield "torch", lambda: F.gelu(F.linear(a, weight, bias))
    yield Ceiling("product", lambda: ops.linear(a, weight), 1)
    want = weight.double().t()
    yield Expected(lambda rows: F.gelu(a[rows].double() @ want + bias.double()), tolerance=1e-6 * k)


SIZES = [(n, n, n) for n in SQUARE] + ODD + MODEL
case("gemm", sizes=SIZES, dtypes=["f32"])(matmul)
case("few_rows", sizes=SKINNY, dtypes=["f32"])(matmul)
case("linear", sizes=MODEL + SKINNY, dtypes=["f32"])(linear)
case("linear_gelu", sizes=[(128, 1536, 384), (512, 384, 1536)], dtypes=["f32"])(followed)
