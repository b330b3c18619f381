# SPDX-License-Identifier: Apache-2.0
"""Activations and what models fuse with them: a bias before, a product after.

f16 and bf16 are computed in f32 and rounded once, at the end.
"""

import math

import numpy as np

from pto.language import nn
from pto.language.dtypes import bf16, f16, f32, f64
from pto.language.elementwise import erf, exp, sigmoid
from pto.language.op import op
from pto.language.tensor import Tensor
from pto.language.types import cast, wide

TOLERANCE = {f64: 1e-13, f32: 2e-6, f16: 2e-3, bf16: 1.6e-2}
CUBIC = 0.044715  # of PyTorch's approximation by tanh


def gelu_slope(x: Tensor, approximate: str) -> Tensor:
    """The derivative of gelu at x."""
    if approximate == "tanh":
        scale = 2 * math.sqrt(2 / math.pi)
        s = sigmoid(scale * (x + CUBIC * x * x * x))
        return s + x * s * (1 - s) * (scale + 3 * scale * CUBIC * x * x)
    normal = 0.5 * (1 + erf(x * math.sqrt(0.5)))
    return normal + x * exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


def silu_slope(x: Tensor) -> Tensor:
    """The derivative of silu at x."""
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


def gelu_in_numpy(x: np.ndarray, approximate: str) -> np.ndarray:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + CUBIC * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x * math.sqrt(0.5)))


def silu_in_numpy(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.tanh(0.5 * x))


@op("gelu(Tensor x, *, str approximate='none') -> Tensor")
class Gelu:
    """x times the normal distribution function of x; "tanh" takes PyTorch's approximation."""

    def infer(x, approximate):
        return x.like()

    def build(x, approximate):
        return nn.gelu(x, approximate)

    def grad(ctx, d_result):
        x = wide(ctx.saved("x"))
        slope = gelu_slope(x, ctx.attribute("approximate"))
        return cast(wide(d_result) * slope, d_result.dtype)

    def oracle(x, approximate="none"):
        return gelu_in_numpy(x, approximate)

    tolerance = TOLERANCE


@op("bias_gelu(Tensor x, Tensor bias, *, str approximate='none') -> Tensor")
class BiasGelu:
    """gelu(x + bias)."""

    def build(x, bias, approximate):
        return cast(nn.gelu(wide(x) + wide(bias), approximate), x.dtype)

    def grad(ctx, d_result):
        sum_ = wide(ctx.saved("x")) + wide(ctx.saved("bias"))
        d = cast(wide(d_result) * gelu_slope(sum_, ctx.attribute("approximate")), d_result.dtype)
        return {"x": d, "bias": d}

    def oracle(x, bias, approximate="none"):
        return gelu_in_numpy(x + bias, approximate)

    vectors = ("bias",)
    tolerance = TOLERANCE


@op("silu(Tensor x) -> Tensor")
class Silu:
    """x * sigmoid(x)."""

    def build(x):
        return nn.silu(x)

    def grad(ctx, d_result):
        return cast(wide(d_result) * silu_slope(wide(ctx.saved("x"))), d_result.dtype)

    def oracle(x):
        return silu_in_numpy(x)

    tolerance = TOLERANCE


@op("silu_mul(Tensor x, Tensor y) -> Tensor")
class SiluMul:
    """silu(x) * y: the gate of a SwiGLU layer."""

    def build(x, y):
        return cast(nn.silu(wide(x)) * wide(y), x.dtype)

    def grad(ctx, d_result):
        x, y, d = wide(ctx.saved("x")), wide(ctx.saved("y")), wide(d_result)
        gradients = {"x": d * y * silu_slope(x), "y": d * nn.silu(x)}
        return {name: cast(value, d_result.dtype) for name, value in gradients.items()}

    def oracle(x, y):
        return silu_in_numpy(x) * y

    tolerance = TOLERANCE
