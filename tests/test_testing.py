# SPDX-License-Identifier: Apache-2.0
"""pto.testing: check() finds what is wrong with an operator; assert_close measures errors."""

import sys

import numpy as np
import pytest

import pto
from pto import op, ops
from pto.testing import Closeness, assert_close, check
from pto.testing.close import FLOATS

# --- closeness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_an_ulp_is_the_distance_to_the_next_number(name):
    kind, bits = np.dtype(name), {2: np.int16, 4: np.int32, 8: np.int64}[np.dtype(name).itemsize]
    rng = np.random.default_rng(1)
    whole = rng.integers(1, np.iinfo(bits).max, 3000).astype(bits)
    x = whole.view(kind)
    x = x[np.isfinite(x) & np.isfinite((x.view(bits) + 1).view(kind))]
    y = (x.view(bits) + 1).view(kind)
    for sign in (1, -1):
        assert Closeness.of(sign * x, sign * x, 0).ulp == 0
        for one, two in zip(x[:300], y[:300], strict=True):  # from below a power of two: half of it
            assert Closeness.of(sign * two, sign * one, 0).ulp == 1


def test_bounds_are_those_of_the_statement():
    want = np.array([0.0, 1.0, -4.0], np.float32)
    for factor in (0.5, 0.99, 1.01, 3.0):
        got = (want + factor * 1e-3 * (1 + np.abs(want))).astype(np.float32)
        found = Closeness.of(got, want, 1e-3)
        assert found.bounds == pytest.approx(factor, rel=1e-3) and found.is_good == (factor < 1)


def test_what_is_not_finite_is_close_to_itself_alone():
    values = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0])
    for got in values:
        for want in values:
            same = got == want or (np.isnan(got) and np.isnan(want))
            assert Closeness.of(np.array(got), np.array(want), 1e-3).is_good == same
    assert Closeness.of(np.array(0.0), np.array(-0.0), 0).is_good
    assert Closeness.of(np.zeros((0, 3)), np.zeros((0, 3)), 0).is_good


def test_assert_close_says_where_ulp_and_bounds():
    x = np.array([[1, 2], [3, 4]], np.float32)
    assert assert_close(x * np.float32(1 + 2**-22), x).is_good
    y = x.copy()
    y[1, 0] = 3.75
    with pytest.raises(AssertionError) as raised:
        assert_close(y, x, {pto.f32: 1e-2}, "y")
    assert str(raised.value) == (
        "y, float32[2, 2]: 1 of 4 elements are beyond the bound; the worst, at [1, 0], is 3.75 "
        "instead of 3.0: 3.1e+06 ULP, 18.8 times the bound")  # fmt: skip
    with pytest.raises(AssertionError, match=r"the shape is \[2, 2\], not \[2\]"):
        assert_close(x, x[0])
    with pytest.raises(AssertionError, match="1 of 2 elements"):
        assert_close(np.array([1, 3]), np.array([1, 2]), 10)  # integers are equal
    assert set(FLOATS) == {"float64", "float32", "float16", "bfloat16"}


def test_assert_close_needs_no_bfloat16_of_numpy_for_other_types(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = np.ones(2, np.float32)
    assert assert_close(x, x, {pto.f32: 1e-6, pto.bf16: 1e-2, "f16": 1e-3}).bounds == 0


def test_assert_close_reads_arrays_of_other_libraries():
    torch = pytest.importorskip("torch")
    assert assert_close(torch.ones(3), [1, 1, 1]).is_good


# --- checks --------------------------------------------------------------------------------------


def of(name, **members):
    """A user's operator, right but for the members."""
    right = {
        "build": lambda x, w, scale: x * w / (1 + scale * pto.abs(x)),
        "oracle": lambda x, w, scale=1.0: x * w / (1 + scale * np.abs(x)),
        "vectors": ("w",), "grad": "automatic", "types": "(T, T) -> T where T: f32 f64",
        "tolerance": {pto.f32: 1e-6, pto.f64: 1e-14},
    }  # fmt: skip
    found = {key: value for key, value in {**right, **members}.items() if value is not None}
    schema = f"testing_{name}(Tensor x, Tensor w, *, float scale=1.0) -> Tensor"
    return op(schema)(type("User", (), found))


def failed(operator):
    with pytest.raises(AssertionError) as raised:
        check(operator, ["NumPy"])
    return str(raised.value)


def test_an_operator_that_is_right_gives_a_table():
    report = check(of("right"), ["NumPy"])
    text, html = str(report), report._repr_html_()
    assert report.is_good and "comparisons in" in text and "all as stated" in text
    heads = [line.split("  ")[0] for line in text.splitlines()[2:]]
    assert heads == ["oracle", "oracle", "eager", "threads", "gradient", "hostile arguments"]
    assert all(row.passed > 1 for row in report.rows) and html.count("<tr>") == 7
    assert 0 < report.rows[1].bounds <= 1 and report.rows[1].ulp > 0


def test_it_runs_in_the_frameworks_that_are_installed():
    torch = pytest.importorskip("torch")  # noqa: F841
    report = check(of("torch"), ["PyTorch"])
    modes = {row.what: row.passed for row in report.rows if row.where == "PyTorch"}
    assert modes["gradient"] > 3 and modes["export"] and modes["vmap"] and not modes["inductor"]


WRONG = {
    "oracle": ({"oracle": lambda x, w, scale=1.0: x * w}, "oracle .* 1[0-9] FAILED: f64 sample 0"),
    "tolerance": ({"tolerance": {pto.f32: 1e-12, pto.f64: 1e-14}}, "f32 .*times the bound"),
    "gradient": (
        {"grad": lambda ctx, d: {"x": d * ctx.saved("w"), "w": d * ctx.saved("x")}},
        "gradient .*FAILED: sample 0: .*",
    ),
    "raise": (
        {"oracle": lambda x, w, scale=1.0: {}[0]}, "FAILED: f64 sample 0: .*: KeyError: 0"),
    "hostile": (
        {"infer": lambda x, w, scale: (x.like() if x.ndim else 1 // 0)},
        "hostile arguments .*FAILED: an array without axes: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name):
    import re

    members, text = WRONG[name]
    if name == "hostile":
        members = {**members, "samples": lambda tensor: [((tensor(3, 4), tensor(4)), {})]}
    found = failed(of(f"wrong_{name}", **members))
    assert re.search(text, found) and "NOT as stated" in found, found


def test_a_check_needs_an_oracle_and_an_operator():
    with pytest.raises(ValueError, match="check: testing_none has no oracle\n.*\n.*def oracle"):
        check(of("none", oracle=None))
    with pytest.raises(TypeError, match="check: the operator is"):
        check(np.tanh)
    with pytest.raises(ValueError, match="framework 'Torch' is not installed\n  why: .*NumPy"):
        check(of("named"), ["Torch"])
    operator = of("once")
    for names in ("NumPy", (name for name in ["NumPy"])):
        assert "threads" in {row.what for row in check(operator, names).rows}


def test_an_operator_of_the_library_passes():
    assert check(ops.silu, ["NumPy"]).is_good
