# SPDX-License-Identifier: Apache-2.0
"""pto.testing: check() finds what is wrong with an operator; assert_close measures errors."""

import sys

import numpy as np
import pytest

import pto
from pto import op, ops
from pto.testing import Closeness, assert_close, check
from pto.testing.close import FLOATS
from pto.testing.frameworks import Jax, Npu, NumPy, PyTorch, chosen

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
        "instead of 3.0: off by 0.75 (3.1e+06 ULP), 18.8 times the bound")  # fmt: skip
    with pytest.raises(AssertionError, match=r"the shape is \[2, 2\], not \[2\]"):
        assert_close(x, x[0])
    with pytest.raises(AssertionError, match="1 of 2 elements"):
        assert_close(np.array([1, 3]), np.array([1, 2]), 10)  # integers are equal
    assert set(FLOATS) == {"float64", "float32", "float16", "bfloat16"}


BEYOND = {
    "integers beside halves": ([1, 2], [1.5, 2.5]),
    "an unsigned beside a sum that it cannot hold": (np.uint8([44]), [300]),
    "an unsigned beside a negative number": (np.uint8([255]), [-1]),
    "integers that f64 does not tell apart": ([2**53 + 1], [2.0**53]),
    "the same bits with and without a sign": (np.uint64([2**63]), np.int64([-(2**63)])),
    "a bool beside 2": ([True], [2]),
    "an integer beside NaN": ([0], [np.nan]),
    "infinities of both signs": ([np.inf], [-np.inf]),
    "half a step of f16": (np.float16([1, 3]), [1, 3.5]),
    "a vector beside a number": ([1.0], 1.0),
}


@pytest.mark.parametrize("name", BEYOND)
def test_assert_close_takes_no_other_value_for_equal(name):
    got, want = BEYOND[name]
    with pytest.raises(AssertionError, match="the result, "):
        assert_close(got, want)
    assert assert_close(got, got).bounds == 0


def test_assert_close_says_that_0_has_no_ulp():
    got = np.float32([0, 1e-3, 1])
    with pytest.raises(AssertionError, match=r"instead of 0: off by 0.001 \(0 has no ULP\), 100 "):
        assert_close(got, [0, 0, 1])
    assert assert_close(got, [0, 0, 1], 1e-2).ulp == 0


@pytest.mark.parametrize("tolerance", [-1, np.nan, np.inf, "1e-3", True, 1j, [1e-3]])
def test_a_tolerance_is_a_finite_number_from_0(tolerance):
    x = np.ones(2)
    for stated in (tolerance, {pto.f64: tolerance}):
        for got in (x, x.astype(int)):
            with pytest.raises(ValueError, match="assert_close: a tolerance is .*\n.*\n.*from 0"):
                assert_close(got, x, stated)
    with pytest.raises(ValueError, match="a tolerance is"):
        Closeness.of(x, x, tolerance)


@pytest.mark.parametrize("value", [[1 + 1j], "one", [None], [[1], [1, 2]], [2**70], object()])
def test_assert_close_takes_numbers(value):
    for pair in ([value, [1]], [[1], value]):
        with pytest.raises(TypeError, match="no array of numbers"):
            assert_close(*pair)


def test_assert_close_reads_tensors_of_torch_with_gradients_and_in_bf16():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, 256.0, np.nan], requires_grad=True)
    low = x.to(torch.bfloat16)
    assert assert_close(x, x).bounds == assert_close(low, [1, 256.4, np.nan], 0).bounds == 0
    assert assert_close(x, x, {torch.float32: 1e-3, np.float64: 1e-3}).is_good
    with pytest.raises(AssertionError, match=r"bfloat16\[3\]: .*off by 2 \(1 ULP\)"):
        assert_close(low, [1, 258, np.nan], 0)


def test_assert_close_needs_no_bfloat16_of_numpy_for_other_types(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = np.ones(2, np.float32)
    assert assert_close(x, x, {pto.f32: 1e-6, pto.bf16: 1e-2, "f16": 1e-3}).bounds == 0


def test_assert_close_reads_arrays_of_other_libraries():
    torch = pytest.importorskip("torch")
    assert assert_close(torch.ones(3), [1, 1, 1]).is_good


# --- checks --------------------------------------------------------------------------------------


def of(**members):
    """A user's operator, right but for the members. It takes the place of the one before: one name
    for all, so that kernels that are the same compile once."""
    right = {
        "build": lambda x, w, scale: x * w / (1 + scale * pto.abs(x)),
        "oracle": lambda x, w, scale=1.0: x * w / (1 + scale * np.abs(x)),
        "vectors": ("w",), "grad": "automatic", "types": "(T, T) -> T where T: f32 f64",
        "tolerance": {pto.f32: 1e-6, pto.f64: 1e-14},
    }  # fmt: skip
    found = {key: value for key, value in {**right, **members}.items() if value is not None}
    schema = "testing_own(Tensor x, Tensor w, *, float scale=1.0) -> Tensor"
    return op(schema)(type("User", (), found))


def failed(operator):
    with pytest.raises(AssertionError) as raised:
        check(operator, ["NumPy"])
    return str(raised.value)


def test_an_operator_that_is_right_gives_a_table():
    report = check(of(), ["NumPy"])
    text, html = str(report), report._repr_html_()
    assert report.is_good and "comparisons in" in text and "all as stated" in text
    heads = [line.split("  ")[0] for line in text.splitlines()[2:]]
    assert heads == ["oracle", "oracle", "eager", "threads", "gradient", "hostile arguments"]
    assert all(row.passed > 1 for row in report.rows) and html.count("<tr>") == 7
    assert 0 < report.rows[1].bounds <= 1 and report.rows[1].ulp > 0


def test_it_runs_in_the_frameworks_that_are_installed():
    torch = pytest.importorskip("torch")  # noqa: F841
    report = check(of(), ["PyTorch"])
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
    found = failed(of(**members))
    assert re.search(text, found) and "NOT as stated" in found, found


def test_a_check_needs_an_oracle_and_an_operator():
    with pytest.raises(ValueError, match="check: testing_own has no oracle\n.*\n.*def oracle"):
        check(of(oracle=None))
    with pytest.raises(TypeError, match="check: the operator is"):
        check(np.tanh)
    operator = of()
    for names in ("NumPy", "numpy", (name for name in ["NumPy"])):
        assert "threads" in {row.what for row in check(operator, names).rows}


def test_frameworks_are_named_as_the_table_or_python_names_them(monkeypatch):
    monkeypatch.setattr(PyTorch, "is_installed", classmethod(lambda cls: True))
    monkeypatch.setattr(Jax, "is_installed", classmethod(lambda cls: False))
    for names in ("torch", "PyTorch", ["pytorch"], {"TORCH", "PyTorch"}):
        assert chosen(names) == [PyTorch]
    assert chosen(["npu", "numpy", "torch"]) == [NumPy, PyTorch, Npu] and chosen([]) == []
    assert PyTorch in chosen(None) and Jax not in chosen(None)
    for name in ("jax", "JAX"):
        with pytest.raises(ValueError, match=f"{name}' is not installed\n  why: this .*PyTorch"):
            chosen([name])
    for name in ("tocrh", 3):
        with pytest.raises(ValueError, match="names no framework\n.*PyTorch .torch.*TensorFlow"):
            chosen([name])
    with pytest.raises(TypeError, match="frameworks is the int 3"):
        chosen(3)


def defined(name, arguments, types="T -> T where T: f32 f64", **members):
    """A user's operator that returns its first tensor."""
    own = {"build": lambda x, *more: x + 0, "oracle": lambda x, *more: x, **members}
    return op(f"testing_{name}({arguments}) -> Tensor", types)(type("User", (), own))


NEEDING = {
    "dims": ("Tensor x, int[] dims", "dims is of type int", r"yield \(tensor\(5, 13\), \[1\]"),
    "number": ("Tensor x, *, float a", "a is of type float", r"\(tensor\(5, 13\),\), {'a': 0.5}"),
    "list": ("Tensor[] x", r"x is of type Tensor\[\]", r"yield \(\[tensor\(5, 13\)\],\), {}"),
    "type": ("Tensor x, Tensor i", "i may not be f32", "dtype='i64', low=0, high=5"),
}


@pytest.mark.parametrize("name", NEEDING)
def test_a_check_says_which_samples_it_needs(name):
    arguments, reason, fix = NEEDING[name]
    types = "(T, I) -> T where T: f32, I: i64" if name == "type" else "T -> T where T: f32"
    build = (lambda x: x[0] + 0) if name == "list" else (lambda x, *more: x + 0)
    operator = defined(f"need_{name}", arguments, types, build=build)
    text = f"testing_need_{name} needs samples: {reason}.*\n.*\n.*class User: def samples.*{fix}"
    with pytest.raises(ValueError, match=text):
        check(operator, [])


@pytest.mark.parametrize("samples, text", [
    (lambda tensor: {}[tensor.dtype], "f64 raise KeyError: 'f64'"), (3, "f64 raise TypeError"),
    (lambda tensor: [], "f64: there are none"), (lambda tensor: [tensor(3)], "hold a value of"),
    (lambda tensor: [((tensor(3), 1), {})], "called with 2 positional"),
])  # fmt: skip
def test_samples_that_are_no_calls_are_named(samples, text):
    operator = defined(f"samples_{len(text)}", "Tensor x", samples=samples)
    with pytest.raises((ValueError, TypeError), match=f"check: samples of testing_.*{text}"):
        check(operator, [])


def test_a_type_without_samples_is_skipped():
    only = defined("only", "Tensor x", samples=lambda tensor: [
        ((tensor(3),), {})] if tensor.dtype == "f64" else [])  # fmt: skip
    assert [row.result for row in check(only, []).rows][:2] == ["passed", "skipped: no case"]


@pytest.mark.parametrize("tolerance, text", [
    (1e-3, "has the tolerance the float 0.001"), ({"f32": -1}, "a tolerance is -1"),
    ({"f99": 1}, "unknown element type 'f99'"),
])  # fmt: skip
def test_a_tolerance_of_a_class_is_checked_first(tolerance, text):
    with pytest.raises((ValueError, TypeError), match=text):
        check(defined(f"tolerance_{len(text)}", "Tensor x", tolerance=tolerance), [])


def test_a_tolerance_is_found_under_each_name_of_a_type():
    for kind in ("f32", "float32", np.float32, pto.f32):
        stated = {kind: 1e-3, "f64": 1e-3}
        rows = check(defined("plain", "Tensor x", tolerance=stated), []).rows
        assert [row.where for row in rows][:2] == ["NumPy f64", "NumPy f32"]


def test_a_wrong_infer_gives_rows_that_fail(monkeypatch):
    for number, infer in enumerate((lambda x: x.like((3,)), lambda x: 1 // 0)):
        found = failed(defined(f"infer_{number}", "Tensor x", infer=infer))
        heads = [line.split("  ")[0] for line in found.splitlines() if "FAILED" in line]
        assert heads == ["oracle", "oracle", "eager", "threads", "hostile arguments"]
        assert number or "infer says f64[3] for output 0, build makes f64[s0, s1]" in found


def test_a_framework_that_does_not_start_is_a_row_that_fails(monkeypatch):
    def broken(self):
        raise ImportError("no such library")

    monkeypatch.setattr(NumPy, "__init__", broken)
    assert "start              NumPy" in failed(defined("plain", "Tensor x"))


def test_an_operator_of_the_library_passes():
    assert check(ops.silu, ["NumPy"]).is_good
