# SPDX-License-Identifier: Apache-2.0
"""Rows of the gradients of losses, for a `reduction` of 0, 1 or 2: that of the mean is a share."""

from typing import Any

from pto import language as tile
from pto.aten.rows import row
from pto.aten.table.sizes import disordered, larger
from pto.language.types import count

_GRADIENT: dict[str, Any] = {"in_place": False, "ulp": 8, "is_sum": True}


def _reduced(slope, x, reduction):
    return slope if reduction != 1 else slope / count(x, list(range(x.ndim)), slope.dtype)


def _unless_larger(values):
    return larger(values, "grad_output", "target", "weight") or disordered(values)


_LOSS = {**_GRADIENT, "unless": _unless_larger}


@row("mse_loss_backward", **_GRADIENT)
def mse_loss_backward(grad_output, self, target, reduction):
    return _reduced(2 * (self - target) * grad_output, self, reduction)


@row("smooth_l1_loss_backward", **_LOSS)
def smooth_l1_loss_backward(grad_output, self, target, reduction, beta):
    apart = self - target
    inside = apart * grad_output if beta == 0 else apart * grad_output / beta
    slope = tile.where(apart >= beta, grad_output, inside)
    return _reduced(tile.where(apart <= -beta, -grad_output, slope), self, reduction)


@row("huber_loss_backward", **_LOSS)
def huber_loss_backward(grad_output, self, target, reduction, delta):
    apart, most = self - target, grad_output * delta
    slope = tile.where(apart >= delta, most, apart * grad_output)
    return _reduced(tile.where(apart <= -delta, -most, slope), self, reduction)


@row("soft_margin_loss_backward", types=("float32", "bfloat16", "float64"), **_LOSS)
def soft_margin_loss_backward(grad_output, self, target, reduction):
    power = tile.exp(-target * self)
    return _reduced(-target * power / (power + 1) * grad_output, self, reduction)


@row("binary_cross_entropy_backward", **_LOSS)
def binary_cross_entropy_backward(grad_output, self, target, weight=None, reduction=1):
    slope = grad_output * (self - target) / tile.maximum((1 - self) * self, 1e-12)
    return _reduced(slope if weight is None else slope * weight, self, reduction)
