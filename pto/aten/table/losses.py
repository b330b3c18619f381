# SPDX-License-Identifier: Apache-2.0
"""Rows of losses: each element's, the mean or the sum, for a `reduction` of 0, 1 or 2."""

from typing import Any

from pto import language as tile
from pto.aten.records import library
from pto.aten.rows import row
from pto.aten.table.sizes import larger

_SUM: dict[str, Any] = {"is_sum": True, "ulp": 8, "in_place": False}


def _reduced(x, reduction):
    return x if reduction == 0 else tile.mean(x) if reduction == 1 else tile.sum(x)


@row("mse_loss", **_SUM)
def mse_loss(self, target, reduction=1):
    return _reduced(tile.square(self - target), reduction)


@row("smooth_l1_loss", **_SUM, unless=lambda v: "beta is 0" if not v.get("beta", 1) else None)
def smooth_l1_loss(self, target, reduction=1, beta=1.0):
    apart = tile.abs(self - target)
    below = 0.5 * apart * apart / beta
    return _reduced(tile.where(apart < beta, below, apart - 0.5 * beta), reduction)


@row("huber_loss", **_SUM)
def huber_loss(self, target, reduction=1, delta=1.0):
    apart = tile.abs(self - target)
    beyond = delta * (apart - 0.5 * delta)
    return _reduced(tile.where(apart <= delta, 0.5 * apart * apart, beyond), reduction)


@row("soft_margin_loss", types=("float32", "bfloat16", "float64"),  # f16 overflows in ATen
     unless=lambda v: larger(v, "target"), **_SUM)  # fmt: skip
def soft_margin_loss(self, target, reduction=1):
    return _reduced(tile.log1p(tile.exp(-target * self)), reduction)


def _unless_sized(values):
    """Leaves to ATen, which says what is wrong, tensors of several sizes."""
    if library().shape(values["target"]) != library().shape(values["self"]):
        return "target has other sizes than self"
    return larger(values, "weight")


@row("binary_cross_entropy", **_SUM, unless=_unless_sized,
     sample=lambda t, m, n: {"self": t(m, n), "target": t(m, n), "weight": t(n),
                             "reduction": 0})  # fmt: skip
def binary_cross_entropy(self, target, weight=None, reduction=1):
    tile.check((self >= 0) & (self <= 1), "all elements of self are between 0 and 1")
    is_one = tile.maximum(tile.log(self), -100.0)
    is_none = tile.maximum(tile.log1p(-self), -100.0)
    found = (target - 1) * is_none - target * is_one
    return _reduced(found if weight is None else found * weight, reduction)
