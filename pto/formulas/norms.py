# SPDX-License-Identifier: Apache-2.0
"""Normalisations with what their gradients need: the mean and the reciprocal of the deviation."""

from typing import Any

from pto import language as tile
from pto.language.reduce import centred
from pto.language.tensor import Tensor
from pto.language.types import count


def scaled(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """y times weight, plus bias, where they are given."""
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def normalised(x: Tensor, axes: list[int], eps: Any) -> tuple[Tensor, Tensor, Tensor]:
    """(x with mean 0 and variance 1 over the axes, the mean, the reciprocal of the deviation)."""
    centre = centred(x, axes)
    inverse = tile.rsqrt(tile.mean(tile.square(centre), axes, True) + eps)
    return centre * inverse, tile.mean(x, axes, True), inverse


def layer_norm(
    x: Tensor, first: int, weight: Tensor | None, bias: Tensor | None, eps: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Over the axes from `first` on; the result, the mean, the reciprocal of the deviation."""
    y, mean, inverse = normalised(x, list(range(first, x.ndim)), eps)
    return scaled(y, weight, bias), mean, inverse


def channel(vector: Tensor | None, x: Tensor) -> Tensor | None:
    """A vector over axis 1 of x, in x's rank."""
    if vector is None:
        return None
    for _ in range(x.ndim - 2):
        vector = tile.unsqueeze(vector, -1)
    return vector


def instance_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: Any) -> Tensor:
    """Over all axes behind the channels."""
    y, _, _ = normalised(x, list(range(2, x.ndim)), eps)
    return scaled(y, channel(weight, x), channel(bias, x))


def group_norm(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Over equal groups of channels and all axes behind them; the statistics are [n, groups]."""
    n, channels, *rest = x.shape
    grouped = tile.reshape(x, n, groups, channels // groups, *rest)
    y, mean, inverse = normalised(grouped, list(range(2, grouped.ndim)), eps)
    y = tile.reshape(y, n, channels, *rest)
    made = scaled(y, channel(weight, x), channel(bias, x))
    return made, tile.reshape(mean, n, groups), tile.reshape(inverse, n, groups)


def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: Any
) -> Tensor:
    """By known statistics of the channels."""
    factor = tile.rsqrt(channel(variance, x) + eps)
    factor = factor if weight is None else channel(weight, x) * factor
    return scaled((x - channel(mean, x)) * factor, None, channel(bias, x))


def batch_norm_training(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """By the statistics of the batch; the result, and by channel the mean, the reciprocal of the
    deviation, and the variance by the number of elements less 1."""
    axes, channels = [axis for axis in range(x.ndim) if axis != 1], x.shape[1]
    centre, number = centred(x, axes), count(x, axes, x.dtype)
    squares = tile.sum(tile.square(centre), axes, True)
    inverse = tile.rsqrt(squares / number + eps)
    made = scaled(centre * inverse, channel(weight, x), channel(bias, x))
    spread = squares / (number - 1)
    kept = (tile.mean(x, axes, True), inverse, spread)
    return (made, *(tile.reshape(one, channels) for one in kept))
