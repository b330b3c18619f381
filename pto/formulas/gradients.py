# SPDX-License-Identifier: Apache-2.0
"""Gradients of activations and normalisations: d is that of the result."""

from typing import Any

from pto import language as tile
from pto.language.tensor import Tensor


def softmax(d: Tensor, result: Tensor, dim: int) -> Tensor:
    return result * (d - tile.sum(d * result, dim, keepdim=True))


def log_softmax(d: Tensor, result: Tensor, dim: int) -> Tensor:
    return d - tile.exp(result) * tile.sum(d, dim, keepdim=True)


def layer_norm(
    d: Tensor, x: Tensor, first: int, mean: Tensor, inverse: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias; weight and bias have the axes from `first` on."""
    axes, rows = tuple(range(first, x.ndim)), tuple(range(first))
    y = (x - mean) * inverse
    g = d if weight is None else d * weight
    d_x = g - tile.mean(g, axes, keepdim=True) - y * tile.mean(g * y, axes, keepdim=True)
    return inverse * d_x, tile.sum(d * y, rows), tile.sum(d, rows)


def elu(d: Tensor, x: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool) -> Tensor:
    """x is the argument, or the result."""
    if is_result:
        below = d * input_scale * (x + alpha * scale)
    else:
        below = d * (input_scale * alpha * scale) * tile.exp(tile.minimum(x * input_scale, 0.0))
    return tile.where(x > 0, d * scale, below)


def mish(d: Tensor, x: Tensor) -> Tensor:
    t, s = tile.tanh(tile.softplus(x)), tile.sigmoid(x)
    return d * (t + x * s * (1 - t * t))
