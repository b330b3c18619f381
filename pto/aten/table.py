# SPDX-License-Identifier: Apache-2.0
"""The table of our rows: what an overload of ATen is in the tile language.

It is the only table of ATen's overloads; rows.py says what a row is, tests/test_aten_rows.py holds
each to its distance from ATen.
"""

from typing import Any

from pto import language as tile
from pto.aten.rows import ROWS, Row, row

INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
NUMBERS = ("float32", "float16", "bfloat16", "float64", *INTEGERS)

# Functions of one tensor whose name is that of the language, and their distance in ULP.
_UNARY = {
    "abs": 0, "acos": 2, "acosh": 2, "asin": 2, "asinh": 2, "atan": 2, "atanh": 2, "ceil": 0,
    "cos": 2, "cosh": 4, "erf": 2, "exp": 2, "exp2": 2, "expm1": 2, "floor": 0, "frac": 0,
    "hardsigmoid": 2, "hardswish": 2, "log": 2, "log10": 4, "log1p": 2, "log2": 2, "mish": 4,
    "neg": 0, "reciprocal": 1, "relu": 0, "round": 0, "rsqrt": 2, "sigmoid": 2,
    "silu": 4, "sin": 2, "sinh": 2, "sqrt": 1, "square": 0, "tan": 2, "tanh": 2, "trunc": 0,
}  # fmt: skip


def _unary(name: str) -> Any:
    function = getattr(tile, name)

    def formula(self):  # type: ignore[no-untyped-def]
        return function(self)

    formula.__name__ = formula.__qualname__ = name
    return formula


for _name, _ulp in _UNARY.items():
    ROWS[_name] = Row(_name, _unary(_name), ulp=_ulp)


@row("add.Tensor", "add.Scalar", types=NUMBERS, is_sum=True)
def add(self, other, alpha=1):
    return self + other * alpha


@row("sub.Tensor", "sub.Scalar", types=NUMBERS, is_sum=True)
def sub(self, other, alpha=1):
    return self - other * alpha


@row("mul.Tensor", "mul.Scalar", types=NUMBERS)
def mul(self, other):
    return self * other


@row("div.Tensor", "div.Scalar")
def div(self, other):
    return self / other


@row("sign", types=NUMBERS, ulp=0)
def sign(self):
    return tile.where(self != self, 0, tile.sign(self))


@row("maximum", types=NUMBERS, ulp=0)
def maximum(self, other):
    return tile.maximum(self, other)


@row("minimum", types=NUMBERS, ulp=0)
def minimum(self, other):
    return tile.minimum(self, other)


@row("atan2", ulp=2)
def atan2(self, other):
    return tile.atan2(self, other)


@row("logaddexp", ulp=4, is_sum=True)
def logaddexp(self, other):
    return tile.logaddexp(self, other)


@row("lerp.Scalar", ulp=4, is_sum=True)
def lerp_scalar(self, end, weight):
    step = end - self
    return self + weight * step if abs(weight) < 0.5 else end - step * (1 - weight)


@row("lerp.Tensor", ulp=4, is_sum=True)
def lerp(self, end, weight):
    step = end - self
    return tile.where(abs(weight) < 0.5, self + weight * step, end - step * (1 - weight))


@row("addcmul", ulp=4, is_sum=True)
def addcmul(self, tensor1, tensor2, value=1):
    return self + value * tensor1 * tensor2


@row("addcdiv", ulp=4, is_sum=True)
def addcdiv(self, tensor1, tensor2, value=1):
    return self + value * tensor1 / tensor2


@row("leaky_relu")
def leaky_relu(self, negative_slope=0.01):
    return tile.leaky_relu(self, negative_slope)


@row("eq.Tensor", "eq.Scalar", types=NUMBERS, ulp=0, in_place=False)
def eq(self, other):
    return self == other


@row("ne.Tensor", "ne.Scalar", types=NUMBERS, ulp=0, in_place=False)
def ne(self, other):
    return self != other


@row("lt.Tensor", "lt.Scalar", types=NUMBERS, ulp=0, in_place=False)
def lt(self, other):
    return self < other


@row("le.Tensor", "le.Scalar", types=NUMBERS, ulp=0, in_place=False)
def le(self, other):
    return self <= other


@row("gt.Tensor", "gt.Scalar", types=NUMBERS, ulp=0, in_place=False)
def gt(self, other):
    return self > other


@row("ge.Tensor", "ge.Scalar", types=NUMBERS, ulp=0, in_place=False)
def ge(self, other):
    return self >= other


@row("softmax.int", ulp=4)
def softmax(self, dim):
    return tile.softmax(self, dim)


@row("log_softmax.int", ulp=4)
def log_softmax(self, dim):
    return tile.log_softmax(self, dim)


@row("sum.dim_IntList", ulp=4, is_sum=True)
def sum_(self, dim, keepdim=False):
    return tile.sum(self, dim, keepdim=keepdim)


@row("mean.dim", ulp=4, is_sum=True)
def mean(self, dim, keepdim=False):
    return tile.mean(self, dim, keepdim=keepdim)


@row("amax", types=NUMBERS, ulp=0)
def amax(self, dim=(), keepdim=False):
    return tile.amax(self, dim, keepdim=keepdim)


@row("amin", types=NUMBERS, ulp=0)
def amin(self, dim=(), keepdim=False):
    return tile.amin(self, dim, keepdim=keepdim)


@row("logsumexp", ulp=4, is_sum=True)
def logsumexp(self, dim, keepdim=False):
    return tile.logsumexp(self, dim, keepdim=keepdim)
