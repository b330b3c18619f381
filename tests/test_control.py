# SPDX-License-Identifier: Apache-2.0
"""Loops in versions, symbolic numbers and branches: what they give, and what Python cannot ask."""

import math
import operator

import numpy as np
import pytest

import pto

F32 = np.float32
X = np.arange(24, dtype=F32).reshape(12, 2)


@pto.jit
def in_versions(x, bounds, out):
    total, versions = pto.zeros([2]), 0
    for i, k in pto.loop_unroll(bounds[0], bounds[1], 1, unroll_list=[2, 4]):
        total = total + pto.sum(x[i : i + k], 0)
        versions = versions * 10 + k
        if pto.is_loop_begin(i):
            out[0] = x[i]
        if pto.is_loop_end(i):
            out[1] = x[i + k - 1]
    count = 0
    for j in pto.loop(bounds[1] - 1, bounds[0] - 1, -1, unroll_list=[3]):
        count = count + 1
        if pto.is_loop_begin(j):
            out[2] = x[j]
        if pto.is_loop_end(j):
            out[3] = x[j]
    return total, pto.zeros([], pto.i64) + versions, pto.zeros([], pto.i64) + count


@pytest.mark.parametrize("start, stop", [(0, 0), (3, 1), (2, 3), (0, 5), (1, 8), (0, 11)])
def test_a_loop_in_versions_makes_each_iteration_once(start, stop):
    out = np.zeros((4, 2), F32)
    total, versions, count = in_versions(X, np.array([start, stop]), out)
    n = max(stop - start, 0)
    np.testing.assert_array_equal(total, X[start:stop].sum(0))
    digits = "4" * (n // 4) + "2" * (n % 4 // 2) + "1" * (n % 2)
    assert versions == int(digits or "0") and count == n
    ends = [start, stop - 1, stop - 1, start]
    np.testing.assert_array_equal(out, X[ends] if n else np.zeros((4, 2)))


def test_outside_a_traced_function_versions_count_as_a_range_does():
    assert [*pto.loop_unroll(1, 12, unroll_list=[4])] == [(1, 4), (5, 4), (9, 1), (10, 1), (11, 1)]
    assert [*pto.loop(5, unroll_list=[4])] == [0, 1, 2, 3, 4]


_BINARY = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
           operator.truediv, pto.min, pto.max, pto.ceildiv]  # fmt: skip
_COMPARED = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


def number_of(kind, x, numbers):
    """7 as a symbolic scalar that is known now, at the call, or from data."""
    return pto.symbolic_scalar({"int": 7, "size": x.shape[0], "data": numbers[0]}[kind])


@pytest.mark.parametrize("kind", ["int", "size", "data"])
def test_symbolic_scalars_compute_as_integers(kind):
    """`/` rounds down; a comparison is a condition."""

    @pto.jit
    def computed(x, numbers, out):
        n, m = number_of(kind, x, numbers), pto.symbolic_scalar(numbers[1])
        for place, one in enumerate([3, m, pto.symbolic_scalar(3), numbers[1], np.int32(3)]):
            row = [f(n, one) for f in _BINARY] + [f(one, n) for f in _BINARY[:5]]
            row += [n.min(one), n.max(one), -n, abs(n), divmod(n, 3)[1]]
            for column, value in enumerate(row):
                out[place, column] = numbers[1] - numbers[1] + value
            for column, compare in enumerate(_COMPARED, 19):
                out[place, column] = 0
                if compare(n, one):
                    out[place, column] = 1

    out = np.zeros((5, 25), F32)
    computed(np.zeros((7, 1), F32), np.array([7, 3]), out)
    wanted = [10, 4, 21, 2, 1, 2, 3, 7, 3, 10, -4, 21, 0, 3, 3, 7, -7, 7, 1, 0, 0, 1, 1, 0, 1]
    assert out.tolist() == [wanted] * 5


def test_a_call_refuses_sizes_that_it_divides_by_zero_and_integers_in_memory_give_zero():
    @pto.jit
    def divided(x, numbers):
        size = x.shape[0]
        for i in pto.loop(size // (size - 6)):
            numbers = numbers + i + 1
        parts = [size // (size - 8), size % (size - 8)]
        return [numbers - numbers + part for part in parts], numbers // 0, numbers % 0, numbers

    parts, *others = divided(np.zeros((7, 1), F32), numbers := np.array([7]))
    assert [part.tolist() for part in parts] == [[-7], [0]]
    assert others == [0, 0, numbers + 28]
    for size in (6, 8):
        with pytest.raises(pto.Error, match=f"divides by zero: its operands are {size} and 0"):
            divided(np.zeros((size, 1), F32), numbers)


def test_numbers_of_every_kind_have_min_max_and_as_variable():
    @pto.jit
    def limited(x, numbers, out):
        n, size, index = numbers[0], x.shape[0], pto.symbolic_scalar(numbers[0])
        rows = [(a.min(b), a.max(b), a.as_variable()) for a in (n, size, index, size - n)
                for b in (2, n, size, index)]  # fmt: skip
        for i in pto.loop(1):
            out[16, 0], out[16, 1] = (i + 5).min(size), i.max(n)
            out[16, 2] = i.as_variable() * 1.0
        for place, row in enumerate(rows):
            for column, value in enumerate(row):
                out[place, column] = n - n + value

    for size, n in ((7, 3), (3, 9)):
        limited(np.zeros((size, 2), F32), np.array([n]), out := np.zeros((17, 3), F32))
        kinds = (n, size, n, size - n)
        wanted = [[min(a, b), max(a, b), a] for a in kinds for b in (2, n, size, n)]
        assert out.tolist() == [*wanted, [min(5, size), max(0, n), 0]]


def test_symbolic_scalars_are_sizes_positions_and_factors():
    @pto.jit
    def used(x):
        b = pto.symbolic_scalar(x.shape[0])
        y = pto.full([b / 4, (b - 8).min(5)], 1.0) * (b / 5)
        if b > 11:
            y = y + b
        return y, x[b / 4 : b - 1], x * b, x.reshape(b * 2), pto.view(x, [b / 6, 1], [b - 2, 1])

    y, part, product, flat, corner = used(X)
    assert y.tolist() == [[14.0] * 4] * 3 and flat.shape == (24,)
    np.testing.assert_array_equal(part, X[3:11])
    np.testing.assert_array_equal(product, X * 12)
    np.testing.assert_array_equal(corner, X[10:, 1:])


def test_sizes_fill_tensors_and_bounds_in_the_wrong_order_name_an_empty_part():
    @pto.jit
    def parts(x):
        n = x.shape[0]
        fifth = pto.symbolic_scalar(n) / 5
        filled = pto.full([2], n), pto.full([1], fifth, pto.f32), pto.full_like(x[0], fifth)
        return *filled, x[5:3], x[20:2, 1:], x[:0]

    *filled, first, second, third = parts(X)
    assert [x.tolist() for x in filled] == [[12, 12], [2.0], [2.0, 2.0]]
    assert (first.shape, second.shape, third.shape) == ((0, 2), (0, 1), (0, 2))


def test_only_the_way_that_is_chosen_runs():
    @pto.jit
    def last_or_zero(x, n):
        y = pto.zeros([2])
        if n[0] > 0 and x[n[0] - 1, 0] >= 0:
            y = x[n[0] - 1]
        return y, x[n[0] - 1] if n[0] > 0 else x[0]

    for n in (0, 5):
        y, z = last_or_zero(X, np.array([n]))
        assert y.tolist() == (X[n - 1].tolist() if n else [0, 0])
        assert z.tolist() == X[max(n - 1, 0)].tolist()


def test_a_function_is_rewritten_only_where_it_chooses_by_traced_values():
    """It stays a compiled function, whose numbers are free, also inside of another."""

    @pto.jit
    def halved(x, n, factor=2.0, mode="halve"):
        if mode == "keep":
            return x
        if n[0] > 2:
            y = x / 2
        elif x.shape[1] > 2:
            y = x * 0
        else:
            y = x
        return y * factor

    @pto.jit
    def both(x, n):
        return halved(x, n) + halved(x, n, mode="keep")

    assert isinstance(halved, pto.Jit) and isinstance(both, pto.Jit)
    np.testing.assert_array_equal(both(X, np.array([3])), X * 2)
    np.testing.assert_array_equal(both(X, np.array([0])), X * 3)
    np.testing.assert_array_equal(halved(X, np.array([0]), 3.0), X * 3)
    assert halved(X, np.array([3]), mode="keep").tolist() == X.tolist()


def test_variables_of_python_keep_their_meaning_in_rewritten_text():
    @pto.jit
    def mixed(x, n, kind="a"):
        if kind == "a":
            import math as numbers

            def scale(v):
                return v * numbers.floor(2.5)
        else:
            scale = None
        names = [name for name in "xy" if name != "y"]
        for name in ["p", "q"]:
            if name == "q":
                break
        if n[0] > 0:
            y, name2 = scale(x), "positive"
        else:
            y, name2 = x, "positive"
        return {name: y, names[0]: y + 1, name2: y}

    assert [*mixed(X, np.array([1]))] == ["q", "x", "positive"]
    assert mixed(X, np.array([1]))["q"].tolist() == (X * 2).tolist()


def test_the_text_of_a_method_is_read_with_its_private_names_and_texts_at_the_margin():
    class _Layer:
        def __init__(self, factor):
            self.__factor = factor

        @pto.jit
        def scaled(self, x, n, __power=1):
            text = """a text at
the margin"""
            y = x
            if n[0] > len(text.split()):
                y = x * self.__factor**__power
            return y

    layer = _Layer(3.0)
    np.testing.assert_array_equal(layer.scaled(X, np.array([6])), X * 3)
    np.testing.assert_array_equal(layer.scaled(X, np.array([6]), _Layer__power=2), X * 9)
    np.testing.assert_array_equal(layer.scaled(X, np.array([5])), X)


def test_a_lambda_is_not_taken_for_the_def_whose_line_holds_it():
    def limited(x, positive=pto.jit(lambda z: z if z[0] > 0 else -z)):  # noqa: B008
        return x if x[0] > 100 else positive(x)

    with pytest.raises(pto.Error, match="a condition .* on a traced tensor"):
        limited(X[0])


_USES = {
    "bool": bool, "int": int, "float": float, "len": len, "iter": lambda n: [*n],
    "range": range, "list index": lambda n: [1, 2, 3][n], "list times": lambda n: [1] * n,
    "sqrt": math.sqrt, "text": lambda n: n + "a", "reflected text": lambda n: "a" - n,
    "none": lambda n: n * None, "less than none": lambda n: n < None,
    "more than a text": lambda n: n > "a", "in": lambda n: 1 in [n], "slice": lambda n: "abc"[:n],
    "chain": lambda n: 0 < n < 5, "power of a list": lambda n: n ** [1], "hex": hex,
    "modulo of a list": lambda n: n % [1], "min": lambda n: min(n, n * 2),
    "matmul": lambda n: n @ 3, "shift": lambda n: n << [1],
}  # fmt: skip


@pytest.mark.parametrize("use", _USES)
@pytest.mark.parametrize("kind", ["size", "number", "symbolic size", "symbolic number", "tensor"])
def test_python_that_needs_a_number_is_refused_with_a_fix(kind, use):
    """Whatever Python does with a symbol, the error says what, why and how, and where."""

    def refused(x, numbers):
        n = {"size": x.shape[0], "number": numbers[0], "tensor": x}.get(kind)
        if n is None:
            n = pto.symbolic_scalar(x.shape[0] if kind == "symbolic size" else numbers[0])
        return x * 0 + pto.zeros([]) * (_USES[use](n) is None)

    with pytest.raises(pto.Error) as caught:
        pto.jit(refused)(X, np.array([3]))
    error = caught.value
    assert error.why and error.fix and "test_control.py:" in error.location, str(error)


def traced_step(x, n):
    for i in pto.loop(0, 6, n[0], unroll_list=[2]):
        x = x + i
    return x


def three_variables(x, n):
    total = x
    for i in pto.loop_unroll(4):
        total = total + i
    return total


def wrong_list(x, n):
    for i in pto.loop(3, unroll_list=[0]):
        x = x + i
    return x


def no_list(x, n):
    for i in pto.loop(3, unroll_list="8"):
        x = x + i
    return x


def stale_reader(x, n):
    factor = 3

    def scaled(z):
        return z * factor

    def twice(z):
        return scaled(z) * 2

    if n[0] > 2:
        factor = 5
        x = twice(x)
    return scaled(x)


def stale_reader_inside(x, n):
    factor = 3

    def scaled(z):
        return sum([(lambda y: y * factor + i)(z) for i in range(2)])

    if n[0] > 2:
        factor = 5
        x = scaled(x)
    return x


@pto.jit
def own_names(x, n):
    def summed(z):
        return sum([(lambda k: k + i)(z) for i in range(3)])

    for i in pto.loop(n[0]):
        k = x * 2
        x = summed(k) + i
    return x


def test_a_function_may_have_variables_of_its_own_with_names_that_a_loop_changes():
    want = X
    for i in range(3):
        want = 6 * want + 3 + i
    np.testing.assert_array_equal(own_names(X, np.array([3])), want)


_MISTAKES = {
    "reader": (stale_reader, "twice reads factor, which a loop or branch changes"),
    "reader_inside": (stale_reader_inside, "scaled reads factor, which a loop or branch changes"),
    "traced_step": (traced_step, "an unroll_list with the step"),
    "variables": (three_variables, "the variables of the loop: i"),
    "unroll_list": (wrong_list, "the unroll_list is [0]"),
    "unroll_text": (no_list, "the unroll_list is '8'"),
    "begin": (lambda x, n: pto.is_loop_begin(0), "is_loop_begin: the int 0 is no index"),
    "end": (lambda x, n: pto.is_loop_end(n[0]), "is_loop_end: a value of type"),
    "real": (lambda x, n: pto.symbolic_scalar(2.5), "the float 2.5 is no whole number"),
    "tensor": (lambda x, n: pto.symbolic_scalar(x), "a tensor <traced f32"),
    "ceildiv": (lambda x, n: pto.ceildiv(x.shape[0], 2.0), "ceildiv: the float 2.0"),
    "size": (lambda x, n: pto.sum(pto.full([-1], 1.0)), "full: a size is -1"),
    "no_piece": (lambda x, n: pto.ceildiv(x.shape[0], 0), "ceildiv: b is 0"),
    "negative": (lambda x, n: pto.ceildiv(x.shape[0], np.int64(-2)), "ceildiv: b is -2"),
}


@pytest.mark.parametrize("name", _MISTAKES)
def test_a_mistake_with_loops_and_symbols_is_told(name):
    function, what = _MISTAKES[name]
    with pytest.raises(pto.Error) as caught:
        pto.jit(function)(X, np.array([3]))
    assert what in str(caught.value) and caught.value.why and caught.value.fix
