# SPDX-License-Identifier: Apache-2.0
"""pto.cast in every mode, against exact fractions and the numbers of 16-bit floats; quantize."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import pto
from pto import CastMode, _core
from pto.language.dtypes import numpy_type

MODES = list(CastMode)
SMALL = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.49999997, -0.49999997, 0.25, -0.75, 3.0]
SMALL += [7.5, 126.5, 127.4, -128.4, -128.5, 8388607.5, 99.999]
LARGE = [127.5, 128.0, 200.0, -129.0, 255.5, 256.0, 40000.0, -1.0, -0.9, 2.0**31, -(2.0**31), 3e9]
LARGE += [-3e9, 2.0**63, -(2.0**63), 2.0**64, 1e30, math.inf, -math.inf, math.nan]
INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]


def run(function, x, kind=None):
    trace = pto.Trace("case")
    given = trace.input("x", kind or x.dtype, x.shape)
    graph, _ = trace.finish(function(given))
    return pto.interpret(graph, x)


def of_type(values, kind):
    """The numbers rounded to a type, as doubles."""
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(numpy_type(kind)).astype("f8")


def whole(value, mode):
    """The whole number of a finite float by a mode."""
    exact = Fraction(value)
    low = math.floor(exact)
    rest = exact - low
    if mode in (CastMode.NONE, CastMode.TRUNC):
        return math.trunc(exact)
    if mode is CastMode.FLOOR or rest == 0:
        return low
    if mode is CastMode.CEIL:
        return low + 1
    if rest != Fraction(1, 2):
        return low + (rest > Fraction(1, 2))
    ties = {CastMode.RINT: low % 2, CastMode.ODD: low % 2 == 0, CastMode.ROUND: exact > 0}
    return low + int(ties[mode])


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_a_float_becomes_the_integer_of_the_mode(mode):
    for source in ("f16", "bf16", "f32", "f64"):
        x = of_type(SMALL, source)
        x = x[np.isfinite(x)]
        for kind in INTEGERS:
            ends = np.iinfo(numpy_type(kind))
            fits = [v for v in x if ends.min <= whole(v, mode) <= ends.max and v > ends.min - 1]
            got = run(lambda x, k=kind: pto.cast(x, k, mode), np.array(fits), source)
            assert got.tolist() == [whole(v, mode) for v in fits], (source, kind)


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_saturation_gives_the_nearest_end(mode):
    for source in ("f16", "bf16", "f32", "f64"):
        x = of_type(SMALL + LARGE, source)
        for kind in INTEGERS:
            ends = np.iinfo(numpy_type(kind))
            want = [0 if v != v else ends.max if v == math.inf else ends.min if v == -math.inf
                    else max(ends.min, min(ends.max, whole(v, mode))) for v in x]  # fmt: skip
            got = run(lambda x, k=kind: x.cast(k, mode, saturate=True), x, source)
            assert got.tolist() == want, (source, kind)


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_wrap_or_saturate(source):
    ends = np.iinfo(numpy_type(source))
    x = np.array([ends.min, ends.max, 0, 1, 100, ends.max // 3], numpy_type(source))
    for kind in INTEGERS:
        target = numpy_type(kind)
        assert run(lambda x, k=kind: pto.cast(x, k), x).tolist() == x.astype(target).tolist()
        other = np.iinfo(target)
        want = [max(other.min, min(other.max, int(v))) for v in x]
        got = run(lambda x, k=kind: pto.cast(x, k, saturate=pto.SaturationMode.ON), x)
        assert got.tolist() == want, kind


def neighbours(kind):
    """All finite numbers of a 16-bit float type, in order, as exact doubles."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        values = bits.view(numpy_type(kind)).astype("f8")
    return np.unique(values[np.isfinite(values)])


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("source", ["f32", "f64", "other half"])
def test_a_float_becomes_the_neighbour_of_the_mode(source, kind, mode):
    if source == "other half":
        source = "bf16" if kind == "f16" else "f16"
    numbers = neighbours(kind)
    draw = np.random.default_rng(0)
    some = draw.choice(numbers[:-1], 400)
    above = numbers[np.searchsorted(numbers, some) + 1]
    places = draw.choice([0.0, 0.25, 0.5, 0.75, 0.001], 400)
    x = np.concatenate([some + (above - some) * places, [0, -0.0, 1e-46, -1e-46, numbers[1]],
                        numbers[-1:] * 1.0001, numbers[:1] * 1.0001])  # fmt: skip
    x = of_type(x, source)
    x = x[np.isfinite(x)]
    low = numbers[np.maximum(np.searchsorted(numbers, x, "right") - 1, 0)]
    high = numbers[np.minimum(np.searchsorted(numbers, x), len(numbers) - 1)]
    nearest = of_type(x, kind)
    if source == "f64" and kind == "bf16":  # ml_dtypes goes through f32
        nearest = np.where(x - low < high - x, low, np.where(x - low > high - x, high, nearest))
    inside = (x >= numbers[0]) & (x <= numbers[-1])
    tie = (x - low == high - x) & (low != high)
    want = {
        CastMode.FLOOR: low, CastMode.CEIL: high, CastMode.TRUNC: np.where(x < 0, high, low),
        CastMode.ROUND: np.where(tie, np.where(x < 0, low, high), nearest),
        CastMode.ODD: np.where(tie, np.where(nearest == low, high, low), nearest),
    }.get(mode, nearest)  # fmt: skip
    got = run(lambda x: pto.cast(x, kind, mode), x, source).astype("f8")
    np.testing.assert_array_equal(got[inside], want[inside])
    toward_zero = {CastMode.TRUNC: (True, True), CastMode.FLOOR: (False, True),
                   CastMode.CEIL: (True, False)}.get(mode)  # fmt: skip
    for v, y in zip(x[~inside], got[~inside], strict=True):
        if toward_zero:
            assert np.isfinite(y) == toward_zero[int(v > 0)], (v, y)
    tie = numbers[-1] + (numbers[-1] - numbers[-2]) / 2
    if of_type(tie, source) == tie:
        got = run(lambda x: pto.cast(x, kind, mode), np.array([tie, -tie]), source).astype("f8")
        top, most = math.inf, numbers[-1]
        ends = {CastMode.FLOOR: (most, -top), CastMode.CEIL: (top, -most),
                CastMode.ODD: (most, -most), CastMode.TRUNC: (most, -most)}  # fmt: skip
        assert got.tolist() == list(ends.get(mode, (top, -top)))
    clamped = run(lambda x: pto.cast(x, kind, mode, True), x, source).astype("f8")
    assert np.isfinite(clamped).all()
    np.testing.assert_array_equal(clamped[inside], want[inside])


def test_f64_goes_to_f32_by_every_mode():
    x = np.array([0.1, -0.1, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 1e-50, 1e39, -1e39])
    below, most = np.nextafter(np.float32(0.1), np.float32(0)), np.finfo("f4").max
    got = {mode: run(lambda x, m=mode: pto.cast(x, pto.f32, m), x) for mode in MODES}
    assert got[CastMode.TRUNC].tolist()[:2] == [below, -below]
    assert got[CastMode.RINT].tolist()[2:4] == [1, 1 + 2.0**-22]
    assert got[CastMode.ROUND].tolist()[2:4] == [1 + 2.0**-23, 1 + 2.0**-22]
    assert got[CastMode.ODD].tolist()[2:4] == [1 + 2.0**-23, 1 + 2.0**-23]
    assert got[CastMode.FLOOR].tolist()[5:] == [most, -math.inf]
    assert got[CastMode.CEIL].tolist()[4:] == [2.0**-149, math.inf, -most]


def test_a_mode_may_be_a_name_and_a_mistake_is_told():
    x = np.array([1.5, -1.5])
    assert run(lambda x: x.to("i32", "CAST_FLOOR"), x).tolist() == [1, -2]
    assert run(lambda x: x.cast(pto.i32, "ceil"), x).tolist() == [2, -1]
    for arguments in (("i32", "up"), ("i32", 3), ("i32", "floor", 1)):
        with pytest.raises(pto.Error, match="the mode is|saturate is"):
            run(lambda x, a=arguments: pto.cast(x, *a), x)
    with pytest.raises(pto.Error, match="the mode FLOOR from i64 to f32"):
        run(lambda x: pto.cast(x, pto.f32, CastMode.FLOOR), np.array([1]))
    big = np.array([2**24 + 1], "i4")
    assert run(lambda x: pto.cast(x, pto.f32, CastMode.CEIL), big).tolist() == [2**24 + 2]
    assert ml_dtypes.finfo(ml_dtypes.bfloat16).max == float.fromhex("0x1.fep127")


def test_compiled_casts_have_the_bits_of_their_definition():
    @pto.jit
    def every(x):
        return [pto.cast(x, kind, mode, saturate=True).to(pto.f32 if kind != "i32" else "i32")
                for mode in MODES for kind in ("i32", "f16", "bf16")]  # fmt: skip

    draw = np.random.default_rng(1)
    x = (draw.standard_normal(3000) * 10.0 ** draw.uniform(-45, 38, 3000)).astype("f4")
    x = np.concatenate([x, np.array(SMALL + LARGE, "f4"), of_type(x[:500], "f16").astype("f4")])
    assert "==== C++ ====" in every.explain(x)
    want = pto.interpret(every.trace(x), x)
    for mode, got, expected in zip(np.repeat(MODES, 3), every(x), want, strict=True):
        np.testing.assert_array_equal(got, expected, err_msg=mode.name)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_compiled_casts_store_the_bits_that_they_compute_with(kind):
    @pto.jit
    def both(x):
        half = pto.cast(x, kind)
        return half, half.to(pto.f32), pto.amax(half.to(pto.f32), -1)

    bits = np.arange(0, 2**32, 65521, "u4")
    bits = np.concatenate(
        [bits, bits & 0xFFFF0000, (bits & 0xFFFF0000) + 0x8000, bits | 0x7F800000]
    )
    x = np.resize(bits, (61, bits.size // 61)).view("f4")
    with np.errstate(all="ignore"):
        want = x.astype(numpy_type(kind))
    stored, used, most = both(x)
    np.testing.assert_array_equal(stored.astype("f4"), want.astype("f4"))
    np.testing.assert_array_equal(used, want.astype("f4"))
    np.testing.assert_array_equal(most, want.astype("f4").max(-1))
    is_number = ~np.isnan(want)
    assert (stored.view("u2") == want.view("u2"))[is_number].all()


def test_a_row_is_quantised_by_its_largest_number():
    x = np.array([[0.5, -1.25, 3.0, -7.0], [2, 0, 7.5, -0.25], [0, 0, 0, 0]], "f4")
    values, scale = run(lambda x: pto.quantize(x), x)
    want = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    np.testing.assert_array_equal(scale, want)
    with np.errstate(all="ignore"):
        ratio = np.where(want == 0, 0, x / want)
    np.testing.assert_array_equal(values, np.rint(ratio).astype("i1"))
    back = run(lambda x: pto.dequantize(*x.quantize(), dtype=pto.f64), x)
    assert back.dtype == np.float64 and np.abs(back - x).max() <= np.abs(x).max() / 254 * 1.001
    byte, _ = run(lambda x: pto.quantize(x.abs(), 0, pto.u8), x)
    assert byte.dtype == np.uint8 and byte.max(0).tolist() == [255, 255, 255, 255]
    got = run(lambda x: pto.quantize_by(x, 0.05, 3), x)
    np.testing.assert_array_equal(got, np.clip(np.rint(x / np.float32(0.05)) + 3, -128, 127))
    q = np.array([[-128, 0, 127]], "i1")
    np.testing.assert_array_equal(run(lambda q: q.dequantize(0.5, 2), q), (q.astype("f4") - 2) / 2)


@pytest.mark.parametrize("blocks", [1, 2, 4])
@pytest.mark.parametrize("kind", ["i1", "f2", "f4"])
def test_blocks_of_a_product_have_scales(kind, blocks):
    draw = np.random.default_rng(blocks)
    a, b = (draw.integers(-9, 10, shape).astype(kind) for shape in ((3, 8), (8, 5)))
    left, right = (draw.integers(1, 5, shape) / 4 for shape in ((3, blocks), (blocks, 5)))
    want = (a * np.repeat(left, 8 // blocks, 1)) @ (b * np.repeat(right, 8 // blocks, 0))
    trace = pto.Trace("case")
    dims = iter(range(99))
    inputs = [trace.input(f"x{i}", x.dtype, [_core.Dim.symbol(next(dims)) for _ in x.shape])
              for i, x in enumerate((a, b, left, right))]  # fmt: skip
    graph, _ = trace.finish(pto.scaled_mm(*inputs))
    np.testing.assert_array_equal(pto.interpret(graph, a, b, left, right), want.astype("f4"))
