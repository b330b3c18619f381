# SPDX-License-Identifier: Apache-2.0
"""Sizes in a traced function: right where there is a meaning, else an error at the user's line."""

import math
import operator

import numpy as np
import pytest

import pto

X = np.ones((5, 3), "f4")
BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "/": operator.truediv, "@": operator.matmul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift, "divmod": lambda a, b: divmod(a, b)[0],
}  # fmt: skip
COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
GIVE_SIZES = ("+", "-", "*", "//", "%", "**", "divmod")


def computed(*of_sizes):
    """of_size(x.shape[0]) as a number for each of these functions, by one kernel."""

    def numbers(x):
        zero = pto.sum(x, (0, 1)) * 0
        return tuple(zero + of_size(x.shape[0]) for of_size in of_sizes)

    return [number[()] for number in pto.jit(numbers)(X)]


def error_of(of_size):
    with pytest.raises(pto.Error) as caught:
        pto.jit(lambda x: (of_size(x.shape[0]), x)[1])(X)
    error = caught.value
    assert error.what and error.why and error.fix
    assert error.location.startswith("tests/errors/test_size_errors.py:")
    return error


@pytest.mark.parametrize("sign", GIVE_SIZES)
def test_a_size_and_an_integer_give_the_number(sign):
    compute, others = BINARY[sign], [2, 7, np.int64(3), np.uint8(2), True]
    got = computed(*(lambda n, other=other: compute(n, other) for other in others))
    assert got == [compute(5, int(other)) for other in others]
    if sign != "**":
        got = computed(*(lambda n, other=other: compute(other, n) for other in others))
        assert got == [compute(int(other), 5) for other in others]


def test_what_else_is_a_whole_number():
    functions = [
        lambda n: -n, lambda n: +n, abs, lambda n: abs(3 - n * 2), math.floor, math.ceil,
        math.trunc, round, lambda n: n**0, lambda n: n**5, lambda n: n * n - n,
    ]  # fmt: skip
    assert computed(*functions) == [compute(5) for compute in functions]


@pytest.mark.parametrize("divide", [operator.floordiv, operator.mod])
@pytest.mark.parametrize("kind", ["kernel", "program", "body", "data"])
def test_a_size_is_not_divided_by_an_empty_axis(kind, divide):
    def kernel(x, y, out):
        out[0] = pto.sum(x) * 0 + divide(x.shape[0], y.shape[0])

    def program(x, y, out):
        for i in pto.loop(divide(x.shape[0], y.shape[0])):
            out[0] = pto.sum(x) + i

    def body(x, y, out):
        for i in pto.loop(1):
            out[i] = pto.sum(pto.ones([divide(x.shape[0], y.shape[0])]))

    def data(x, y, out):
        n = pto.sum(pto.cast(y, pto.i64))
        out[0] = pto.sum(pto.ones([divide(x.shape[0], pto.zeros([n]).shape[0])]))

    run, out = pto.jit(locals()[kind]), np.zeros(1, "f4")
    run(X[:, 0], X[:3, 0], out)
    with pytest.raises(pto.Error, match=r"size s.* divides by zero: its operands are \d+ and 0"):
        run(X[:, 0], X[:0, 0], out)


@pytest.mark.parametrize("most", [2**62, 2**61 + 1, 2**63 - 1])
def test_a_value_with_more_elements_than_64_bits_count_has_no_memory(most):
    @pto.jit
    def rows(n, at, out):
        kept = pto.zeros([n[0], 4])
        kept[at[0]] = out[0]
        out[1] = kept[at[0]] + 1.0

    out = np.full((2, 4), 3, "f4")
    rows(np.array([8]), np.array([2]), out)
    assert out[1].tolist() == [4] * 4
    with pytest.raises(pto.Error, match="there is no memory for a value of"):
        rows(np.array([most]), np.array([1000]), out)


def test_a_tensor_computes_with_a_size():
    functions = [
        lambda x, n: x / n, lambda x, n: n / x, lambda x, n: n * x, lambda x, n: n - x,
        lambda x, n: n + x, lambda x, n: (x * 2) % n, lambda x, n: x**n,
    ]  # fmt: skip
    y = np.arange(1, 16, dtype="f4").reshape(5, 3)
    found = pto.jit(lambda x: tuple(compute(x, x.shape[0]) for compute in functions))(y)
    for got, compute in zip(found, functions, strict=True):
        np.testing.assert_allclose(got, compute(y, np.float32(5)), rtol=1e-5)


def test_a_tensor_is_compared_with_a_size():
    y = np.arange(15, dtype="f4").reshape(5, 3)
    found = pto.jit(lambda x: tuple(
        given for of in COMPARE.values() for given in (of(x, x.shape[0]), of(x.shape[0], x))
    ))(y)  # fmt: skip
    want = [given for of in COMPARE.values() for given in (of(y, 5), of(5, y))]
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("other", [
    1.0, 2.5, np.float32(1), None, "a", b"a", [1], (1,), 1j, X, np.array(3), {},
])  # fmt: skip
@pytest.mark.parametrize("sign", [*BINARY])
def test_no_number_but_an_integer_meets_a_size(sign, other):
    compute = BINARY[sign]
    assert "the size" in error_of(lambda n: compute(n, other)).what
    if not (sign == "%" and isinstance(other, str | bytes)):  # which formats
        assert "the size" in error_of(lambda n: compute(other, n)).what


@pytest.mark.parametrize("sign", [sign for sign in BINARY if sign not in GIVE_SIZES])
def test_other_operators_give_no_size(sign):
    for of_size in (lambda n: BINARY[sign](n, 2), lambda n: BINARY[sign](2, n)):
        error = error_of(of_size)
        assert sign in error.what and "whole numbers" in error.why
        assert isinstance(error, TypeError)


def test_powers_have_small_whole_exponents():
    for exponent in (-1, 65, 10**30):
        error_of(lambda n, exponent=exponent: n**exponent)
    assert "exponent" in error_of(lambda n: 2**n).fix


@pytest.mark.parametrize("other", [4, np.int64(4), 4.0, np.float32(4), True, 10**30])
@pytest.mark.parametrize("sign", [*COMPARE])
def test_a_size_is_not_compared_with_a_number(sign, other):
    compare = COMPARE[sign]
    for of_size in (lambda n: compare(n, other), lambda n: compare(other, n)):
        error = error_of(of_size)
        assert "was compared with" in error.what and "one kernel serves all sizes" in error.why
        assert isinstance(error, TypeError)


@pytest.mark.parametrize("other", [None, "a", 2.5, [], object()])
def test_a_size_differs_from_what_is_no_whole_number(other):
    def differ(n):
        assert operator.ne(n, other) and operator.ne(other, n)
        assert not operator.eq(n, other) and not operator.eq(other, n)
        return 1

    assert computed(differ) == [1]


def test_a_size_compares_with_itself():
    def same(n):
        assert [compare(n, n) for compare in COMPARE.values()] == [1, 0, 0, 1, 0, 1]
        assert n + 1 == 1 + n and {n: 1}[n] == 1
        return 1

    assert computed(same) == [1]


@pytest.mark.parametrize("use", [
    range, int, float, complex, bool, operator.index, math.sqrt, lambda n: [1, 2][n],
     lambda n: 1 if n else 2, lambda n: not n, lambda n: n and 1,
    lambda n: max(n, 4), lambda n: sorted([n, 4]), lambda n: n in (1, 2), lambda n: "%d".__mod__(n),
    lambda n: f"{n:5d}", lambda n: f"{n:.2f}", lambda n: range(0, 10, n),
    lambda n: "abc"[:n],
])  # fmt: skip
def test_what_asks_for_the_number_is_told(use):
    error = error_of(use)
    assert "one kernel serves all sizes" in error.why


def test_a_size_prints_as_an_expression():
    def printed(n):
        assert f"{n} {n * 2 + 1!r} {n:>4}|{n!s}" == "s0 s0*2+1   s0|s0"
        assert "%s" % n == str(n) == "s0" and "{}".format(n) == "s0"  # noqa: UP031, UP032
        return 1

    assert computed(printed) == [1]


@pytest.mark.parametrize("size", [2.0, "a", None, [2], 10**30])
def test_a_shape_holds_sizes(size):
    error = error_of_shape(lambda x: x[None].broadcast_to((size, *x.shape)))
    assert "size" in error.what


def test_numbers_beyond_64_bits_are_named():
    for compute in (lambda n: n * 10**30, lambda n: n + 10**5000, lambda n: -(10**30) - n):
        assert "beyond 64 bits" in error_of(compute).what
    assert "1024 numbers and symbols" in error_of_shape(long_sum).what


def long_sum(x):
    n, m = x.shape
    for _ in range(20000):
        n = n // 2 + m
    return x * n


def error_of_shape(function):
    with pytest.raises(pto.Error) as caught:
        pto.jit(function)(X)
    assert caught.value.what and caught.value.why and caught.value.fix
    return caught.value


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8", "f2", "?"])
@pytest.mark.parametrize("value", [10**30, -(10**30), 2**63, 10**400, "a", None, [1], 1j])
def test_a_constant_is_a_number_of_its_type(dtype, value):
    x = np.ones(3, dtype)
    fits = isinstance(value, int) and abs(value) < 10**300 and dtype in ("f4", "f8")
    if fits:
        got = pto.jit(lambda x: pto.full_like(x, value))(x)
        np.testing.assert_allclose(got, np.full(3, float(value), dtype), rtol=1e-6)
        return
    if dtype == "f2" and isinstance(value, int) and abs(value) < 10**300:
        assert np.isinf(pto.jit(lambda x: pto.full_like(x, value))(x)).all()  # as in NumPy
        return
    with pytest.raises(pto.Error) as caught:
        pto.jit(lambda x: pto.full_like(x, value))(x)
    assert "constant" in caught.value.what and caught.value.why and caught.value.fix


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_full_like_takes_numbers_parameters_and_sizes(dtype):
    x = np.ones(7, dtype)
    filled = pto.jit(lambda x, v: pto.full_like(x, v))
    of_size = pto.jit(lambda x: pto.full_like(x, x.shape[0]))
    for got in (*(filled(x, v) for v in (7, 7.0, np.int64(7), np.float32(7))), of_size(x)):
        assert got.dtype == x.dtype and got.shape == x.shape and (got == 7).all()
    with pytest.raises(pto.Error, match="full_like: the value has the shape"):
        filled(x, x)


@pytest.mark.parametrize("shape", [(-2, -3), (-2, 3), (5, -3), (-2, -1), (3, 5, -1, -1)])
def test_a_negative_size_of_reshape_is_named_with_all_sizes(shape):
    with pytest.raises(pto.Error) as caught:
        pto.jit(lambda x: x.reshape(shape))(X)
    assert f"does not become {list(shape)}" in caught.value.what
    assert "not negative" in caught.value.why


@pytest.mark.parametrize("shape", [(-2, 5, 3), (-1, 3)])
def test_a_negative_size_of_broadcast_to_is_named_with_all_sizes(shape):
    with pytest.raises(pto.Error) as caught:
        pto.jit(lambda x: pto.broadcast_to(x, shape))(X)
    assert f"broadcast_to: [s0, s1] repeated up to {list(shape)}" in caught.value.what
    assert "not negative" in caught.value.why


@pytest.mark.parametrize("k", [4, 300])
def test_more_elements_than_topk_has_are_an_error_of_topk(k):
    with pytest.raises(pto.Error, match=f"sizes {k} and 3 differ in topk") as caught:
        pto.jit(lambda x: pto.topk(x, k).values)(X)
    assert isinstance(caught.value, ValueError)
    best = pto.jit(lambda x: pto.topk(x, 3).values)(X)
    np.testing.assert_array_equal(best, X)


@pytest.mark.parametrize("product", [lambda x: x[0] @ x, lambda x: x @ x[0]])
def test_a_product_of_a_vector_shows_both_shapes(product):
    with pytest.raises(pto.Error, match=r"matmul: .* shape \[s1\], the other \[s0, s1\]"):
        pto.jit(product)(X)
