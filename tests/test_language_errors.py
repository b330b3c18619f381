# SPDX-License-Identifier: Apache-2.0
"""Arguments of the language's functions that are of no use: each error says what, why and how."""

import math
import warnings

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


def deleted(x):
    del x[0]
    return x


_RETURNED = "<lambda> returned"


@pytest.mark.parametrize("function, told, fix", [
    (deleted, "del of a part of <traced f32[s0, s1]>", "pto.concat"),
    (lambda x: x.shape[0], f"{_RETURNED} the size s0, which", "pto.full([], x.shape[0])"),
    (lambda x: (x, x.shape[1]), f"{_RETURNED} the size s1 at [1], which", "pto.full("),
    (lambda x: {"b": [x, (x * 2, 3)]}, f"{_RETURNED} the int 3 at ['b'][1][1], which", "tuple"),
    (lambda x: x.reshape(*[1] * 8, -1), f"{_RETURNED} a tensor of 9 axes", "reshape"),
    (lambda x: [x, x.reshape(*[1] * 8, -1)], f"{_RETURNED} a tensor of 9 axes at [1]", "reshape"),
])  # fmt: skip
def test_a_result_that_a_function_cannot_have_is_named_with_its_place(function, told, fix):
    with pytest.raises(pto.Error) as caught:
        pto.jit(function)(X)
    error = caught.value
    assert error.what.startswith(told) and error.why and fix in error.fix
    assert "test_language_errors.py:" in error.location


@pytest.mark.parametrize("arguments, told, fix", [
    (([X, X],), "s[0] is a value of type numpy.ndarray, inside of a constant", "a parameter"),
    (([1, [X]], X), "s[1][0] is a value of type numpy.ndarray, inside of", "a parameter"),
    (({"a": X}, X), "s['a'] is a value of type numpy.ndarray, inside of", "a parameter"),
    (((X, X),), "s[0] is a value of type numpy.ndarray, inside of a constant", "one by one"),
])  # fmt: skip
def test_arrays_inside_of_constants_are_refused_by_their_places(arguments, told, fix):
    with pytest.raises(TypeError) as caught:
        pto.jit(lambda s, x=None: s[0] + s[1])(*arguments)
    error = caught.value
    assert told in error.what and error.why and fix in error.fix
    assert "test_language_errors.py:" in error.location


def test_a_nested_tensor_is_refused_as_a_sparse_one_is():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for x, told in ((nested, "it is a nested tensor"), (torch.eye(2).to_sparse(), "its layout is")):
        with pytest.raises(TypeError, match=f"x cannot be read: {told}.*\n  why: .*\n  fix: "):
            pto.jit(lambda x: x + 1)(x)


def test_min_and_max_take_several_numbers():
    @pto.jit
    def several(x):
        return x * pto.min(x.shape[0], 5, x.shape[1]) + pto.max(2, 3, x.shape[0], 1), pto.min(7, 5)

    with pytest.raises(TypeError, match="returned the int 5 at .1., which"):
        several(X)
    several = pto.jit(lambda x: x * pto.min(x.shape[0], 5, x.shape[1]) + pto.max(2, x, 1.5))
    np.testing.assert_array_equal(several(X), X * 3 + 2)


@pytest.mark.parametrize("function", [pto.argmax, pto.argmin])
@pytest.mark.parametrize("dim", [1, None])
def test_the_position_of_the_largest_of_nothing_names_its_function(function, dim):
    with pytest.raises(ValueError, match=f"{function.__name__} over an axis of size 0"):
        pto.jit(lambda x: function(x, dim))(X[:, :0])


def test_the_logarithm_of_a_sum_of_nothing_is_that_of_pytorch():
    empty = X[:, :0]
    assert pto.jit(lambda x: pto.logsumexp(x, 1))(empty).tolist() == [-math.inf] * 3
    assert pto.jit(lambda x: pto.logsumexp(x, 1, True))(empty).tolist() == [[-math.inf]] * 3
    assert pto.jit(lambda x: pto.logsumexp(x))(empty) == -math.inf


def test_a_tile_operation_names_the_type_that_it_cannot_have():
    with pytest.raises(
        TypeError, match="errors_of_integers: dtypes has i32.*\n.*\n.*f32"
    ) as caught:

        @pto.tile_op("errors_of_integers(Tensor x) -> Tensor")
        class Doubled(pto.Definition):
            dtypes = (pto.i32,)

            def body(x):
                return x * 2

    assert "test_language_errors.py:" in caught.value.location


def test_the_text_of_an_assert_shows_no_traced_value():
    @pto.jit
    def checked(x, limit=5):
        assert x[0, 0] > limit, f"x is {x[0, 0]:.2f}, and above {limit}"
        return x

    @pto.jit
    def told(x, limit=5):
        assert x[0, 0] > limit, f"above {limit}"
        return x

    with pytest.raises(pto.Error, match=r"not true: x is \{x\[0, 0\]\}, and above \{limit\}"):
        checked(X)
    with pytest.raises(pto.Error, match="not true: above 5"):
        told(X)


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
