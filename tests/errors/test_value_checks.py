# SPDX-License-Identifier: Apache-2.0
"""pto.check and assert: what is not true of a call's values is told with its line, and in time."""

import numpy as np
import pytest
import torch

import pto
import pto.torch
from pto.language.op import op

X, ROWS, OUT = np.ones((3, 2), "f4"), np.array([0, 2, 1]), np.zeros((3, 2), "f4")


def breaks_a_check(x, rows, out):
    out[0] = x[1]
    pto.check(rows < 2, "rows are below 2")


def breaks_a_check_in_a_branch(x, rows, out):
    out[:] = x
    for i in pto.loop(3):
        if rows[i] == 2:
            assert i > 1, f"row 2 is the last of {x.shape[0]}"


def breaks_an_assertion(x, rows, out):
    assert x.shape[0] % 2 == 0 and x.ndim == 2
    out[:] = x


def breaks_a_known_check(x, rows, out):
    pto.check(x.ndim == 3, "x has three axes")


def checks_numbers(x, rows, out):
    pto.check(x, "x is true")


def checks_without_a_sentence(x, rows, out):
    pto.check(x > 0, rows)


CASES = {
    breaks_a_check: (
        RuntimeError,
        "not true: rows are below 2: 2 < 2 is false at [1]",
        "goes on",
        "values",
    ),
    breaks_a_check_in_a_branch: (
        RuntimeError,
        "not true: row 2 is the last of s0: 1 > 1 is false",
        "goes on",
        "",
    ),
    breaks_an_assertion: (RuntimeError, "x.ndim == 2: 1 == 0 is false", "goes on", ""),
    breaks_a_known_check: (ValueError, "not true: x has three axes", "known", "arguments"),
    checks_numbers: (TypeError, "check: the condition is f32", "true or false", "compare"),
    checks_without_a_sentence: (TypeError, "check: a value of type", "shows it", "pto.check(n"),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_a_check_that_fails_says_what_and_where(function):
    kind, what, why, fix = CASES[function]
    with pytest.raises(kind) as caught:
        pto.jit(function)(X, ROWS, OUT.copy())
    error = caught.value
    assert what in str(error) and why in error.why and fix in error.fix, str(error)
    place = f"{error.location} {error.what}".split("test_value_checks.py:")[1]
    line, first = int(place.split(":")[0].split()[0]), function.__code__.co_firstlineno
    assert first <= line <= first + 4, str(error)


A, B = np.array([[1, 5, 2], [4, 0, 3]], "i4"), np.array([2.5, -1, 0.1], "f4")
SIDES = {
    "rows of a matrix": (lambda a, b: a[1] < 4, "4 < 4 is false at [0]"),
    "a column and a row": (
        lambda a, b: pto.cast(a[:, :1], pto.f32) >= b[:2],
        "1 >= 2.5 is false at [0, 0]",
    ),
    "turned": (lambda a, b: a.shape[0] != a.T, "2 != 2 is false at [2, 0]"),
    "an axis more": (lambda a, b: b[:, None] <= b[None], "2.5 <= -1 is false at [0, 1]"),
    "a mirrored constant": (lambda a, b: b < 2, "2.5 < 2 is false at [0]"),
    "of two, the second": (lambda a, b: (a >= 0) & (a < 5), "5 < 5 is false at [0, 1]"),
    "all": (lambda a, b: pto.all(b > 0), "-1 > 0 is false at [1]"),
    "all of rows": (lambda a, b: (b != 0.1).all(0), "0.1 != 0.1 is false at [2]"),
    "a sum": (lambda a, b: pto.sum(a) == 16, "15 == 16 is false"),
    "a sum of reals": (lambda a, b: pto.sum(b[:2]) > 3, "1.5 > 3 is false"),
    "an element": (lambda a, b: a[1, 0] <= b[0], "4 <= 2.5 is false"),
    "a number and a size": (lambda a, b: a[0, 1] * 2 == a.shape[1], "10 == 3 is false"),
    "computed elements": (lambda a, b: a * 2 < 9, "it holds"),
    "one of two": (lambda a, b: (a < 0) | (a > 3), "it holds"),
    "a truth": (lambda a, b: pto.cast(b, pto.boolean) & (a[0] > 9), "1 > 9 is false at [0]"),
}


@pytest.mark.parametrize("case", SIDES)
def test_a_check_that_fails_shows_the_first_values_of_what_it_compares(case):
    condition, text = SIDES[case]

    @pto.jit
    def checked(a, b):
        pto.check(condition(a, b), "it holds")
        return a + 1

    with pytest.raises(RuntimeError) as caught:
        checked(A, B)
    assert caught.value.what.endswith(text), str(caught.value)


def test_a_call_that_a_check_refuses_has_written_nothing():
    @pto.jit
    def shifted(x, rows, out):
        out[:] = x + 1
        for i in pto.loop(x.shape[0]):
            out[rows[i]] = x[i]
        pto.check((rows >= 0) & (rows < 3), "rows lie in out")
        assert pto.all(x == 1), "x is 1"

    out = OUT.copy()
    shifted(X, ROWS, out)
    assert (out == 1).all()
    for x, rows, what in [(X, ROWS + 2, "of 2 elements: rows lie in out"), (X + 1, ROWS, "x is 1")]:
        with pytest.raises(RuntimeError, match=what):
            shifted(x, rows, out)
        assert (out == 1).all()
    shifted(X[:0], ROWS[:0], out[:0])


@op("value_checks_scaled(Tensor x, Tensor n) -> Tensor")
class Scaled:
    """Twice x, where n is positive."""

    grad = "automatic"
    types = "(f32, i64) -> f32"

    def build(x, n):
        pto.check(n > 0, "n is positive")
        return x * 2


def test_an_operator_with_a_check_has_shapes_and_a_gradient():
    scaled, x = torch.ops.pto.value_checks_scaled, torch.ones(3, requires_grad=True)
    scaled(x, torch.tensor([1, 2])).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="check: not true: n is positive"):
        scaled(x, torch.tensor([1, 0]))
    compiled = torch.compile(lambda x, n: scaled(x, n) + 1, backend="aot_eager", fullgraph=True)
    assert compiled(x, torch.tensor([1])).tolist() == [3, 3, 3]
