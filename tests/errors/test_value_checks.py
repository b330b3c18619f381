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
    breaks_a_check: (RuntimeError, "check: not true: rows are below 2", "goes on", "values"),
    breaks_a_check_in_a_branch: (RuntimeError, "not true: row 2 is the last of s0", "goes on", ""),
    breaks_an_assertion: (RuntimeError, "not true: x.shape[0] % 2 == 0 and", "goes on", ""),
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
