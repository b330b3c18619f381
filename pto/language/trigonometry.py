# SPDX-License-Identifier: Apache-2.0
"""Circular and hyperbolic functions and their inverses, composed of the table's functions.

    pto.atan2(y, x), pto.sinh(x), pto.asin(x)

Errors: f32 within 8 ULP, f64 within 16; f16 and bf16 are computed in f32 and rounded once. Odd
functions keep the sign of a zero. Thread safety: as a trace.
"""

import math
from collections.abc import Callable

from pto.language.dtypes import f64
from pto.language.elementwise import abs, cos, exp, log, sin, sqrt, where
from pto.language.exponentials import expm1, log1p
from pto.language.operation import method
from pto.language.tensor import Tensor
from pto.language.types import cast, joined, real, wide

# (atan(s) / s - 1) / s^2 as polynomials in s^2, for s up to tan(pi / 8): Chebyshev fits with the
# relative errors 3e-9 and 2e-19.
_ATAN_F32 = (-0.06451928208121749, 0.10743731490791084, -0.1426395559798464,
             0.19999540483648964, -0.3333333176116852)  # fmt: skip
_ATAN_F64 = (0.016285756855221028, -0.034570561981427744, 0.04551593220626549,
             -0.05230454270650244, 0.05878928997834775, -0.06666424885738255,
             0.07692296375032143, -0.09090908753500877, 0.11111111105155447,
             -0.14285714285659828, 0.19999999999999804, -0.3333333333333333)  # fmt: skip


def _of_wide(name: str, text: str) -> Callable:
    """Makes a function of numbers in f32 or f64 one of all element types, and a method."""

    def attach(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def composed(x: Tensor) -> Tensor:
            return cast(function(wide(real(x))), real(x).dtype)

        composed.__name__ = composed.__qualname__ = name
        composed.__doc__ = text
        return method(name)(composed)

    return attach


def _size(x: Tensor) -> Tensor:
    """abs(x), but with the slope 1 at 0, where that of odd functions is not 0."""
    return where(x < 0, -x, x)


def _signed(found: Tensor, x: Tensor) -> Tensor:
    """Gives the value that an odd function has for the size of x the sign of x; a zero is x."""
    return where(x < 0, -found, where(x == 0, x, found))


def _atan(x: Tensor) -> Tensor:
    size = _size(x)
    is_steep = size > 1
    z = where(is_steep, 1 / where(is_steep, size, 1.0), size)
    is_turned = z > math.tan(math.pi / 8)
    s = where(is_turned, (z - 1) / (z + 1), z)
    square = s * s
    factors = _ATAN_F64 if x.dtype is f64 else _ATAN_F32
    series = square * 0.0 + factors[0]
    for factor in factors[1:]:
        series = series * square + factor
    angle = s + s * square * series
    angle = where(is_turned, angle + math.pi / 4, angle)
    angle = where(is_steep, math.pi / 2 - angle, angle)
    return _signed(angle, x)


def _half_angle(size: Tensor) -> tuple[Tensor, Tensor]:
    """Whether a sine is above 1/2, and its angle, halved from the other side there: only so is the
    slope at 1 infinite, not inf * 0."""
    is_large = size > 0.5
    a = where(is_large, sqrt((1 - size) * 0.5), size)  # sin((pi / 2 - angle) / 2)
    return is_large, _atan(a / sqrt((1 - a) * (1 + a)))


def _asin(x: Tensor) -> Tensor:
    is_large, angle = _half_angle(_size(x))
    angle = where(is_large, math.pi / 2 - 2 * angle, angle)
    return where(x < 0, -angle, angle)


def _acos(x: Tensor) -> Tensor:
    is_large, angle = _half_angle(_size(x))
    large = where(x < 0, math.pi - 2 * angle, 2 * angle)
    return where(is_large, large, math.pi / 2 - where(x < 0, -angle, angle))


def _sinh(x: Tensor) -> Tensor:
    size = _size(x)
    is_large = size > 9
    e = expm1(where(is_large, 0.0, size))
    half = exp(size * 0.5)
    found = where(is_large, half * 0.5 * half - 0.5 / half / half, 0.5 * (e + e / (e + 1)))
    return where(x < 0, -found, found)


def _cosh(x: Tensor) -> Tensor:
    half = exp(abs(x) * 0.5)
    return half * 0.5 * half + 0.5 / half / half


def _asinh(x: Tensor) -> Tensor:
    size = _size(x)
    is_large = size > 2.0**30
    a = where(is_large, 1.0, size)
    small = log1p(a + a * a / (1 + sqrt(a * a + 1)))
    found = where(is_large, log(where(is_large, size, 1.0)) + math.log(2), small)
    return _signed(found, x)


def _acosh(x: Tensor) -> Tensor:
    is_large, is_inside = x > 2.0**30, x > 1
    t = where(is_large, 1.0, x - 1)
    inside = where(is_inside, t, 1.0)
    # At 1 the root of t has the infinite slope, and below it is NaN.
    root = where(is_inside, sqrt(inside * (inside + 2)), sqrt(t))
    return where(is_large, log(x) + math.log(2), log1p(t + root))


def _atanh(x: Tensor) -> Tensor:
    size = _size(x)
    found = 0.5 * (log1p(size) - log1p(-size))
    return where(x < 0, -found, found)


tan = _of_wide("tan", "The tangent of x, in radians.")(lambda x: sin(x) / cos(x))
atan = _of_wide("atan", "The angle from -pi/2 to pi/2 whose tangent is x.")(_atan)
asin = _of_wide("asin", "The angle from -pi/2 to pi/2 whose sine is x.")(_asin)
acos = _of_wide("acos", "The angle from 0 to pi whose cosine is x.")(_acos)
sinh = _of_wide("sinh", "The hyperbolic sine of x.")(_sinh)
cosh = _of_wide("cosh", "The hyperbolic cosine of x.")(_cosh)
asinh = _of_wide("asinh", "The inverse of sinh.")(_asinh)
acosh = _of_wide("acosh", "The inverse of cosh, from 1 on.")(_acosh)
atanh = _of_wide("atanh", "The inverse of tanh, between -1 and 1.")(_atanh)


@method("atan2")
def atan2(y: Tensor, x: Tensor) -> Tensor:
    """The angle of the point (x, y), from -pi to pi, as C has it: of zeros and infinities by their
    signs, pi / 4 of two infinities."""
    given, other = map(real, joined("atan2", y, x))
    a, b = wide(given), wide(other)
    height, width = where(_has_sign(a), -a, a), where(_has_sign(b), -b, b)
    is_steep = height > width
    top, bottom = where(is_steep, width, height), where(is_steep, height, width)
    is_corner = (top == math.inf) & (bottom == math.inf)
    ratio = where(is_corner, 1.0, top / where(bottom == 0, 1.0, bottom))
    angle = _atan(ratio)
    angle = where(is_steep, math.pi / 2 - angle, angle)
    angle = where(_has_sign(b), math.pi - angle, angle)
    return cast(where(_has_sign(a), -angle, angle), given.dtype)


def _has_sign(x: Tensor) -> Tensor:
    """Whether a number is negative, -0 too."""
    return where(x == 0, 1.0 / x, x) < 0
