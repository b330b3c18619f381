# SPDX-License-Identifier: Apache-2.0
"""Arguments of the language's functions that are of no use: each error says what, why and how."""

import math

import numpy as np
import pytest

import pto

X = np.ones((3, 4), np.float32)
NOT_CONDITIONS = [None, "a", math.nan, [True], np.ones(2, bool), object()]


@pytest.mark.parametrize("use, told", [
    (lambda x: pto.zeros(math.nan), "zeros: the shape is the float nan"),
    (lambda x: pto.ones("2"), "ones: the shape is the str '2'"),
    (lambda x: pto.ones([2, -1]), "ones: a size is -1"),
    (lambda x: pto.zeros([True]), "zeros: the bool True is no whole number"),
    (lambda x: pto.full([math.nan], 1), "full: the float nan is no whole number"),
    (lambda x: pto.concat([]), "concat: a list without tensors"),
    (lambda x: pto.concat(()), "concat: a list without tensors"),
    (lambda x: x * pto.max(x.shape[0], 1.5), "max: the float 1.5 and the size s0"),
    (lambda x: x * pto.min(math.nan, x.shape[1]), "min: the float nan and the size s1"),
])  # fmt: skip
def test_an_error_names_the_function_that_was_called(use, told):
    with pytest.raises(pto.Error) as caught:
        pto.jit(use)(X)
    assert caught.value.what.startswith(told) and caught.value.why and caught.value.fix
    assert "test_language_errors.py:" in caught.value.location


@pytest.mark.parametrize("condition", NOT_CONDITIONS, ids=lambda one: type(one).__name__)
def test_what_is_no_condition_is_refused(condition):
    with pytest.raises(TypeError, match="cond: the condition is .*\n  why: .*\n  fix: "):
        pto.jit(lambda x: pto.cond(condition, lambda: x, lambda: -x))(X)
    with pytest.raises(TypeError, match="check: the condition is .*\n  why: .*\n  fix: "):
        pto.jit(lambda x: (pto.check(condition, "it holds"), x)[1])(X)


def test_conditions_that_are_known_and_sizes_are_conditions():
    for one, sign in ((True, 1), (np.bool_(False), -1), (3, 1), (0, -1)):
        found = pto.jit(lambda x: pto.cond(one, lambda: x, lambda: -x))(X)  # noqa: B023
        np.testing.assert_array_equal(found, X * sign)
    by_size = pto.jit(lambda x: pto.cond(x.shape[0], lambda: x, lambda: -x))
    np.testing.assert_array_equal(by_size(X), X)
    assert by_size(X[:0]).shape == (0, 4)
    some = pto.jit(lambda x: (pto.check(x.shape[0], "there are rows"), x * 2)[1])
    np.testing.assert_array_equal(some(X), X * 2)
    with pytest.raises(pto.Error, match="check: not true: there are rows"):
        some(X[:0])


@pto.jit
def doubled(x, out):
    for i in pto.loop(x.shape[0]):
        out[i] = x[i] * 2


@pto.jit
def first_of(x, n):
    return x * n[0]


@pytest.mark.parametrize("value, told", [
    (None, "None"), (3, "the int 3"), (math.nan, "the float nan"), (True, "the bool True"),
])  # fmt: skip
def test_a_constant_in_the_place_of_an_array_is_named(value, told):
    calls = ((doubled, (value, X.copy()), "x"), (doubled, (X, value), "out"),
             (first_of, (X, value), "n"))  # fmt: skip
    for function, arguments, name in calls:
        with pytest.raises(TypeError, match=f"{name} is {told}, and a line uses it as") as caught:
            function(*arguments)
        assert caught.value.fix == f"pass an array for {name}"
        assert "test_language_errors.py:" in caught.value.location


def test_a_mistake_in_the_text_of_a_function_stays_that_of_python():
    @pto.jit
    def wrong(x, bias=None):
        return x * "a".missing

    with pytest.raises(AttributeError, match="'str' object has no attribute 'missing'"):
        wrong(X)


def test_an_error_of_another_number_does_not_name_the_argument_of_its_type():
    @pto.jit
    def scaled(x, n):
        own = 3
        return x * own[0]  # type: ignore[index]

    with pytest.raises(TypeError) as raised:
        scaled(X, 7)
    assert str(raised.value) == "'int' object is not subscriptable"
