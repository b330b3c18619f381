# SPDX-License-Identifier: Apache-2.0
"""Activations that the language has not, element by element."""

from typing import Any

from pto import language as tile
from pto.language.tensor import Tensor


def softplus(x: Tensor, beta: Any = 1.0, threshold: Any = None) -> Tensor:
    """log(1 + exp(beta x)) / beta, without overflow; x where beta x is above the threshold."""
    found = tile.softplus(x * beta) / beta
    return found if threshold is None else tile.where(x * beta > threshold, x, found)


def elu(x: Tensor, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Tensor:
    """scale alpha (exp(input_scale x) - 1) below 0, else scale x."""
    below = tile.expm1(tile.where(x < 0, x * input_scale, 0.0)) * (alpha * scale)
    return tile.where(x < 0, below, x * scale)


def celu(x: Tensor, alpha: Any = 1.0) -> Tensor:
    """alpha (exp(x / alpha) - 1) below 0, else x."""
    return elu(x, alpha, 1.0, 1.0 / alpha)


def hard_shrink(x: Tensor, limit: Any) -> Tensor:
    """0 from -limit to limit, else x."""
    return tile.where((x >= -limit) & (x <= limit), 0.0, x)


def soft_shrink(x: Tensor, limit: Any) -> Tensor:
    """0 from -limit to limit, else x nearer to 0 by the limit."""
    inside = tile.where(x != x, x, x * 0)
    return tile.where(x > limit, x - limit, tile.where(x < -limit, x + limit, inside))


def hard_sigmoid(x: Tensor, alpha: Any, beta: Any) -> Tensor:
    """alpha x + beta between 0 and 1."""
    return tile.clip(x * alpha + beta, 0.0, 1.0)
