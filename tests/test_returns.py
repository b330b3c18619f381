# SPDX-License-Identifier: Apache-2.0
"""Early returns, and conditions that are values: as Python runs the same text over NumPy arrays."""

import numpy as np
import pytest

import pto


def early(x, n):
    if n[0] > 2:
        return x * 2
    y = x + 1
    return y


def nested(x, n):
    if n[0] > 2:
        if n[0] > 5:
            return x, x * 5
        else:
            return x, x * 3
    elif n[0] < 0:
        return x, -x
    if n[1] == 0:
        return -x, x
    for _ in range(2):
        x = x + 1
    return x, x


def behind_what_is_known(x, n, mode="add"):
    """Some conditions are known while tracing, also of a raise; a function of its own returns."""

    def doubled(v):
        if n[0] > 1:
            return v * 2
        return v

    if mode == "keep":
        return x
    if mode not in ("add", "keep"):
        raise ValueError(mode)
    if x.shape[0] < 2:
        return x * 0
    made = []
    for i in range(3):
        made.append(doubled(x) * i)
    return made[2]


def on_both_ways(x, n):
    if n[0] > 2:
        if n[0] > 5:
            return x * 7
        x = x * 2
    elif n[1] > 0:
        if n[0] < 0:
            return -x
        x = x + 3
    x = x + 1
    return x


def a_number(x, n):
    if n[0] > n[1]:
        return x[0] * n[0]
    i = 0
    while i < n[1]:
        i = i + 3
    return x[0] * i


def values(x, n, name=""):
    is_large = x.shape[0] > 1 and x.shape[1] > 3
    is_between = 0 < n[0] < 4
    is_other = not (is_large or n[1] == 2)
    name = name or "one"
    y = x * len(name)
    if is_large:
        y = y + 1
    if is_between and not is_other:
        y = y * 2
    for flag in (is_large, is_between, is_other, n[1] > 0 or x.shape[0] > n[1]):
        if flag:
            y = y * 3
    return y


def lazily(x, n):
    is_found = n[0] > 0 and x[n[0] - 1, 0] > 0
    return x + 1 if is_found else x


def kept_words(x, n, factor=0):
    k = factor or 4
    none = factor and n
    return (x * k if none == 0 else x) if n[0] > 0 else x - k


FUNCTIONS = [
    early,
    nested,
    on_both_ways,
    behind_what_is_known,
    a_number,
    values,
    lazily,
    kept_words,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_path_may_end_early(function):
    compiled = pto.jit(function)
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 2), (2, 4), (5, 3)):
        x = rng.integers(-4, 5, (rows, columns))
        for first in (-1, 0, 1, 3, 6):
            for second in (0, 2):
                n = np.array([min(first, rows) if function is lazily else first, second])
                got, want = compiled(x, n), function(x, n)
                for one, other in zip(np.atleast_1d(got), np.atleast_1d(want), strict=True):
                    np.testing.assert_array_equal(one, other)


def test_a_function_that_writes_may_return_before():
    def write(x, out, n):
        if n[0] == 0:
            return
        out[:] = x + 1
        if x.shape[0] > 3:
            return
        out[0] = 0

    for rows in (3, 4):
        for n in (0, 2):
            x, n = np.ones((rows, 2)), np.array([n])
            got, want = np.full((2, rows, 2), 7.0)
            pto.jit(write)(x, got, n)
            write(x, want, n)
            np.testing.assert_array_equal(got, want)


def test_a_word_of_a_number_that_is_not_known_is_refused():
    @pto.jit
    def steered(x):
        y = x.shape[0] > 1 and 5
        return x * y

    with pytest.raises(pto.Error, match="a traced condition and the int 5.*\n.*\n.*pto.where"):
        steered(np.ones(3))

    @pto.jit
    def chosen(x):
        y = x.shape[0] or 5
        return x * y

    with pytest.raises(pto.Error, match="a condition .* on a traced|the size"):
        chosen(np.ones(3))
