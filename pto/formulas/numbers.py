# SPDX-License-Identifier: Apache-2.0
"""Functions of numbers, element by element; their errors are in ULP of the result."""

import math
from collections.abc import Callable
from typing import Any

from pto import language as tile
from pto.formulas import series
from pto.language.elementwise import binary
from pto.language.tensor import Tensor
from pto.language.types import cast, constant, number, wide


def by_number(function: Callable[[Any, Any], Tensor], x: Tensor, y: Any) -> Tensor:
    """function(x, y), as in ATen in f32 where y is a number that f16 or bf16 may not hold."""
    # The types hold the most frequent numbers, which need no rounding of their own.
    is_held = type(y) in (int, float) and abs(y) in (0.125, 0.25, 0.5, 1, 2)
    is_plain = wide(x) is x or is_held or (isinstance(y, Tensor) and y.dtype is x.dtype)
    return function(x, y) if is_plain else cast(function(wide(x), y), x.dtype)


def is_negative(x: Tensor) -> Tensor:
    """Whether a number is below 0, -0 too; not a NaN, whose sign is not read."""
    return tile.where(x == 0, 1 / x, x) < 0


def copysign(x: Tensor, y: Any) -> Tensor:
    """x with the sign of y, a tensor or a number."""
    size = tile.abs(x)
    if not isinstance(y, Tensor):
        return -size if math.copysign(1, y) < 0 else size
    return tile.where(is_negative(y), -size, size)


def is_infinite(x: Tensor, above: bool = True, below: bool = True) -> Tensor:
    """Whether x is one of the infinities that are asked for."""
    if above and below:
        return tile.isinf(x)
    return x == math.inf if above else x == -math.inf if below else x != x


def times_unless_zero(x: Any, function: Callable[[Tensor], Tensor], y: Any) -> Tensor:
    """x * function(y), 0 where x is 0, NaN where y is."""
    y = y if isinstance(y, Tensor) and not y.weak else tile.full_like(x, y)
    x = x if isinstance(x, Tensor) and not x.weak else tile.full_like(y, x)
    found = tile.where(x == 0, 0.0, x * function(y))
    return tile.where(y != y, math.nan, found)


def whole_power(x: Tensor, n: int) -> Tensor:
    """Integers to the power of a number from 0; what has no place in the type wraps."""
    few = {0: lambda: tile.ones_like(x), 1: lambda: x, 2: lambda: x * x, 3: lambda: x * x * x}
    return few[n]() if n in few else tile.pow(x, n)


def _crosses(rest: Tensor, y: int) -> Tensor:
    """Whether rounding down gives another quotient than rounding towards 0."""
    return rest < 0 if y > 0 else rest > 0


def whole_quotient(x: Tensor, y: int, rounds_down: bool) -> Tensor:
    """Integers divided by a number that is not 0; rounded down, or else towards 0."""
    found = binary("div", x, constant(x.trace, y, x.dtype))
    return tile.where(_crosses(x - found * y, y), found - 1, found) if rounds_down else found


def whole_remainder(x: Tensor, y: int) -> Tensor:
    """x less the largest multiple of y, which is not 0, below it; it has the sign of y."""
    rest = x - whole_quotient(x, y, False) * y
    return tile.where(_crosses(rest, y), rest + y, rest)


def quotient_down(x: Tensor, y: Any) -> Tensor:
    """x / y rounded down, where the quotient itself may round up to a whole number."""
    y = y if isinstance(y, Tensor) and not y.weak else tile.full_like(x, y)
    rest = tile.fmod(x, y)
    whole = (x - rest) / y
    whole = tile.where((rest != 0) & ((rest < 0) != (y < 0)), whole - 1, whole)
    down = tile.floor(whole)
    down = tile.where(whole - down > 0.5, down + 1, down)
    exact = x / y
    return tile.where(y == 0, exact, tile.where(whole == 0, copysign(x * 0, exact), down))


def left_shift(x: Any, n: Any) -> Tensor:
    """Integers times 2 to the power n, which wraps; 0 where n is negative or no bit stays."""
    kind = n.dtype if isinstance(n, Tensor) and not n.weak else x.dtype
    bits = 8 * kind.bytes
    found = tile.bitwise_left_shift(x, tile.clip(n, 0, bits - 1))
    return tile.where((n < 0) | (n >= bits), 0, found)


def right_shift(x: Any, n: Any) -> Tensor:
    """Integers divided by 2 to the power n, rounded down; n is the largest where it is negative."""
    kind = n.dtype if isinstance(n, Tensor) and not n.weak else x.dtype
    most = 8 * kind.bytes - (kind.kind != "unsigned")
    return tile.bitwise_right_shift(x, tile.where((n < 0) | (n >= most), most, n))


def ldexp(x: Tensor, n: Any) -> Tensor:
    """x times 2 to the power n by factors that the type has; a whole power rounds once."""
    low, high = (-1021, 1022) if x.dtype is tile.f64 else (-125, 126)
    half = tile.clip(tile.trunc((n - tile.clip(n, low, high)) * 0.5), low, high)
    rest = tile.exp2(tile.clip(n - 2 * half, low - 1, high + 1))  # small where `half` is negative
    return x * tile.exp2(half) * tile.exp2(half) * rest


def power(x: Any, n: Any) -> Tensor:
    """x to the power n, also an odd number that f32 takes for an even one."""
    is_odd = number(n) is not None and abs(n) > 1 << 24 and float(n) % 2 == 1
    found = tile.pow(x, n)
    return copysign(found, x) if is_odd and x.dtype is tile.f32 else found


def hypot(x: Tensor, y: Any) -> Tensor:
    """The root of x * x + y * y, where no square overflows or vanishes (2 ULP)."""
    a, b = tile.abs(x), tile.abs(y)
    large, small = tile.maximum(a, b), tile.minimum(a, b)
    ratio = small / tile.where(large == 0, 1.0, large)
    found = large * tile.sqrt(1 + ratio * ratio)
    return tile.where((a == math.inf) | (b == math.inf), math.inf, found)


def logaddexp2(x: Tensor, y: Tensor) -> Tensor:
    """The logarithm by base 2 of 2^x + 2^y, without overflow."""
    most, apart = tile.maximum(x, y), tile.abs(x - y)
    beyond = tile.log1p(tile.exp2(-apart)) * (1 / math.log(2))
    return most + tile.where(x == y, 1.0, beyond)


def erfc(x: Tensor) -> Tensor:
    """1 - erf(x): near 1 from erf, beyond from a polynomial for exp(x^2) erfc(x)."""
    size = tile.minimum(tile.abs(x), 28.0)
    found = tile.where(size < 0.5, 1 - tile.erf(size), series.erfc_tail(size))
    return tile.where(x < 0, 2 - found, tile.where(x != x, x, found))


def log_ndtr(x: Tensor) -> Tensor:
    """The logarithm of the share of the normal distribution below x."""
    t = x * math.sqrt(0.5)
    below = tile.log(series.erfcx(tile.maximum(-t, 0.0)) * 0.5) - t * t
    return tile.where(x < -1, below, tile.log1p(erfc(tile.maximum(t, -1.0)) * -0.5))
