# SPDX-License-Identifier: Apache-2.0
"""Reductions that the language has not; `dim` is an axis, several, or None for all."""

import math
from typing import Any

from pto import language as tile
from pto.language.reduce import Axes
from pto.language.tensor import Tensor
from pto.language.types import cast


def vector_norm(x: Tensor, order: Any, dim: Axes, keepdim: bool) -> Tensor:
    """The norm of an order: 1, 2, any number, 0 (how many are not 0), or an infinity."""
    size = tile.abs(x)
    order = float(order)
    axes = [dim] if isinstance(dim, int) else dim or range(x.ndim)
    is_of_one = not x.ndim or all(isinstance(x.shape[a], int) and x.shape[a] == 1 for a in axes)
    if order == math.inf or (is_of_one and order):  # the power of one may leave the type
        return tile.amax(size, dim, keepdim=keepdim)
    if order == -math.inf:
        return tile.amin(size, dim, keepdim=keepdim)
    if order == 0:
        return tile.sum(cast(x != 0, x.dtype), dim, keepdim=keepdim)
    if order == 1:
        return tile.sum(size, dim, keepdim=keepdim)
    if order == 2:
        return tile.sqrt(tile.sum(tile.square(x), dim, keepdim=keepdim))
    return tile.pow(tile.sum(tile.pow(size, order), dim, keepdim=keepdim), 1 / order)
