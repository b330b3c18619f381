# SPDX-License-Identifier: Apache-2.0
"""Rows of activations, element by element."""

from pto import language as tile
from pto.aten.records import library
from pto.aten.rows import NUMBERS, row
from pto.aten.table.sizes import disordered
from pto.formulas import activations as f
from pto.language.types import wide


@row("relu", types=NUMBERS, ulp=0)
def relu(self):
    return tile.relu(self)


@row("hardsigmoid", ulp=2, widens=False)
def hardsigmoid(self):
    return tile.hardsigmoid(self)


@row("hardswish", ulp=2, is_sum=True, widens=False)
def hardswish(self):
    return tile.hardswish(self)


@row("mish", ulp=4, widens=False)
def mish(self):
    return tile.mish(self)


@row("silu", ulp=4, widens=False)
def silu(self):
    return tile.silu(self)


@row("gelu", ulp=8, is_sum=True, widens=False)
def gelu(self, approximate="none"):
    return tile.gelu(self, approximate)


@row("leaky_relu")
def leaky_relu(self, negative_slope=0.01):
    return tile.leaky_relu(self, negative_slope)


@row("elu", ulp=4)
def elu(self, alpha=1, scale=1, input_scale=1):
    return f.elu(self, alpha, scale, input_scale)


@row("hardtanh", ulp=0)
def hardtanh(self, min_val=-1, max_val=1):
    return tile.clip(self, min_val, max_val)


@row("hardshrink", ulp=0)
def hardshrink(self, lambd=0.5):
    return f.hard_shrink(self, lambd)


@row("softshrink")
def softshrink(self, lambd=0.5):
    return f.soft_shrink(self, lambd)


@row("softplus", ulp=4)
def softplus(self, beta=1, threshold=20):
    return f.softplus(self, beta, threshold)


@row("log_sigmoid", ulp=4, widens=False)
def log_sigmoid(self):
    return tile.logsigmoid(self)


@row("log_sigmoid_forward", ulp=4, in_place=False, results=("", ""), unless=disordered)
def log_sigmoid_forward(self):
    return tile.logsigmoid(self), tile.exp(-tile.abs(self))


@row("threshold", types=NUMBERS, ulp=0)
def threshold(self, threshold, value):
    return tile.where(wide(self) <= threshold, value, self)  # ATen does not round it to f16


@row("_prelu_kernel")
def prelu(self, weight):
    return tile.leaky_relu(self, weight)


def _unless_halved(values):
    shape, dim = library().shape(values["self"]), values.get("dim", -1)
    if not -len(shape) <= dim < len(shape):
        return f"self has {len(shape)} axes, none of which is {dim}"
    size = shape[dim]
    return "its axis has no two halves" if isinstance(size, int) and size % 2 else None


@row("glu", ulp=4, in_place=False, unless=_unless_halved)
def glu(self, dim=-1):
    half = self.shape[dim] // 2
    axis = dim % self.ndim
    front = (slice(None),) * axis
    return self[(*front, slice(0, half))] * tile.sigmoid(self[(*front, slice(half, 2 * half))])
