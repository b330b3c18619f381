# SPDX-License-Identifier: Apache-2.0
"""cast with a rounding mode, and with saturation.

    pto.cast(x, pto.i8, mode=pto.CastMode.RINT, saturate=True)
    pto.cast(x, pto.bf16, pto.CastMode.TRUNC)

A plain cast rounds floats to the nearest float, ties to even; to integers it cuts the fraction off,
and a number beyond the integer's range has no defined result (the interpreter takes the nearest
end, and 0 for NaN); integers wrap. `saturate` gives the nearest end in every case, the largest
finite number for floats, and 0 for NaN as an integer.

The modes are compositions: floor, trunc and their like in front of a cast to an integer; between
floats, a plain cast, and its neighbour where that is on the other side. They are exact.
Thread safety: as a trace.
"""

import enum
import math
from typing import Any

from pto.errors import InvalidType
from pto.language.dtypes import DType, boolean, f32, f64
from pto.language.dtypes import dtype as element_type
from pto.language.elementwise import abs, ceil, clip, floor, round, trunc, where
from pto.language.location import describe, fail
from pto.language.operands import Kind
from pto.language.operation import method
from pto.language.tensor import Tensor
from pto.language.types import cast as plain_cast

_DIGITS = {"f16": (11, -14, 65504.0), "bf16": (8, -126, float.fromhex("0x1.fep127")),
           "f32": (24, -126, float.fromhex("0x1.fffffep127"))}  # fmt: skip


class CastMode(enum.Enum):
    """How a cast rounds."""

    NONE = "none"  # floats to nearest even, integers cut
    RINT = "rint"  # to the nearest, ties to even
    ROUND = "round"  # to the nearest, ties away from zero
    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"  # towards zero
    ODD = "odd"  # to the nearest, ties to odd


class SaturationMode(enum.Enum):
    """Whether a number beyond the range gives the nearest end."""

    OFF = False
    ON = True


@method("cast", "astype", "to")
def cast(
    x: Tensor, dtype: Kind, mode: CastMode | str = CastMode.NONE,
    saturate: SaturationMode | bool = False,
) -> Tensor:  # fmt: skip
    """x with another element type; see CastMode, or give its name, and SaturationMode, or a bool.

    Without them floats round to nearest even, and to integers they truncate; integers wrap.

    Formula: y = x rounded to a number of dtype
    Shapes: any; the result has the same
    Example: pto.cast(x, pto.i8)
    """
    kind, chosen = element_type(dtype), _mode(mode)
    saturates = saturate.value if isinstance(saturate, SaturationMode) else saturate
    if not isinstance(saturates, bool):
        fail(f"cast: saturate is {describe(saturate)}", "a cast saturates or does not",
             "pass True, False or a pto.SaturationMode", InvalidType)  # fmt: skip
    if x.dtype is kind or boolean in (x.dtype, kind):
        return plain_cast(x, kind)
    if x.dtype.is_float and kind.is_integer:
        whole = _whole(x, chosen)
        return _saturated_integer(whole, kind) if saturates else plain_cast(whole, kind)
    if kind.is_integer:
        return _clipped_integer(x, kind) if saturates else plain_cast(x, kind)
    return _to_float(x, kind, chosen, saturates)


def _mode(mode: Any) -> CastMode:
    if isinstance(mode, CastMode):
        return mode
    found = mode.lower().removeprefix("cast_") if isinstance(mode, str) else ""
    if found in (one.value for one in CastMode):
        return CastMode(found)
    known = ", ".join(one.name for one in CastMode)
    return fail(f"cast: the mode is {describe(mode)}", f"a cast has one of the modes {known}",
                "pass a pto.CastMode", InvalidType)  # fmt: skip


# --- to integers ---------------------------------------------------------------------------------


def _whole(x: Tensor, mode: CastMode) -> Tensor:
    if mode in (CastMode.ROUND, CastMode.ODD):
        below = trunc(x)
        rest, away = abs(x - below), where(x < 0, below - 1, below + 1)  # the rest is exact
        if mode is CastMode.ROUND:
            return where(rest >= 0.5, away, below)
        is_even = below * 0.5 == trunc(below * 0.5)
        return where(rest == 0.5, where(is_even, away, below), round(x))
    rounded = {CastMode.RINT: round, CastMode.FLOOR: floor, CastMode.CEIL: ceil}.get(mode)
    return rounded(x) if rounded else x  # a plain cast truncates


def _ends(kind: DType) -> tuple[int, int]:
    bits = 8 * kind.bytes
    return (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if kind.kind == "signed" else (0, (1 << bits) - 1)
    )


def _saturated_integer(x: Tensor, kind: DType) -> Tensor:
    low, high = _ends(kind)
    wider = plain_cast(x, f32) if x.dtype.bytes < 4 else x
    # Powers of two, which f32 holds; only numbers in between may be cast.
    above, below = wider >= float(high + 1), wider <= float(low - 1)
    fits = (wider < float(high + 1)) & (wider > float(low - 1))
    inside = plain_cast(where(fits, wider, 0.0), kind)
    return where(above, _number(inside, high), where(below, _number(inside, low), inside))


def _number(like: Tensor, value: int) -> Tensor:
    return Tensor(like.trace, like.trace.here().constant(value, like.dtype.name))


def _clipped_integer(x: Tensor, kind: DType) -> Tensor:
    (low, high), (least, most) = _ends(kind), _ends(x.dtype)
    low, high = max(low, least), min(high, most)
    lower = None if low == least else _number(x, low)
    return plain_cast(clip(x, lower, None if high == most else _number(x, high)), kind)


# --- to floats -----------------------------------------------------------------------------------


def _to_float(x: Tensor, kind: DType, mode: CastMode, saturates: bool) -> Tensor:
    nearest = mode in (CastMode.NONE, CastMode.RINT)
    if not x.dtype.is_float and not nearest:
        if x.dtype.bytes == 8:
            fail(f"cast: the mode {mode.name} from {x.dtype} to {kind}",
                 "64-bit integers are rounded to the nearest float, ties to even",
                 "use the mode RINT, or cast to i32 first")  # fmt: skip
        x = plain_cast(x, f64)
    if x.dtype.is_float and kind is not f64 and (kind is not f32 or x.dtype is f64):
        wider = plain_cast(x, f32) if x.dtype.bytes < 4 else x
        found = plain_cast(wider, kind)
        if not nearest:
            near = plain_cast(found, wider.dtype)
            found = plain_cast(_neighbour(wider, near, kind, mode), kind)
    else:
        found = plain_cast(x, kind)
    if not saturates or kind is f64:
        return found
    most = _DIGITS[kind.name][2]
    return clip(found, -most, most)


def _neighbour(x: Tensor, nearest: Tensor, kind: DType, mode: CastMode) -> Tensor:
    """The number of `kind` for x by a mode, where `nearest` is the nearest one, ties to even."""
    low = where(nearest > x, _beside(nearest, kind, -1), nearest)
    high = where(nearest < x, _beside(nearest, kind, 1), nearest)
    if mode is CastMode.FLOOR:
        return low
    if mode is CastMode.CEIL:
        return high
    toward = where(x < 0, high, low)
    if mode is CastMode.TRUNC:
        return toward
    is_tie = (x - low == high - x) & (low != high)
    if mode is CastMode.ROUND:
        return where(is_tie, where(x < 0, low, high), nearest)
    digits, _, largest = _DIGITS[kind.name]
    beyond = largest + largest / (2.0**digits - 1) / 2  # the tie of the largest number, an odd one
    other = where(nearest == low, high, low)  # a tie gave the even one
    return where(abs(x) == beyond, toward, where(is_tie, other, nearest))


def _beside(y: Tensor, kind: DType, side: int) -> Tensor:
    """The next number of `kind` above (side 1) or below y, which is one, in y's wider type.

    y moves by 5/4 of half the distance to that number at least, and by less than three halves of
    it, so that rounding gives the number.
    """
    digits, least, largest = _DIGITS[kind.name]
    step = abs(y) * (1.25 * 2.0**-digits)
    smallest = 2.0 ** (least - digits + 1)
    moved = y + where(abs(y) < 2.0 ** (least + 1), smallest, step) * float(side)
    found = plain_cast(plain_cast(moved, kind), y.dtype)
    return where(y == -side * math.inf, -side * largest, found)
