# SPDX-License-Identifier: Apache-2.0
"""Mistakes with `if` and `while` of programs: what, why and fix, and the user's line."""

import numpy as np
import pytest

import pto

X, ROWS, OUT = np.ones((3, 2), "f4"), np.array([0, 2, 1]), np.zeros((3, 2), "f4")


def steers_with_a_vector(x, rows, out):
    for i in pto.loop(3):
        if rows > 1:
            out[i] = x[i]


def returns_from_a_range(x, rows, out):
    for i in range(2):
        if rows[i] > 1:
            return x
    return -x


def returns_two_shapes(x, rows, out):
    if rows[0] > 1:
        return x
    return -x[0]


def returns_on_one_path(x, rows, out):
    if rows[0] > 1:
        return x


def breaks_out_of_a_range(x, rows, out):
    for i in range(3):
        if rows[i] > 1:
            break
        out[i] = x[i]


def returns_from_a_while(x, rows, out):
    while rows[0] > 1:
        return x


def raises_on_one_path(x, rows, out):
    out[0] = x[0]
    if rows[0] > 1:
        raise ValueError(rows)


def writes_one_of_two(x, rows, out):
    y = pto.zeros([3, 2])
    if rows[0] > 1:
        y = out
    y[0] = x[0]


def assigned_on_one_path(x, rows, out):
    if rows[0] > 1:
        y = x[0]
    out[0] = y  # noqa: F821


def two_shapes(x, rows, out):
    if rows[0] > 1:
        y = x[0]
    else:
        y = x * 2
        out[1] = 1
    out[0] = y + 1


def no_tensor_on_one_path(x, rows, out):
    kept = None
    if rows[0] > 1:
        kept = x[0]
    out[0] = kept + 1


def two_types(x, rows, out):
    y = rows[0]
    out[0] = x[0] if y > 0 else rows[0:2]


def while_without_end(x, rows, out):
    n = rows[1]
    while n > 0:
        n = n + 1
    return pto.zeros([1]) + n


def while_changes_nothing(x, rows, out):
    while rows[1] > 0:
        x[0] + 1


def while_changes_type(x, rows, out):
    n = rows[1]
    while n > 0:
        n = x[0]


def counts_in_python(x, rows, out):
    for i in range(rows[0]):
        out[i] = x[i]


CASES = {
    steers_with_a_vector: (TypeError, "a condition (if", "one condition", "pto.where"),
    returns_from_a_range: (TypeError, "an if with a return inside", "at the call", "pto.where"),
    returns_two_shapes: (TypeError, "return different things", "f32[s0, s1] and", "broadcast"),
    returns_on_one_path: (TypeError, "return different things", "no tensor", "each path"),
    breaks_out_of_a_range: (TypeError, "an if with a break inside", "runs to its end", "pto.loop"),
    returns_from_a_while: (TypeError, "a while with a return inside", "", ""),
    raises_on_one_path: (TypeError, "an if with a raise inside", "at the call", ""),
    writes_one_of_two: (TypeError, "another tensor on some path", "only at the call", "clone"),
    assigned_on_one_path: (TypeError, "the variable y has no value", "one path", "front of the if"),
    two_shapes: (TypeError, "the variable y has no value", "f32[s1] and f32[s0, s1]", ""),
    no_tensor_on_one_path: (TypeError, "the variable kept has no value", "no tensor or", ""),
    two_types: (TypeError, "a conditional expression", "one type", "cast"),
    while_without_end: (RuntimeError, "a loop has not ended", "condition fails", "pto.loop"),
    while_changes_nothing: (TypeError, "while: the body changes nothing", "never change", "assign"),
    while_changes_type: (TypeError, "the variable n is i64[]", "one type and shape", ""),
    counts_in_python: (TypeError, "conversion to a Python number", "", "pto.loop"),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_a_mistake_with_branches_is_told_with_its_line(function):
    kind, what, why, fix = CASES[function]
    with pytest.raises(kind) as caught:
        pto.jit(function)(X, ROWS, OUT.copy())
    error = caught.value
    assert isinstance(error, pto.Error), repr(error)
    assert what in str(error) and why in error.why and fix in error.fix, str(error)
    assert error.why and error.fix
    place = f"{error.location} {error.what}".split("test_branch_errors.py:")[1]
    line, first = int(place.split(":")[0].split()[0]), function.__code__.co_firstlineno
    assert first <= line <= first + 7, str(error)
