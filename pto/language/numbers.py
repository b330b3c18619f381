# SPDX-License-Identifier: Apache-2.0
"""Questions about numbers, and compositions of a few exact operations on them.

    pto.where(pto.isfinite(x), x, 0)
    x << 3, x >> n                     # of integers

Thread safety: as a trace.
"""

import math
from typing import Any

from pto.errors import InvalidType
from pto.language.dtypes import boolean
from pto.language.elementwise import abs, floor_divide, minimum, mul, numeric, pow, trunc, where
from pto.language.location import fail
from pto.language.operands import Operand
from pto.language.operation import method
from pto.language.tensor import Tensor
from pto.language.types import joined


@method("isnan")
def isnan(x: Tensor) -> Tensor:
    """Where x is no number.

    Formula: x != x
    Example: pto.isnan(e)
    """
    return x != x


@method("isinf")
def isinf(x: Tensor) -> Tensor:
    """Where x is infinite, of either sign.

    Formula: abs(x) == inf
    Example: pto.isinf(e)
    """
    return abs(x) == math.inf if x.dtype.is_float else x != x


@method("isfinite")
def isfinite(x: Tensor) -> Tensor:
    """Where x is neither infinite nor NaN.

    Formula: abs(x) < inf
    Example: pto.isfinite(e)
    """
    return abs(x) < math.inf if x.dtype.is_float else x == x


@method("sign")
def sign(x: Tensor) -> Tensor:
    """1 above 0, -1 below, NaN of NaN; of zeros +0.

    Formula: (x > 0) - (x < 0)
    """
    x = numeric(x, "sign")
    if x.dtype.kind == "unsigned":
        return where(x > 0, 1, x * 0)
    return where(x < 0, -1, where(x > 0, 1, abs(x) * 0))


@method("masked_fill")
def masked_fill(x: Tensor, mask: Tensor, value: float | Tensor) -> Tensor:
    """value, which may be a tensor, where the mask holds, else x.

    Formula: value if mask else x
    Shapes: `mask` and `value` broadcast with x
    Example: pto.masked_fill(x, c, 9)
    """
    return where(mask, value, x)


@method("frac")
def frac(x: Tensor) -> Tensor:
    """x less its whole part, which is exact; the sign is that of x.

    Formula: x - trunc(x)
    """
    return x - trunc(x)


@method("nan_to_num")
def nan_to_num(x: Tensor, nan: float = 0, posinf: float | None = None,
               neginf: float | None = None) -> Tensor:  # fmt: skip
    """x with other numbers for NaN and, where given, for the infinities.

    Formula: nan if x != x else posinf if x == inf else neginf if x == -inf else x
    Shapes: any; the result has the same
    Example: pto.nan_to_num(e, 0, 9, -9)
    """
    found = where(isnan(x), nan, x)
    found = found if posinf is None else where(x == math.inf, posinf, found)
    return found if neginf is None else where(x == -math.inf, neginf, found)


@method("lerp")
def lerp(x: Tensor, end: Tensor, weight: float | Tensor) -> Tensor:
    """x + weight * (end - x); weight may be a tensor.

    Formula: x + weight * (end - x)
    Shapes: any that broadcast, as in NumPy
    Example: pto.lerp(x, y, 0.25)
    """
    return x + mul(weight, end - x)


def _shifts(name: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    x, n = joined(name, a, b)
    if not x.dtype.is_integer or x.dtype is boolean:
        fail(f"{name}: the operands are {x.dtype}", "bits are those of integers",
             "cast to an integer type first", InvalidType)  # fmt: skip
    return x, n


@method("bitwise_left_shift", "__lshift__")
def bitwise_left_shift(a: Operand, b: Operand) -> Tensor:
    """a << b on integers: a times 2 to the power b, which wraps; 0 where b has all bits or more.

    Formula: a << b
    """
    x, n = _shifts("bitwise_left_shift", a, b)
    if isinstance(b, int):
        return mul(x, 1 << b) if 0 <= b < 8 * x.dtype.bytes - 1 else mul(x, pow(x * 0 + 2, n))
    return mul(x, pow(n * 0 + 2, n))


@method("bitwise_right_shift", "__rshift__")
def bitwise_right_shift(a: Operand, b: Operand) -> Tensor:
    """a >> b on integers: a divided by 2 to the power b, rounded down, so that signs stay.

    Formula: a >> b
    """
    x, n = _shifts("bitwise_right_shift", a, b)
    if x.dtype.kind == "unsigned":
        return floor_divide(x, pow(n * 0 + 2, n))  # the quotient by a power that wrapped is 0
    most = 8 * x.dtype.bytes - 2
    if isinstance(b, int) and 0 <= b <= most:
        return floor_divide(x, 1 << b)
    shifted = floor_divide(x, pow(n * 0 + 2, minimum(n, most)))
    return where(n > most, where(x < 0, -1, x * 0), shifted)
