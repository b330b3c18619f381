# SPDX-License-Identifier: Apache-2.0
"""Positions, order and scans compiled, against the interpreter, which says what they mean."""

import warnings

import numpy as np
import pytest

import pto
from pto import _core
from pto.language.dtypes import numpy_type

TYPES = [row.name for row in _core.dtypes()]
SEEDS = range(len(TYPES) * 2)


def compare(function, *arrays):
    """The bits of a compiled call are those of the interpreter."""
    program = pto.jit(function)
    want = pto.interpret(program.trace(*arrays), *arrays)
    want = want if isinstance(want, list) else [want]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is compiled
        got = program(*arrays)
    got = list(got) if isinstance(got, tuple) else [got]
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a.astype("f8"), b.astype("f8"))
        np.testing.assert_array_equal(np.signbit(a.astype("f8")), np.signbit(b.astype("f8")))


class Case:
    def __init__(self, seed):
        self.draw = np.random.default_rng(seed)
        self.kind = numpy_type(TYPES[seed % len(TYPES)])
        self.is_float = self.kind.kind == "f" or self.kind.name == "bfloat16"
        rank = 1 + seed % 3
        sizes, chances = [0, 1, 2, 5, 40, 300], [0.04, 0.16, 0.2, 0.3, 0.2, 0.1]
        self.shape = [int(n) for n in self.draw.choice(sizes, rank, p=chances)]
        self.axis = int(self.draw.integers(rank))
        self.x = self.laid_out(self.numbers(self.shape))

    def numbers(self, shape):
        x = self.draw.integers(-4 if self.is_float or self.kind.kind == "i" else 0, 5, shape)
        x = (x * (1.25 if self.is_float else 1)).astype(self.kind)
        if self.is_float:
            x[self.draw.random(shape) < 0.1] = np.nan
            x[self.draw.random(shape) < 0.1] = -0.0
        return x

    def laid_out(self, x):
        way = self.draw.integers(3)
        if way == 0:
            return x
        if way == 1:
            return np.ascontiguousarray(x.T).T
        wide = np.zeros([*x.shape[:-1], x.shape[-1] * 2], x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]

    def index(self, is_row, low=0):
        size = self.shape[self.axis]
        shape = [1 if is_row else n for n in self.shape]
        shape[self.axis] = int(self.draw.integers(1, 9)) if size else 0
        kind = self.draw.choice(["i4", "i8", "i2", "u4"] if low == 0 else ["i4", "i8", "i2"])
        return self.draw.integers(low, max(size, 1), shape).astype(kind)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_positions_choose_and_write_is_what_the_interpreter_finds(seed):
    case = Case(seed)
    axis, x = case.axis, case.x
    for is_row in (False, True):
        index = case.index(is_row)
        compare(lambda x, i: pto.take_along_dim(x, i, axis), x, index)
        index = case.index(is_row, -1)
        shape = list(case.shape)
        shape[axis] = index.shape[axis]
        src = case.laid_out(case.numbers(shape))
        if not is_row:
            compare(lambda x, i, s: x.scatter(axis, i, s), x, index, src)
            if case.kind.kind != "b":
                compare(lambda x, i, s: x.scatter_add(axis, i, s), x, index, src)
            continue
        rows = np.maximum(index.reshape(-1), 0)
        if case.kind.kind != "b":
            compare(lambda x, i, s: x.index_add(axis, i, s), x, rows, src)

        def write(x, i, s):
            y = x.clone()
            y[(slice(None),) * axis + (i,)] = s
            return y, x

        compare(write, x, rows, src)


def rows_of(x):
    return pto.cast(pto.arange(x.shape[0]), x.dtype)[:, None]


def columns_of(x):
    return pto.cast(pto.arange(x.shape[1]), x.dtype)


# Positions along each axis of the loops of a kernel, and as values of their own.
COUNTING = {
    "columns": lambda x: x + columns_of(x),
    "rows": lambda x: x * rows_of(x),
    "both": lambda x: pto.where(rows_of(x) >= columns_of(x), x, 0),
    "turned": lambda x: pto.transpose(x, 0, 1) + rows_of(x)[:, 0],
    "folded columns": lambda x: pto.sum(x * columns_of(x), 1),
    "folded rows": lambda x: pto.sum(x * rows_of(x), 0),
    "rows while columns are folded": lambda x: pto.sum(x * rows_of(x), 1),
    "columns while rows are folded": lambda x: pto.sum(x * columns_of(x), 0),
    "all folded": lambda x: pto.sum(x * rows_of(x) + columns_of(x)),
    "a row's own": lambda x: pto.cast(pto.sum(x, 1), x.dtype) * rows_of(x)[:, 0],
    "alone": lambda x: (pto.arange(x.shape[1]), pto.arange(x.shape[0] * x.shape[1])),
    "in another shape": lambda x: pto.reshape(pto.arange(x.shape[0] * x.shape[1]), x.shape) + 1,
    "gathered": lambda x: pto.index_select(x, 1, pto.flip(pto.arange(x.shape[1]), [0])),
    "scanned": lambda x: pto.cumsum(x * columns_of(x), 1),
}


@pytest.mark.parametrize("shape", [(3, 40), (1, 1), (70, 1), (1, 5001), (33, 130), (0, 3), (2, 0)])
@pytest.mark.parametrize("what", COUNTING)
def test_kernels_count_positions_themselves(what, shape):
    draw = np.random.default_rng(0)
    for kind in (np.int32, np.float32):
        compare(COUNTING[what], draw.integers(-4, 5, shape).astype(kind))


@pto.jit
def first_place(x, other: int):
    places = pto.arange(x.shape[-1], dtype=pto.i64)
    return pto.amin(pto.where(x > 0, places, other), -1)


@pytest.mark.parametrize("n", [1, 7, 16, 63, 64, 65, 300])
def test_the_least_place_of_a_condition_is_the_first_one(n):
    draw = np.random.default_rng(n)
    x = np.full((9, n), -1, np.float32)
    x[1] = x[2, 0] = x[3, -1] = x[4, n // 2] = 1
    x[5, n // 2 :], x[6, : n // 2] = 1, 1
    x[7:] = draw.standard_normal((2, n))
    for other in (-5, 3, 2**40):
        want = np.where(x > 0, np.arange(n), other).min(-1)
        np.testing.assert_array_equal(first_place(x, other), want)
    assert ("FirstPlace" in first_place.explain(x, 3).cpp) == (n > 1)


def test_positions_that_only_kernels_read_take_no_memory():
    x = np.zeros((3, 5000), np.float32)
    found = pto.jit(lambda x: pto.argmax(x, 1, keepdim=True)).explain(x)
    assert found.memory.peak(1) == 0 and "iota ->" not in str(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_sorts_and_scans_are_those_of_the_interpreter(seed):
    case = Case(seed)
    axis, x = case.axis, case.x
    down = bool(seed % 2)
    compare(lambda x: tuple(pto.sort(x, axis, down)), x)
    compare(lambda x: pto.argsort(x, axis, not down), x)
    compare(lambda x: pto.sort(x, axis, down).values, x)
    if case.kind.kind != "b":
        compare(lambda x: (pto.cumsum(x, axis), pto.cummax(x, axis), pto.cummin(x, axis)), x)
        if case.is_float:
            compare(lambda x: pto.cumprod(x, axis), x)


def test_a_cache_takes_rows_in_its_own_memory():
    @pto.jit
    def remember(cache, slots, rows):
        cache[:] = pto.scatter_update(cache, slots, rows)

    @pto.jit
    def each(cache, slots, rows):
        for i in pto.loop(slots.shape[0]):
            cache[slots[i : i + 1]] = rows[i : i + 1] + cache[slots[0]]

    draw = np.random.default_rng(0)
    cache, rows = draw.random((3, 4, 5), np.float32), draw.random((4, 5), np.float32)
    slots = np.array([7, -1, 0, 7])
    want = cache.reshape(12, 5).copy()
    want[[7, 0]] = rows[[3, 2]]
    remember(cache, slots, rows)
    np.testing.assert_array_equal(cache, want.reshape(cache.shape))
    flat, slots = want.copy(), np.array([3, 1, 3, 2])
    found = pto.interpret(each.trace(flat, slots, rows), flat, slots, rows)
    found = found[0] if isinstance(found, list) else found
    each(flat, slots, rows)
    np.testing.assert_array_equal(flat, found)


def test_a_position_that_does_not_exist_is_told_as_by_the_interpreter():
    x = np.zeros((3, 2), np.float32)
    for function in (lambda x, i: x[i], lambda x, i: pto.index_add(x, 0, i, x)):
        for rows in ([0, 3, 9], [0, -2, 1]):
            program, index = pto.jit(function), np.array(rows)
            with pytest.raises(pto.Error) as told:
                pto.interpret(program.trace(x, index), x, index)
            with pytest.raises(pto.Error) as found:
                program(x, index)
            assert "position" in str(told.value)
            assert str(told.value) in str(found.value) or str(found.value) in str(told.value)


KERNELS = {
    "rows": lambda x, i: x[i] * 2,
    "rows at two places": lambda x, i: x[i] + x[x.shape[0] - 1 - i],
    "rows in two axes": lambda x, i: x[pto.stack([i, i], 1)] * 2 - 1,
    "rows beside their positions": lambda x, i: (x[i] * i.to(x.dtype)[:, None]).sum(0),
    "rows at computed positions": lambda x, i: x[(i * 3 + 1) % x.shape[0]] * i.to(x.dtype)[:, None],
    "sums of rows": lambda x, i: x[i].sum(-1),
    "sums along positions": lambda x, i: x[i].sum(0),
    "sums along positions in two axes": lambda x, i: x[pto.stack([i, i], 1)].sum((0, 1)),
    "largest of all": lambda x, i: x[i].amax(),
    "rows with many sums": lambda x, i: without_sums(x[i], -1),
    "columns with many sums": lambda x, i: without_sums(x[i], 0),
}


def without_sums(x, dim):
    for _ in range(7):
        x = x - (x.sum(dim, keepdim=True) // 1024).to(x.dtype)
    return x


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "i1"])
def test_kernels_read_rows_where_they_lie(name, kind):
    draw = np.random.default_rng(3)
    for width, count in ((128, 5), (300, 1), (1000, 90)):
        x = draw.integers(-4, 5, (7, width * 2)).astype(kind)
        for table in (x[:, :width].copy(), x[::-1, :width], x[:, ::2]):
            for places in (np.int32, np.int64):
                index = draw.integers(0, 7, 2 * count).astype(places)
                compare(KERNELS[name], table, index[::2])
    found = pto.jit(KERNELS[name]).explain(x, index)
    assert "gather" not in [one.title for one in found.every_step()]


def test_a_kernel_tells_a_position_that_does_not_exist():
    for name, function in KERNELS.items():
        x, program = np.zeros((3, 128), np.float32), pto.jit(function)
        program(x[:0], np.zeros(0, np.int64)) if "largest" not in name else None
        for rows, bad in (([0, 1] * 5000 + [3], 3), ([0, -4, 1], -4)):
            if "computed" not in name and "two places" not in name:
                with pytest.raises(IndexError, match=f"position {bad} along axis 0.* the size 3"):
                    program(x, np.array(rows))
        with pytest.raises(
            IndexError, match="position -?[0-9]+ along axis 0, which has the size 0"
        ):
            program(x[:0], np.array([0, 0]))


def test_pages_that_unsigned_numbers_name_are_found_and_told_as_such(monkeypatch):
    @pto.jit
    def attend(q, pages, table, out):
        for i in pto.loop(q.shape[0]):
            out[i] = pto.matmul(q[i], pages[table[i]].reshape(-1, pages.shape[2]), b_trans=True)

    monkeypatch.setattr(pto.config, "threads", 1)  # on more the pages are copied
    draw = np.random.default_rng(5)
    q, pages = (draw.integers(-4, 5, shape).astype("f4") for shape in ((2, 3, 16), (6, 4, 16)))
    table, out = np.array([[4, 0, 5], [1, 1, 2]], "u4"), np.zeros((2, 3, 12), "f4")
    attend(q, pages, table, out)
    want = [a @ pages[rows].reshape(12, 16).T for a, rows in zip(q, table, strict=True)]
    np.testing.assert_array_equal(out, want)
    table[1, 2] = 2**32 - 1
    with pytest.raises(IndexError, match="position 4294967295 along axis 0, which has the size 6"):
        attend(q, pages, table, out)


@pytest.mark.parametrize("width", [1, 3, 16, 1000, 1024])
@pytest.mark.parametrize("is_far", [False, True])  # a table of more than 32 MB, of pages of zeros
def test_rows_of_near_and_far_tables_are_chosen(width, is_far):
    @pto.jit
    def chosen(x, i):
        return pto.index_select(x, 0, i)

    @pto.jit
    def doubled(x, i):
        return pto.index_select(x, 0, i) * 2

    draw = np.random.default_rng(width)
    x = np.zeros(((9 << 20) // width if is_far else 11, width), "f4")
    for count in (0, 1, 7, 900):
        rows = draw.integers(0, len(x), count)
        x[rows] = draw.standard_normal((count, width))
        assert np.array_equal(chosen(x, rows), x[rows])
        assert np.array_equal(doubled(x, rows), x[rows] * 2)
