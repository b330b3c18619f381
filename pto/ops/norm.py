# SPDX-License-Identifier: Apache-2.0
"""Normalisations along an axis, and what models fuse before them: a bias, a residual.

f16 and bf16 are computed in f32 and rounded once, at the end. The variance is that of centred
values, divided by the number of elements.
"""

import numpy as np

from pto.language import nn
from pto.language.dtypes import bf16, f16, f32, f64
from pto.language.elementwise import rsqrt, square
from pto.language.op import op
from pto.language.reduce import centred, mean
from pto.language.tensor import Tensor
from pto.language.types import cast, wide

TOLERANCE = {f64: 1e-13, f32: 4e-6, f16: 4e-3, bf16: 3e-2}


def layer_norm_gradients(
    x: Tensor, weight: Tensor, eps: Tensor, d_result: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of layer_norm by x, weight (not yet summed over the rows) and bias."""
    d = wide(d_result)
    c = centred(x, [x.ndim - 1])
    scale = rsqrt(mean(square(c), -1, True) + eps)
    y, g = c * scale, d * wide(weight)
    d_x = scale * (g - mean(g, -1, True) - y * mean(g * y, -1, True))
    return d_x, d * y, d


def alike(gradients: dict[str, Tensor], d_result: Tensor) -> dict[str, Tensor]:
    return {name: cast(value, d_result.dtype) for name, value in gradients.items()}


def layer_norm_in_numpy(x, weight, bias, eps):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt(np.square(c).mean(-1, keepdims=True) + eps) * weight + bias


def rms_norm_in_numpy(x, weight, eps):
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps) * weight


@op("layer_norm(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor")
class LayerNorm:
    """x with mean 0 and variance 1 along the last axis, times weight, plus bias."""

    def build(x, weight, bias, eps):
        return cast(nn.layer_norm(wide(x), wide(weight), wide(bias), eps), x.dtype)

    def grad(ctx, d_result):
        ctx.saved("bias")  # its shape
        x, weight = ctx.saved("x"), ctx.saved("weight")
        d = layer_norm_gradients(wide(x), weight, ctx.attribute("eps"), d_result)
        return alike({"x": d[0], "weight": d[1], "bias": d[2]}, d_result)

    def oracle(x, weight, bias, eps=1e-5):
        return layer_norm_in_numpy(x, weight, bias, eps)

    vectors = ("weight", "bias")
    tolerance = TOLERANCE


@op(
    "add_layer_norm(Tensor x, Tensor residual, Tensor weight, Tensor bias, float eps=1e-5)"
    " -> Tensor"
)
class AddLayerNorm:
    """layer_norm(x + residual)."""

    def build(x, residual, weight, bias, eps):
        sum_ = wide(x) + wide(residual)
        return cast(nn.layer_norm(sum_, wide(weight), wide(bias), eps), x.dtype)

    def grad(ctx, d_result):
        ctx.saved("bias")  # its shape
        sum_ = wide(ctx.saved("x")) + wide(ctx.saved("residual"))
        d = layer_norm_gradients(sum_, ctx.saved("weight"), ctx.attribute("eps"), d_result)
        return alike({"x": d[0], "residual": d[0], "weight": d[1], "bias": d[2]}, d_result)

    def oracle(x, residual, weight, bias, eps=1e-5):
        return layer_norm_in_numpy(x + residual, weight, bias, eps)

    vectors = ("weight", "bias")
    tolerance = TOLERANCE


@op(
    "bias_add_layer_norm(Tensor x, Tensor bias, Tensor residual, Tensor weight, Tensor ln_bias,"
    " float eps=1e-5) -> Tensor"
)
class BiasAddLayerNorm:
    """layer_norm(x + bias + residual): what follows the matrix product of a transformer layer."""

    def build(x, bias, residual, weight, ln_bias, eps):
        sum_ = wide(x) + wide(bias) + wide(residual)
        return cast(nn.layer_norm(sum_, wide(weight), wide(ln_bias), eps), x.dtype)

    def grad(ctx, d_result):
        ctx.saved("ln_bias")  # its shape
        sum_ = wide(ctx.saved("x")) + wide(ctx.saved("bias")) + wide(ctx.saved("residual"))
        d = layer_norm_gradients(sum_, ctx.saved("weight"), ctx.attribute("eps"), d_result)
        by_sum = dict.fromkeys(("x", "bias", "residual"), d[0])
        return alike({**by_sum, "weight": d[1], "ln_bias": d[2]}, d_result)

    def oracle(x, bias, residual, weight, ln_bias, eps=1e-5):
        return layer_norm_in_numpy(x + bias + residual, weight, ln_bias, eps)

    vectors = ("bias", "weight", "ln_bias")
    tolerance = TOLERANCE


@op("rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor")
class RmsNorm:
    """x divided by the root of its mean square along the last axis, times weight."""

    def build(x, weight, eps):
        return cast(nn.rms_norm(wide(x), wide(weight), eps), x.dtype)

    def grad(ctx, d_result):
        x, weight, d = wide(ctx.saved("x")), wide(ctx.saved("weight")), wide(d_result)
        scale = rsqrt(mean(square(x), -1, True) + ctx.attribute("eps"))
        y, g = x * scale, d * weight
        return alike({"x": scale * (g - y * mean(g * y, -1, True)), "weight": d * y}, d_result)

    def oracle(x, weight, eps=1e-6):
        return rms_norm_in_numpy(x, weight, eps)

    vectors = ("weight",)
    tolerance = TOLERANCE


@op("softmax(Tensor x, int dim=-1) -> Tensor")
class Softmax:
    """exp(x) times the reciprocal of its sum along `dim`, without overflow."""

    def build(x, dim):
        return nn.softmax(x, dim) if x.ndim else nn.softmax(x.unsqueeze(0), dim).squeeze(0)

    def grad(ctx, d_result):
        y, d = wide(ctx.saved("result")), wide(d_result)
        if y.ndim == 0:
            return d_result * 0.0
        dim = ctx.attribute("dim")
        return cast(y * (d - (d * y).sum(dim, True)), d_result.dtype)

    def oracle(x, dim=-1):
        e = np.exp(x - np.max(x, axis=dim, keepdims=True, initial=-np.inf))
        return e / e.sum(axis=dim, keepdims=True)

    tolerance = TOLERANCE
