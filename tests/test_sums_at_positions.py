# SPDX-License-Identifier: Apache-2.0
"""Sums at positions against NumPy: floats fold in double in row-major order, rounded once."""

import functools
import itertools
import math

import numpy as np
import pytest

import pto
from pto import _core
from pto.language.dtypes import numpy_type

TYPES = [row.name for row in _core.dtypes() if row.name != "bool"]
# (shape of x, axis, positions along it): pieces of every kind, and sizes of 0, 1 and primes.
LINES = [
    ((1,), 0, 1), ((7,), 0, 0), ((0,), 0, 0), ((13,), 0, 9001), ((9001,), 0, 13), ((503,), 0, 503),
    ((31, 3), 0, 500), ((3, 31), 1, 500), ((257, 37), 0, 11), ((37, 257), 1, 11), ((4, 1), 1, 9),
    ((2, 5, 3), 1, 40), ((2, 4, 6), 0, 11), ((0, 5), 1, 3), ((71, 300), 0, 90),
]  # fmt: skip
ROWS = [
    *LINES, ((2003, 67), 0, 301), ((101, 600), 0, 997), ((1009, 67), 0, 3001), ((3, 50, 9), 1, 500),
    ((6, 700), 1, 1301), ((50, 3, 11), 0, 17),
]  # fmt: skip


LAID_OUT = ("f32", "f16", "i64", "u8")  # a type of each size, in the quick run


class Case:
    def __init__(self, kind, shape, axis, count, is_row, is_dense=False):
        self.draw = np.random.default_rng([*kind.encode(), *shape, axis, count, is_row])
        self.kind, self.axis, self.is_dense = numpy_type(kind), axis, is_dense
        self.x = self.laid_out(self.numbers(shape))
        parts = [*shape[:axis], count, *shape[axis + 1 :]]
        self.src = self.laid_out(self.numbers(parts))
        self.index = self.laid_out(
            self.draw.integers(-1, shape[axis], [count] if is_row else parts).astype(
                self.draw.choice(["i8"] if is_dense else ["i8", "i4", "i2"])))  # fmt: skip

    def numbers(self, shape):
        if self.kind.kind in "iu":
            limits = np.iinfo(self.kind)
            return self.draw.integers(limits.min, limits.max, shape, self.kind, endpoint=True)
        if self.kind.name == "bfloat16":  # whose sums NumPy would round twice
            return (self.draw.integers(-4, 5, shape) / 4).astype(self.kind)
        x = self.draw.standard_normal(shape)
        if self.kind.itemsize > 2:  # what cancels shows the order
            huge = self.draw.random(shape) < 0.2
            x[huge] = np.sign(x[huge]) * 2.0**60
        return x.astype(self.kind)

    def laid_out(self, x):
        way = 0 if self.is_dense else self.draw.integers(4)
        if way == 1:
            return np.ascontiguousarray(x.T).T
        if way == 2:
            return np.ascontiguousarray(x[(slice(None, None, -1),) * x.ndim])[
                (slice(None, None, -1),) * x.ndim]  # fmt: skip
        if way == 3:
            wide = np.zeros([*x.shape[:-1], x.shape[-1] * 2], x.dtype)
            wide[..., ::2] = x
            return wide[..., ::2]
        return x

    def want(self):
        index = self.index
        if index.ndim != self.x.ndim or index.shape != self.src.shape:
            shape = [1] * self.x.ndim
            shape[self.axis] = -1
            index = np.broadcast_to(index.reshape(shape), self.src.shape)
        wide = self.kind if self.kind.kind in "iu" else np.dtype("f8")
        sums, places = self.x.astype(wide), list(np.indices(index.shape))
        places[self.axis] = index.astype("i8")
        there = index >= 0
        np.add.at(sums, tuple(p[there] for p in places), self.src.astype(wide)[there])
        return sums.astype(self.kind)


@functools.cache
def add_rows(axis):
    return pto.jit(lambda x, i, s: pto.index_add(x, axis, i, s))


@functools.cache
def add_elements(axis):
    return pto.jit(lambda x, i, s: pto.scatter_add(x, axis, i, s))


def same_bits(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", TYPES)
def test_parts_join_what_is_there_in_their_order(kind, monkeypatch, deep):
    is_dense = not deep and kind not in LAID_OUT
    for is_row, cases in ((True, ROWS), (False, LINES)):
        for shape, axis, count in cases:
            case = Case(kind, shape, axis, count, is_row, is_dense)
            program, want = (add_rows if is_row else add_elements)(axis), case.want()
            for threads in (1, 3):
                monkeypatch.setattr(pto.config, "threads", threads)
                same_bits(program(case.x, case.index, case.src), want)


@pytest.mark.parametrize("kind", ["f32", "f16", "i64"])
@pytest.mark.parametrize("shape", [(300, 512), (4001, 40), (5, 30011), (7, 8, 3001)])
def test_large_sums_have_the_same_bits_on_every_number_of_threads(kind, shape, monkeypatch):
    for axis, is_row in itertools.product(range(len(shape)), (True, False)):
        count = min(700, 2_000_000 * shape[axis] // math.prod(shape))  # parts take a second each
        case = Case(kind, shape, axis, count, is_row)
        program, want = (add_rows if is_row else add_elements)(axis), case.want()
        for threads in (1, 2, 7):
            monkeypatch.setattr(pto.config, "threads", threads)
            same_bits(program(case.x, case.index, case.src), want)


@pytest.mark.parametrize("size, width", [(3, 1), (100, 1), (3, 64), (100, 64), (5000, 64), (3, 5)])
def test_the_order_of_the_parts_decides_what_cancels(size, width):
    x = np.zeros((size, width), "f4")
    src = np.repeat(np.array([[2.0**60], [1], [-(2.0**60)], [1]], "f4"), width, 1)
    for order in itertools.permutations(range(4)):
        total = 0.0
        for k in order:
            total += float(src[k, 0])
        index, parts = np.full(5, size - 1), src[[*order, 1]]
        index[4] = 0
        got = add_rows(0)(x, index, parts)
        assert (got[-1] == np.float32(total)).all() and (got[0] == 1).all() and not got[1:-1].any()


@pytest.mark.parametrize("kind", ["f4", "f2", "f8"])
@pytest.mark.parametrize("shape, count", [((2000,), 3), ((40,), 300), ((1500, 70), 30)])
def test_elements_that_no_position_names_keep_their_bits(kind, shape, count):
    draw = np.random.default_rng(count)
    word = {"f2": "u2", "f4": "u4", "f8": "u8"}[kind]
    x = draw.integers(0, np.iinfo(word).max, shape, word).view(kind)  # signaling NaN among them
    index = draw.integers(0, shape[0] // 2, count) * 2
    src = np.ones((count, *shape[1:]), kind)
    got = add_rows(0)(x, index, src)
    named = np.isin(np.arange(shape[0]), index)
    assert (got.view(word)[~named] == x.view(word)[~named]).all()
    assert (np.isnan(got[named]) == np.isnan(x[named])).all()


@pytest.mark.parametrize("kind", ["i8", "f4", "f8"])
@pytest.mark.parametrize("shape, count", [((50,), 9000), ((9000,), 20), ((600, 64), 800)])
def test_a_position_out_of_range_is_told_before_anything_is_written(kind, shape, count):
    @pto.jit
    def add(x, i, s):
        x.index_add_(0, i, s)

    for bad in (-2, shape[0], 2**62, -(2**63), 2**63 - 1):
        x = np.zeros(shape, kind)
        index = np.random.default_rng(count).integers(-1, shape[0], count)
        index[-1] = bad
        with pytest.raises(pto.Error, match=f"position {bad}"):
            add(x, index, np.ones((count, *shape[1:]), kind))
        assert not x.any()


def test_into_an_axis_without_elements_nothing_is_added():
    for kind in ("i4", "f4"):
        x, skipped = np.zeros((0, 3), kind), np.full(5, -1)
        same_bits(add_rows(0)(x, skipped, np.ones((5, 3), kind)), x)


@pytest.mark.parametrize("kind", ["i8", "f4"])
def test_a_tensor_joins_itself(kind):
    x = np.random.default_rng(3).integers(-9, 9, (97, 5)).astype(kind)
    index = np.random.default_rng(4).integers(0, 97, 97)
    want = x.copy()
    np.add.at(want, index, x.copy())

    @pto.jit
    def add(x, i):
        x.index_add_(0, i, x)

    same_bits(pto.jit(lambda x, i: pto.index_add(x, 0, i, x))(x, index), want)
    add(x, index)
    same_bits(x, want)
