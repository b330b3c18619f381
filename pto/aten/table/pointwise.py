# SPDX-License-Identifier: Apache-2.0
"""Rows of arithmetic, powers, roundings and functions of numbers, element by element."""

import math
from typing import Any

from pto import language as tile
from pto.aten.rows import INTEGERS, NUMBERS, ROWS, Row, rounded, row
from pto.aten.table.sizes import disordered
from pto.formulas import numbers

WIDE = ("float32", "float64")
# Functions of one tensor that the language has under the same name, and their distance in ULP;
# ATen's own erf in bf16 is 11 ULP off near 0.
_UNARY = {
    "acos": 4, "acosh": 4, "asin": 4, "asinh": 4, "atan": 4, "atanh": 4,
    "cos": 4, "cosh": 4, "erf": 16, "exp": 2, "exp2": 2, "expm1": 4, "frac": 0,
    "log": 2, "log10": 4, "log1p": 4, "log2": 2, "reciprocal": 1, "rsqrt": 2, "sigmoid": 4,
    "sin": 4, "sinh": 4, "sqrt": 1, "tan": 4, "tanh": 4,
}  # fmt: skip
# Such functions that are exact, on integers too.
_EXACT = ("abs", "ceil", "floor", "neg", "round", "square", "trunc")


def _unary(name: str, function: Any) -> Any:
    def formula(self):  # type: ignore[no-untyped-def]
        return function(self)

    formula.__name__ = formula.__qualname__ = name
    return formula


for _name, _ulp in _UNARY.items():
    ROWS[_name] = Row(_name, _unary(_name, getattr(tile, _name)), ulp=_ulp, widens=False)
for _name in _EXACT:
    ROWS[_name] = Row(_name, _unary(_name, getattr(tile, _name)), types=NUMBERS, ulp=0)


def _is_one(alpha: Any) -> bool:
    return isinstance(alpha, int) and alpha == 1


def _unless_factor(values):
    return "alpha is a bool, not a number" if isinstance(values.get("alpha"), bool) else None


@row("add.Tensor", "add.Scalar", types=NUMBERS, is_sum=True, widens=False, unless=_unless_factor)
def add(self, other, alpha=1):
    if _is_one(alpha):
        return self + other
    return rounded(lambda x, y, n: x + y * n, self, other, alpha)


@row("sub.Tensor", "sub.Scalar", types=NUMBERS, is_sum=True, widens=False, unless=_unless_factor)
def sub(self, other, alpha=1):
    if _is_one(alpha):
        return self - other
    return rounded(lambda x, y, n: x - y * n, self, other, alpha)


@row("rsub.Tensor", "rsub.Scalar", types=NUMBERS, is_sum=True, unless=_unless_factor)
def rsub(self, other, alpha=1):
    return other - self * alpha


@row("_add_relu.Tensor", "_add_relu.Scalar", types=WIDE, is_sum=True)
def add_relu(self, other, alpha=1):
    return tile.relu(self + other * alpha)


@row("mul.Tensor", "mul.Scalar", types=NUMBERS, widens=False)
def mul(self, other):
    return numbers.by_number(lambda x, y: x * y, self, other)


@row("div.Tensor", "div.Scalar", widens=False)
def div(self, other):
    return numbers.by_number(lambda x, y: x / y, self, other)


# Rounded quotients: in f16 and bf16 ATen rounds the quotient before it, too.
@row("div.Tensor_mode", "div.Scalar_mode", types=WIDE)
def div_mode(self, other, rounding_mode):
    if rounding_mode == "floor":
        return numbers.quotient_down(self, other)
    return self / other if rounding_mode is None else tile.trunc(self / other)


def _unless_zero(values):
    if isinstance(values["other"], int) and not values["other"]:
        return "its divisor is 0, an error of ATen's for integers"
    return disordered(values)


@row("floor_divide.Scalar", types=(*WIDE, *INTEGERS), ulp=0, unless=_unless_zero)
@row("floor_divide", types=WIDE, ulp=0, unless=disordered)
def floor_divide(self, other):
    if self.dtype.is_float:
        return numbers.quotient_down(self, other)
    return tile.floor_divide(self, other)


@row("fmod.Tensor", "fmod.Scalar", ulp=0)
def fmod(self, other):
    return tile.fmod(self, other)


@row("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(self, other):
    return tile.remainder(self, other)


@row("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", ulp=4)
def pow_(self, exponent):
    if isinstance(exponent, float) and exponent == -0.5 and self.dtype.is_float:
        return 1 / tile.sqrt(self)  # of -0 it is -inf, as ATen says
    return numbers.power(self, exponent)


@row("sign", "sgn", types=NUMBERS, ulp=0)
def sign(self):
    return tile.where(self != self, 0, tile.sign(self))


@row("copysign.Tensor", "copysign.Scalar", ulp=0)
def copysign(self, other):
    return numbers.copysign(self, other)


@row("heaviside", types=NUMBERS, ulp=0)
def heaviside(self, values):
    step = tile.where(self > 0, tile.ones_like(self), tile.zeros_like(self))
    return tile.where(self == 0, values, step)


@row("maximum", "max.other", types=NUMBERS, ulp=0)
def maximum(self, other):
    return tile.maximum(self, other)


@row("minimum", "min.other", types=NUMBERS, ulp=0)
def minimum(self, other):
    return tile.minimum(self, other)


@row("fmax", types=NUMBERS, ulp=0)
def fmax(self, other):
    larger = tile.maximum(other, self)  # of two zeros self
    return tile.where(self != self, other, tile.where(other != other, self, larger))


@row("fmin", types=NUMBERS, ulp=0)
def fmin(self, other):
    smaller = tile.minimum(other, self)
    return tile.where(self != self, other, tile.where(other != other, self, smaller))


def _unless_bounded(values):
    is_free = values.get("min") is None and values.get("max") is None
    return "neither min nor max is given" if is_free else None


@row("clamp", "clamp.Tensor", types=NUMBERS, ulp=0, unless=_unless_bounded)
def clamp(self, min=None, max=None):
    return tile.clip(self, min, max)


@row("clamp_min", "clamp_min.Tensor", types=NUMBERS, ulp=0)
def clamp_min(self, min):
    return tile.clip(self, min)


@row("clamp_max", "clamp_max.Tensor", types=NUMBERS, ulp=0)
def clamp_max(self, max):
    return tile.clip(self, None, max)


def _unless_given(values):
    given = values.get("posinf") is not None and values.get("neginf") is not None
    return None if given else "an infinity becomes the largest number of the type"


@row("nan_to_num", ulp=0, unless=_unless_given)
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    return tile.nan_to_num(self, 0.0 if nan is None else nan, posinf, neginf)


@row("round.decimals", "special_round", ulp=2,
     unless=lambda v: "10 to that power is no number" if abs(v.get("decimals", 0)) > 300
     else None)  # fmt: skip
def round_decimals(self, decimals=0):
    scale = 10.0 ** abs(decimals)
    if decimals < 0:
        return tile.round(self / scale) * scale
    return tile.round(self * scale) / scale


@row("deg2rad")
def deg2rad(self):
    return self * (math.pi / 180)


@row("rad2deg")
def rad2deg(self):
    return self * (180 / math.pi)


@row("angle", ulp=0)
def angle(self):
    return tile.where(self < 0, math.pi, tile.where(self != self, self, 0.0))


@row("atan2", ulp=4, widens=False)
def atan2(self, other):
    return tile.atan2(self, other)


@row("hypot", ulp=2)
def hypot(self, other):
    return numbers.hypot(self, other)


@row("ldexp.Tensor", ulp=2)
def ldexp(self, other):
    return self * tile.exp2(other)


@row("logaddexp", ulp=4, is_sum=True, widens=False)
def logaddexp(self, other):
    return tile.logaddexp(self, other)


@row("logaddexp2", ulp=4, is_sum=True)
def logaddexp2(self, other):
    return numbers.logaddexp2(self, other)


@row("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other", "special_xlogy",
     "special_xlogy.self_scalar", "special_xlogy.other_scalar", ulp=4)  # fmt: skip
def xlogy(self, other):
    return numbers.times_unless_zero(self, tile.log, other)


@row("special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar", ulp=4)
def xlog1py(self, other):
    return numbers.times_unless_zero(self, tile.log1p, other)


@row("special_entr", ulp=4)
def entr(self):
    found = tile.where(self > 0, -self * tile.log(tile.where(self > 0, self, 1.0)), -math.inf)
    return tile.where(self != self, self, tile.where(self == 0, 0.0, found))


@row("sinc", ulp=8)
def sinc(self):
    scaled = tile.where(self == 0, 1.0, self) * math.pi
    return tile.where(self == 0, 1.0, tile.sin(scaled) / scaled)


@row("logit", ulp=4, is_sum=True)
def logit(self, eps=None):
    x = self if eps is None else tile.clip(self, eps, 1 - eps)
    return tile.log(x / (1 - x))


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
