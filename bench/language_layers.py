# SPDX-License-Identifier: Apache-2.0
"""Layers as programs of the tile language: row functions, and products with what follows them.

`language_tower`: 12 blocks of norm, GELU and residual on rows x columns, in one kernel.
Sizes of the others are rows x depth x columns. `product, rows` is the product alone, then the same
row functions as often on rows that lie in the first cache; `product` the product alone.
"""

from collections.abc import Callable

import torch
from torch.nn import functional as F

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench.language_goals import roofline
from pto.bench.ceilings import peaks
from pto.bench.runner import Expected, Goal, Setting, case

BLOCKS = 12
LAYERS = [(128, 1536, 384), (512, 384, 1536), (4096, 4096, 4096)]
CACHED = 16 << 10  # bytes of rows in the first cache


@pto.jit
def tower(x, gamma):
    for i in range(BLOCKS):
        centred = x - pto.mean(x, -1, keepdim=True)
        spread = pto.mean(centred * centred, -1, keepdim=True)
        x = x + pto.gelu(centred * pto.rsqrt(spread + 1e-5) * gamma[i])
    return x


def torch_tower(x, gamma):
    for i in range(BLOCKS):
        x = x + F.gelu(F.layer_norm(x, x.shape[-1:], gamma[i]))
    return x


@case("language_tower", sizes=[(4096, 1024)], dtypes=["f32"])
def language_tower(setting: Setting):
    rows, columns = setting.size
    x, gamma = torch.randn(rows, columns), torch.rand(BLOCKS, columns) + 0.5
    compiled = torch.compile(torch_tower, dynamic=False)
    yield "pto", lambda: tower(x, gamma)
    yield "torch.compile", lambda: compiled(x, gamma)
    yield Expected(lambda r: torch_tower(x[r].double(), gamma.double()), tolerance=1e-4)
    yield Goal("pto", "torch.compile", at_most=0.5)
    yield Goal("pto", "", at_most=roofline(tower, x, gamma) / 0.85)


# --- products ------------------------------------------------------------------------------------


@pto.jit
def product(x, w: pto.Constant):
    return x @ w


def gelu_rows(h, bias):
    return pto.gelu(h + bias)


def norm_rows(h, bias, residual, gamma):
    h = h + bias + residual
    centred = h - pto.mean(h, -1, keepdim=True)
    spread = pto.mean(centred * centred, -1, keepdim=True)
    return centred * pto.rsqrt(spread + 1e-5) * gamma


gelu_alone, norm_alone = pto.jit(gelu_rows), pto.jit(norm_rows)


@pto.jit
def gelu_layer(x, w: pto.Constant, bias):
    return gelu_rows(x @ w, bias)


@pto.jit
def norm_layer(x, w: pto.Constant, bias, residual, gamma):
    return norm_rows(x @ w, bias, residual, gamma)


def giving(result: torch.Tensor, run: Callable) -> Callable:
    """A function that runs a part of the work; its result is the right one."""
    kept = result.clone()

    def both():
        run()
        return kept

    return both


def parts(alone, x, w, of_rows, others):
    """The product, then the row functions as often on rows that stay in the cache."""
    rows, columns = x.shape[0], w.shape[1]
    few = max(1, min(rows, CACHED // (4 * columns)))
    h, given = torch.randn(few, columns), [v[:few] for v in of_rows]
    for_each = range(rows // few)

    def run():
        product(x, w)
        for _ in for_each:
            alone(h, others[0], *given, *others[1:])

    return run


@case("language_gelu", sizes=LAYERS, dtypes=["f32"])
def language_gelu(setting: Setting):
    rows, depth, columns = setting.size
    x, w, bias = (torch.randn(s) for s in ((rows, depth), (depth, columns), (columns,)))
    right = F.gelu(torch.addmm(bias, x, w))
    yield "pto", lambda: gelu_layer(x, w, bias)
    yield "product, rows", giving(right, parts(gelu_alone, x, w, (), (bias,)))
    yield "torch", lambda: F.gelu(torch.addmm(bias, x, w))
    yield Expected(lambda r: F.gelu(x[r].double() @ w.double() + bias.double()), tolerance=1e-3)
    yield from peaks("f32", setting.threads, rows * depth * columns)
    yield Goal("pto", "product, rows", at_most=1.03)


@case("language_layer_norm", sizes=LAYERS, dtypes=["f32"])
def language_layer_norm(setting: Setting):
    rows, depth, columns = setting.size
    x, w, residual = (torch.randn(s) for s in ((rows, depth), (depth, columns), (rows, columns)))
    bias, gamma = torch.randn(columns), torch.rand(columns)

    def theirs():
        return F.layer_norm(torch.addmm(bias, x, w) + residual, (columns,), gamma)

    yield "pto", lambda: norm_layer(x, w, bias, residual, gamma)
    apart = parts(norm_alone, x, w, (residual,), (bias, gamma))
    yield "product, rows", giving(theirs(), apart)
    yield "torch", theirs

    def exact(r):
        h = x[r].double() @ w.double() + bias.double() + residual[r].double()
        return F.layer_norm(h, (columns,), gamma.double())

    yield Expected(exact, tolerance=1e-4)
    yield from peaks("f32", setting.threads, rows * depth * columns)
    yield Goal("pto", "product, rows", at_most=1.03)


# --- quantised -----------------------------------------------------------------------------------


@pto.jit
def quantised(x, w: pto.Constant, w_scale):
    s = 127.0 / pto.amax(pto.abs(x.float()), -1, keepdim=True)
    q = pto.cast(pto.round(x.float() * s), pto.i8, saturate=True)
    return pto.cast(pto.matmul(q, w, pto.i32).float() / s * w_scale, pto.bf16)


@pto.jit
def bytes_alone(q, w: pto.Constant):
    return pto.matmul(q, w, pto.i32)


def torch_quantised(x, w, w_scale):
    s = 127.0 / x.float().abs().amax(-1, keepdim=True)
    q = (x.float() * s).round().clamp(-128, 127).to(torch.int8)
    return (torch._int_mm(q, w).float() / s * w_scale).bfloat16()


@case("language_quantised", dtypes=["bf16"],
      sizes=[(8, 4096, 4096), (512, 4096, 4096), (8, 7168, 1536), (512, 7168, 1536)])  # fmt: skip
def language_quantised(setting: Setting):
    rows, depth, columns = setting.size
    x, w_scale = torch.randn(rows, depth).bfloat16(), torch.rand(columns) / 100
    w = torch.randint(-127, 128, (depth, columns), dtype=torch.int8)
    q = torch.randint(-127, 128, (rows, depth), dtype=torch.int8)
    yield "pto", lambda: quantised(x, w, w_scale)
    if rows > 16:  # _int_mm takes no fewer
        yield "torch", lambda: torch_quantised(x, w, w_scale)
        yield from peaks("i8", setting.threads, rows * depth * columns)
    yield Expected(lambda r: torch_exactly(x[r], w, w_scale), tolerance=0.2)  # ties of rounding
    yield Goal("pto", "torch", at_most=0.67)
    right = torch_exactly(x, w, w_scale).bfloat16()
    yield "product", giving(right, lambda: bytes_alone(q, w))
    yield Goal("pto", "product", at_most=round(1 / (0.95 if rows == 8 else 0.92), 2))


def torch_exactly(x, w, w_scale):
    s = 127.0 / x.float().abs().amax(-1, keepdim=True)
    q = (x.float() * s).round().clamp(-128, 127)
    return q.double() @ w.double() / s * w_scale
