# SPDX-License-Identifier: Apache-2.0
"""Linear layers with weights of 8 and 4 bits, against PyTorch's own, with x in f32 and in bf16, and
against its dense layer in bf16, for 4 bits also ours.

The weight is seen again and again, so pto packs it by itself. The ceiling is the larger of reading
the weight once and of its multiply-adds, for 4 bits with one permutation and one shift a vector.
Numbers fit bf16. PyTorch's in f32 is measured where it is fast enough. Sizes are rows x depth x
columns.
"""

import torch
from torch.nn import functional as F

import pto.torch  # noqa: F401 registers torch.ops.pto
from bench.rooflines import of_weight, packed_once
from pto.bench.ceilings import peaks
from pto.bench.runner import Expected, Setting, case

GROUP = 128
SLOW = 16 * 1024  # results: PyTorch's int4 in f32 takes half a second for so many
SIZES = [(m, 4096, n) for n in (16384, 1024) for m in (1, 4, 16)] + [(512, 4096, 1024)]


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float()


def int8(setting: Setting):
    m, k, n = setting.size
    x, scale = rounded(torch.randn(m, k)), rounded(torch.rand(n) / 128)
    weight = torch.randint(-128, 128, (n, k), dtype=torch.int8)
    half, narrow = weight.bfloat16(), x.bfloat16()
    theirs, ours = torch.ops.aten._weight_int8pack_mm, torch.ops.pto.linear_int8
    packed = packed_once(lambda: ours(x, weight, scale))
    yield "pto", lambda: ours(x, weight, scale)
    yield "pto bf16", lambda: ours(narrow, weight, scale)
    yield "in bf16", lambda: theirs(narrow, weight, scale.bfloat16())
    yield "dense", lambda: F.linear(narrow, half) * scale
    yield from of_weight(weight.nbytes, packed, setting, m * k * n)
    yield Expected(lambda rows: x[rows].double() @ weight.double().t() * scale, tolerance=0.2)


def int4(setting: Setting):
    m, k, n = setting.size
    x, aten = rounded(torch.randn(m, k)), torch.ops.aten
    numbers = torch.randint(0, 16, (n, k), dtype=torch.int32)
    grid = rounded(torch.rand(k // GROUP, n, 2) / 8)
    scale, zero = grid.unbind(-1)
    pairs = (numbers & 255) ^ 8
    weight = (pairs[:, ::2] | pairs[:, 1::2] << 4).to(torch.uint8)
    packed = aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
    wide = (numbers - 8) * scale.repeat_interleave(GROUP, 0).t()
    wide = wide + zero.repeat_interleave(GROUP, 0).t()
    half, narrow, grid16 = wide.bfloat16(), x.bfloat16(), grid.bfloat16()
    given = [one.contiguous() for one in (scale, zero)]
    ours, theirs = torch.ops.pto.linear_int4, aten._weight_int4pack_mm_for_cpu
    dense, own = torch.ops.pto.linear, sum(one.nbytes for one in (weight, *given))
    read = packed_once(lambda: ours(x, weight, *given, group=GROUP))
    yield "pto", lambda: ours(x, weight, *given, group=GROUP)
    yield "pto bf16", lambda: ours(narrow, weight, *given, group=GROUP)
    if m * n <= SLOW:
        yield "torch", lambda: theirs(x, packed, GROUP, grid)
    yield "in bf16", lambda: theirs(narrow, packed, GROUP, grid16)
    yield "dense", lambda: F.linear(narrow, half)
    yield "pto dense", lambda: dense(narrow, half)
    yield from of_weight(own, read, setting, (m + 2) * k * n)
    yield Expected(lambda rows: x[rows].double() @ wide.double().t(), tolerance=0.2)


def bytes_by_bytes(setting: Setting):
    """The product with its scales; "dynamic" also makes bytes of floats, which are multiples of
    their scales, so that bytes lose nothing. "f32" quantises nothing."""
    m, k, n = setting.size
    scale, ops = torch.rand(n) / 128, torch.ops.pto
    weight = torch.randint(-128, 128, (n, k), dtype=torch.int8)
    rows, row_scale = ops.quantize_rows(torch.randn(m, k))
    x = rows * row_scale[:, None]
    wide = weight * scale[:, None]
    yield "pto", lambda: ops.scaled_matmul(rows, weight, row_scale, scale)
    yield "dynamic", lambda: dynamic(x, weight, scale)
    yield "f32", lambda: ops.linear(x, wide)
    turned = weight.t()
    scales = row_scale[:, None] * scale
    yield "torch", lambda: torch._int_mm(rows, turned) * scales
    yield from peaks("i8", setting.threads, m * k * n)
    yield Expected(lambda of: x[of].double() @ wide.double().t(), tolerance=1e-3)


def dynamic(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    rows, row_scale = torch.ops.pto.quantize_rows(x)
    return torch.ops.pto.scaled_matmul(rows, weight, row_scale, scale)


MODEL = [(128, 384, 1536), (512, 1536, 384), (4096, 384, 384)]
case("scaled_matmul", sizes=MODEL, dtypes=["f32"])(bytes_by_bytes)
case("linear_int8", sizes=SIZES, dtypes=["f32"])(int8)
case("linear_int4", sizes=SIZES, dtypes=["f32"])(int4)
