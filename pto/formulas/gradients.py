# SPDX-License-Identifier: Apache-2.0
"""Gradients of activations and normalisations: d is that of the result."""

from typing import Any

from pto import language as tile
from pto.formulas.norms import channel
from pto.language.tensor import Tensor
from pto.language.types import count


def softmax(d: Tensor, result: Tensor, dim: int) -> Tensor:
    return result * (d - tile.sum(d * result, dim, keepdim=True))


def log_softmax(d: Tensor, result: Tensor, dim: int) -> Tensor:
    return d - tile.exp(result) * tile.sum(d, dim, keepdim=True)


def _centred(g: Tensor, y: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The gradient of x from g, that of y = (x - mean) / deviation over the axes; times the
    deviation."""
    return g - tile.mean(g, axes, keepdim=True) - y * tile.mean(g * y, axes, keepdim=True)


def layer_norm(
    d: Tensor, x: Tensor, first: int, mean: Tensor, inverse: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias; weight and bias have the axes from `first` on."""
    axes, rows = tuple(range(first, x.ndim)), tuple(range(first))
    y = (x - mean) * inverse
    g = d if weight is None else d * weight
    d_x = _centred(g, y, axes)
    if not rows:  # without axes tile.sum() would take all
        return inverse * d_x, d * y, d
    return inverse * d_x, tile.sum(d * y, rows), tile.sum(d, rows)


def batch_norm(
    d: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, inverse: Tensor, training: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias; the statistics, by channel, are those of x where it was
    training, and do not depend on it otherwise."""
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    inverse = channel(inverse, x)
    y = (x - channel(mean, x)) * inverse
    d_weight, d_bias = tile.sum(d * y, axes, keepdim=True), tile.sum(d, axes, keepdim=True)
    d_x = d
    if training:
        number = count(x, list(axes), x.dtype)
        d_x = d - d_bias / number - y * (d_weight / number)
    d_x = d_x * inverse if weight is None else d_x * (channel(weight, x) * inverse)
    channels = x.shape[1]
    return d_x, tile.reshape(d_weight, channels), tile.reshape(d_bias, channels)


def group_norm(
    d: Tensor, x: Tensor, mean: Tensor, inverse: Tensor, weight: Tensor | None, groups: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias; the statistics are [n, groups]."""
    n, channels, *rest = x.shape
    shape = [n, groups, channels // groups, *rest]
    ones = [1] * (len(shape) - 2)
    mean, inverse = (tile.reshape(one, n, groups, *ones) for one in (mean, inverse))
    y = (tile.reshape(x, shape) - mean) * inverse
    g = tile.reshape(d if weight is None else d * channel(weight, x), shape)
    inner, outer = tuple(range(2, len(shape))), tuple(a for a in range(x.ndim) if a != 1)
    d_x = _centred(g, y, inner)
    d_weight = tile.sum(d * tile.reshape(y, n, channels, *rest), outer)
    return tile.reshape(d_x * inverse, n, channels, *rest), d_weight, tile.sum(d, outer)


def elu(d: Tensor, x: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool) -> Tensor:
    """x is the argument, or the result."""
    if is_result:
        below = d * input_scale * (x + alpha * scale)
    else:
        power = tile.exp(tile.where(x > 0, 0.0, x * input_scale))
        below = d * (input_scale * alpha * scale) * power
    return tile.where(x > 0, d * scale, below)


def mish(d: Tensor, x: Tensor) -> Tensor:
    t, s = tile.tanh(tile.softplus(x)), tile.sigmoid(x)
    return d * (t + x * s * (1 - t * t))
