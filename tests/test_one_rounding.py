# SPDX-License-Identifier: Apache-2.0
"""Numbers next to where rounding turns: casts round once, quotients are NumPy's, powers and sigmoid
keep their values at the ends of their types. Compiled code, the interpreter and integers of any
size, the third opinion, agree.
"""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import pto
from pto import _core

FORMATS = {  # bits behind the point, exponents of the smallest and largest normal number
    "f16": (np.float16, 10, -14, 15),
    "bf16": (ml_dtypes.bfloat16, 7, -126, 127),
    "f32": (np.float32, 23, -126, 127),
}
SOURCES = {"i32": np.int32, "i64": np.int64, "u32": np.uint32, "u64": np.uint64, "f64": np.float64}


def rounded(value: int | float, fraction: int, least: int, most: int) -> float:
    """The nearest number of the format, ties to even."""
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    exponent = max(abs(exact.numerator).bit_length() - exact.denominator.bit_length(), least)
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exponent > least and abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - fraction)
    nearest = round(exact / unit) * unit
    infinite = abs(nearest) > (2 - Fraction(2) ** -fraction) * Fraction(2) ** most
    return float("-inf" if nearest < 0 else "inf") if infinite else float(nearest)


def beside_ties(source: str, fraction: int, least: int, most: int, count: int) -> np.ndarray:
    """Numbers of the source halfway between two of the format, and just beside that."""
    draw = np.random.default_rng(11)
    found = []
    while len(found) < count:
        tie = 2 * int(draw.integers(1 << fraction, 2 << fraction)) + 1
        if source == "f64":
            exponent = int(draw.integers(least - fraction - 2, most - fraction + 2))
            last = int(draw.integers(fraction + 3, 52))
            beside = Fraction(tie) + int(draw.integers(-1, 2)) * Fraction(2) ** (
                fraction + 1 - last
            )
            value = float(beside * Fraction(2) ** exponent)
            found.append(value if draw.integers(2) else -value)
            continue
        limits = np.iinfo(SOURCES[source])
        shift = int(draw.integers(0, max(1, limits.max.bit_length() - fraction - 1)))
        value = (tie << shift) + int(draw.integers(-1, 2))
        value = -value if limits.min < 0 and draw.integers(2) else value
        if limits.min <= value <= limits.max:
            found.append(value)
    return np.array(found, SOURCES[source])


@pto.jit
def to_f16(x):
    return pto.cast(x, pto.f16)


@pto.jit
def to_bf16(x):
    return pto.cast(x, pto.bf16)


@pto.jit
def to_f32(x):
    return pto.cast(x, pto.f32)


CASTS = {"f16": to_f16, "bf16": to_bf16, "f32": to_f32}


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_cast_rounds_once(source, to, deep):
    kind, *layout = FORMATS[to]
    x = beside_ties(source, *layout, 200000 if deep else 1003)
    want = np.array([rounded(v, *layout) for v in x.tolist()])
    graph = _core.Graph.parse(
        f"graph g(%a: {source}[s0]) -> ({to}[s0]) {{\n  %0 = cast(%a) : {to}[s0]\n  return %0\n}}"
    )
    np.testing.assert_array_equal(np.asarray(pto.interpret(graph, x)).astype(float), want)
    if source[0] != "u":  # kernels take no unsigned integers of 4 and 8 bytes
        got = np.asarray(CASTS[to](x))
        assert got.dtype == kind
        np.testing.assert_array_equal(got.astype(float), want)


@pto.jit
def floor_divide(a, b):
    return pto.floor_divide(a, b)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floor_divide_is_that_of_numpy(dtype, deep):
    draw = np.random.default_rng(5)
    count = 4000000 if deep else 60000
    numbers = draw.standard_normal((2, count)) * 10.0 ** draw.integers(-4, 4, (2, count))
    numbers[0, :1000] = np.round(numbers[0, :1000]) * numbers[1, :1000]  # next to whole quotients
    numbers[0, 1000:9000] *= 10.0 if dtype == "float16" else 1e7  # and large ones
    with np.errstate(all="ignore"):
        a, b = numbers.astype(dtype)
    ends = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 6e4, -6e4, 6e-8, 0.1, -0.1], dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(ends, ends))
    a, b = np.append(a, x), np.append(b, y)
    with np.errstate(all="ignore"):
        want = np.floor_divide(a, b)
    got = np.asarray(floor_divide(a, b))
    np.testing.assert_array_equal(got, want)
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pto.jit
def power(a, b):
    return pto.pow(a, b)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_powers_of_one_and_to_zero_are_one_for_every_nan(dtype):
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    infinity = np.array([np.inf], dtype).view(bits)[0]
    nans = np.array([infinity + 1, np.array([np.nan], dtype).view(bits)[0]], bits).view(dtype)
    nan, one = np.tile(nans, 21), np.ones(42, dtype)
    for a, b in ((nan, 0 * one), (nan, -0.0 * one), (one, nan)):
        assert (np.asarray(power(a, b.astype(dtype))).astype(float) == 1).all()


@pto.jit
def sigmoid(x):
    return pto.sigmoid(x)


def test_sigmoid_keeps_small_results_of_f64_and_flushes_those_of_f32_as_stated():
    x = np.linspace(-760, 5, 3001)
    e = np.exp(-np.abs(x))
    want = np.where(x < 0, e, 1) / (1 + e)
    graph = _core.Graph.parse(
        "graph g(%a: f64[s0]) -> (f64[s0]) {\n  %0 = sigmoid(%a) : f64[s0]\n  return %0\n}"
    )
    for got in (sigmoid(x), pto.interpret(graph, x)):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-14, atol=5e-324)
    single = np.asarray(sigmoid(x.astype(np.float32)))
    small = want < 2.0**-126
    assert (single[small] <= 2.0**-126).all()
    np.testing.assert_allclose(single[~small], want[~small], rtol=4e-5)
