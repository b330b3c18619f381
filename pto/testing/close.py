# SPDX-License-Identifier: Apache-2.0
"""How close two arrays are: in units in the last place, and in multiples of a stated bound.

    assert_close(got, want, {pto.f32: 1e-6})      # |got - want| <= 1e-6 (1 + |want|)
    found = Closeness.of(got, want, 1e-6)
    found.is_good, found.ulp, found.bounds

The unit of an element is the distance to the next number of the result's type at the wanted value.
NaN is close to NaN, an infinity to itself; zeros of either sign are equal. Arrays are NumPy's,
or of any library whose arrays NumPy reads.

Thread safety: pure functions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pto.language.dtypes import dtype

# by name: the bits of the fraction, the exponent of the smallest normal number, the default bound
FLOATS = {"float64": (52, -1022, 1e-12), "float32": (23, -126, 1e-5), "float16": (10, -14, 2e-3),
          "bfloat16": (7, -126, 1.6e-2)}  # fmt: skip


@dataclass(frozen=True)
class Closeness:
    """The largest error among the elements of an array, and where it is."""

    is_good: bool
    ulp: float  # the largest error in units in the last place
    bounds: float  # the largest error in multiples of the bound
    worst: tuple[int, ...]  # where that is
    wrong: int  # elements beyond the bound
    size: int
    shapes: tuple = ()  # (got, wanted) where they differ
    values: tuple[Any, Any] = (0, 0)  # got and wanted there

    @staticmethod
    def of(got: Any, want: Any, bound: float) -> "Closeness":
        got, want = np.asarray(got), np.asarray(want)
        if got.shape != want.shape:
            return Closeness(False, np.inf, np.inf, (), got.size, got.size, (got.shape, want.shape))
        if got.size == 0:
            return Closeness(True, 0.0, 0.0, (), 0, 0)
        with np.errstate(all="ignore"):
            rounded = want.astype(got.dtype)  # an error below this step is no error of `got`
            error = np.asarray(_error(got, rounded))
            multiples = np.asarray(_multiples(error, rounded, bound))
            ulp = np.where(error == 0, 0, error / _unit(rounded))
        worst = np.unravel_index(np.argmax(multiples), got.shape)
        return Closeness(
            bool(multiples.max() <= 1), float(ulp.max()), float(multiples.max()),
            tuple(map(int, worst)), int((multiples > 1).sum()), got.size, (),
            (got[worst], want[worst]),
        )  # fmt: skip

    def __str__(self) -> str:
        if self.shapes:
            return f"the shape is {list(self.shapes[0])}, not {list(self.shapes[1])}"
        return (f"{self.wrong} of {self.size} elements are beyond the bound; the worst, at "
                f"{list(self.worst)}, is {self.values[0]} instead of {self.values[1]}: "
                f"{shown(self.ulp)} ULP, {shown(self.bounds)} times the bound")  # fmt: skip


def shown(value: float) -> str:
    """A number of errors in three digits."""
    return f"{value:.3g}" if value < 1e6 or value == np.inf else f"{value:.1e}"


def _error(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want|; 0 for NaN and NaN, infinite where one of them is not finite."""
    if got.dtype.kind in "iub":
        return np.abs(got.astype(object) - want.astype(object)).astype(np.float64)
    wide = np.longdouble if got.dtype.itemsize == 8 else np.float64
    a, b = got.astype(wide), want.astype(wide)
    error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
    return np.where(np.isnan(error), np.inf, error).astype(np.float64)


def _multiples(error: np.ndarray, want: np.ndarray, bound: float) -> np.ndarray:
    magnitude = np.abs(want.astype(np.float64))
    room = bound * (1 + np.where(np.isfinite(magnitude), magnitude, 0))
    return np.where(error == 0, 0, np.where(room > 0, error / room, np.inf))


def _unit(want: np.ndarray) -> np.ndarray:
    if want.dtype.name not in FLOATS:
        return np.ones(want.shape)
    bits, least, _ = FLOATS[want.dtype.name]
    magnitude = np.abs(want.astype(np.float64))
    usable = np.where(np.isfinite(magnitude) & (magnitude > 0), magnitude, 2.0**least)
    exponent = np.maximum(np.frexp(usable)[1] - 1, least)
    return np.ldexp(1.0, np.maximum(exponent - bits, -1074))


def assert_close(got: Any, want: Any, tolerance: Any = None, name: str = "the result") -> Closeness:
    """Raises AssertionError where an element is farther from its wanted value than the tolerance.

    `tolerance` is a number, a dict of them by element type as in an operator's class, or None for a
    default of the type of `got`; integers are equal. Returns the closeness.
    """
    got = np.asarray(got)
    found = Closeness.of(got, want, bound_of(got, tolerance))
    if not found.is_good:
        raise AssertionError(f"{name}, {got.dtype.name}{list(got.shape)}: {found}")
    return found


def bound_of(got: np.ndarray, tolerance: Any) -> float:
    """The bound for an array's element type: a number that it states, or the default."""
    if got.dtype.kind in "iub":
        return 0.0
    if isinstance(tolerance, dict):
        by_name = {dtype(str(kind)).long_name: value for kind, value in tolerance.items()}
        if got.dtype.name in by_name:
            return by_name[got.dtype.name]
        tolerance = None
    return FLOATS.get(got.dtype.name, (0, 0, 1e-5))[2] if tolerance is None else tolerance
