# SPDX-License-Identifier: Apache-2.0
"""How close two arrays are: in units in the last place, and in multiples of a stated bound.

    assert_close(got, want, {pto.f32: 1e-6})      # |got - want| <= 1e-6 (1 + |want|)
    found = Closeness.of(got, want, 1e-6)
    found.is_good, found.ulp, found.bounds

Where the result has a float type, a wanted value counts as the nearest number of that type;
integers and bool are compared exactly. The unit of an element is the distance to the next number of
the result's type at the wanted value; 0 has no such unit. NaN is close to NaN, an infinity to
itself; zeros of either sign are equal. Arrays are NumPy's, or of any library whose arrays NumPy
reads; a tensor of PyTorch may need a gradient, be bfloat16, or lie on a device.

Thread safety: pure functions.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from pto.errors import Error, InvalidType, InvalidValue
from pto.language.dtypes import dtype, numpy_type
from pto.language.location import describe

# by name: the bits of the fraction, the exponent of the smallest normal number, the default bound
FLOATS = {"float64": (52, -1022, 1e-12), "float32": (23, -126, 1e-5), "float16": (10, -14, 2e-3),
          "bfloat16": (7, -126, 1.6e-2)}  # fmt: skip


@dataclass(frozen=True)
class Closeness:
    """The largest error among the elements of an array, and where it is."""

    is_good: bool
    ulp: float  # the largest error in units in the last place, where the wanted value is not 0
    bounds: float  # the largest error in multiples of the bound
    worst: tuple[int, ...]  # where that is
    wrong: int  # elements beyond the bound
    size: int
    shapes: tuple = ()  # (got, wanted) where they differ
    values: tuple[Any, Any] = (0, 0)  # got and wanted there
    errors: tuple[float, float] = (0.0, 0.0)  # there: as it is, and in units; NaN where 0 is wanted

    @staticmethod
    def of(got: Any, want: Any, bound: float) -> "Closeness":
        bound = checked(bound)
        got, want = _array(got, "the result"), _array(want, "the wanted value")
        if got.shape != want.shape:
            return Closeness(False, np.inf, np.inf, (), got.size, got.size, (got.shape, want.shape))
        if got.size == 0:
            return Closeness(True, 0.0, 0.0, (), 0, 0)
        with np.errstate(all="ignore"):
            like = want if got.dtype.kind in "iub" else want.astype(got.dtype)
            error = np.asarray(_error(got, like))
            multiples = np.asarray(_multiples(error, like, bound))
            units = np.where(error == 0, 0.0, error / _unit(got.dtype, like))
        worst = np.unravel_index(np.argmax(multiples), got.shape)
        return Closeness(
            bool(multiples.max() <= 1), float(np.fmax.reduce(units, None, initial=0)),
            float(multiples.max()), tuple(map(int, worst)), int((multiples > 1).sum()), got.size,
            (), (got[worst], want[worst]), (float(error[worst]), float(units[worst])),
        )  # fmt: skip

    def __str__(self) -> str:
        if self.shapes:
            return f"the shape is {list(self.shapes[0])}, not {list(self.shapes[1])}"
        error, units = self.errors
        in_units = "0 has no ULP" if np.isnan(units) else f"{shown(units)} ULP"
        return (f"{self.wrong} of {self.size} elements are beyond the bound; the worst, at "
                f"{list(self.worst)}, is {self.values[0]} instead of {self.values[1]}: "
                f"off by {shown(error)} ({in_units}), "
                f"{shown(self.bounds)} times the bound")  # fmt: skip


def shown(value: float) -> str:
    """A number of errors in three digits."""
    return f"{value:.3g}" if value < 1e6 or value == np.inf else f"{value:.1e}"


def _array(value: Any, name: str) -> np.ndarray:
    """The NumPy array of numbers that a value of any library is, or InvalidType."""
    try:
        if callable(getattr(value, "detach", None)):  # PyTorch's, whose bf16 NumPy does not read
            value = value.detach().cpu()
            is_bf16 = str(value.dtype) == "torch.bfloat16"
            value = value.float().numpy().astype(numpy_type("bf16")) if is_bf16 else value.numpy()
        found = np.asarray(value)
        is_bf16 = found.dtype.name == "bfloat16"
        reason = "" if found.dtype.kind in "iubf" or is_bf16 else f"its elements: {found.dtype}"
    except Error:
        raise
    except Exception as error:  # noqa: BLE001 a library refuses its values in its own ways
        reason = f"{type(error).__name__}: {error}"
    if not reason:
        return found
    raise InvalidType(
        f"assert_close: {name} is {describe(value)}, no array of numbers ({reason:.200})",
        "closeness is that of integers, bool and floats",
        "pass an array of numbers; complex numbers as x.real and x.imag",
    ) from None


def checked(bound: Any) -> float:
    """A bound as it stands in a tolerance, or InvalidValue."""
    if isinstance(bound, Real) and not isinstance(bound, bool) and 0 <= bound < np.inf:
        return float(bound)
    raise InvalidValue(
        f"assert_close: a tolerance is {bound!r:.60}",
        "a result is right where |got - want| <= tolerance * (1 + |want|)",
        "pass a finite number from 0, or a dict of them by element type: {pto.f32: 1e-6}",
    )


def _error(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want|; 0 for NaN and NaN, infinite where one of them is not finite."""
    is_small = got.dtype.kind not in "iub" and got.dtype.itemsize < 8
    wide = np.float64 if is_small else np.longdouble  # which holds i64, u64 and f64 exactly
    a, b = got.astype(wide), want.astype(wide)
    error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
    return np.where(np.isnan(error), np.inf, error).astype(np.float64)


def _multiples(error: np.ndarray, want: np.ndarray, bound: float) -> np.ndarray:
    magnitude = np.abs(want.astype(np.float64))
    room = bound * (1 + np.where(np.isfinite(magnitude), magnitude, 0))
    return np.where(error == 0, 0, np.where(room > 0, error / room, np.inf))


def _unit(kind: np.dtype, want: np.ndarray) -> np.ndarray:
    """The unit in the last place of each wanted value; NaN for 0 of a float type."""
    if kind.name not in FLOATS:
        return np.ones(want.shape) if kind.kind in "iub" else np.spacing(np.abs(want))
    bits, least, _ = FLOATS[kind.name]
    magnitude = np.abs(want.astype(np.float64))
    usable = np.where(np.isfinite(magnitude) & (magnitude > 0), magnitude, 2.0**least)
    exponent = np.maximum(np.frexp(usable)[1] - 1, least)
    return np.where(magnitude == 0, np.nan, np.ldexp(1.0, np.maximum(exponent - bits, -1074)))


def assert_close(got: Any, want: Any, tolerance: Any = None, name: str = "the result") -> Closeness:
    """Raises AssertionError where an element is farther from its wanted value than the tolerance.

    `tolerance` is a number, a dict of them by element type as in an operator's class, or None; a
    type that it leaves out has its default. Integers and bool are equal. The element types of both
    may differ. Returns the closeness.
    """
    got = _array(got, name)
    found = Closeness.of(got, want, bound_of(got, tolerance))
    if not found.is_good:
        raise AssertionError(f"{name}, {got.dtype.name}{list(got.shape)}: {found}")
    return found


def bound_of(got: np.ndarray, tolerance: Any) -> float:
    """The bound for an array's element type: a number that it states, or the default."""
    default = FLOATS.get(got.dtype.name, (0, 0, 1e-5))[2]
    if isinstance(tolerance, dict):
        by_name = {dtype(kind).long_name: checked(value) for kind, value in tolerance.items()}
        bound = by_name.get(got.dtype.name, default)
    else:
        bound = default if tolerance is None else checked(tolerance)
    return 0.0 if got.dtype.kind in "iub" else bound
