# SPDX-License-Identifier: Apache-2.0
"""Operations along an axis against NumPy: gather, scatter, sort, scans, and what they compose."""

import numpy as np
import pytest
import torch

import pto
from pto import _core
from pto.language.dtypes import numpy_type

TYPES = [row.name for row in _core.dtypes()]
SEEDS = range(104)


def run(function, *arrays):
    """The function on arrays, by its definition; what it returns is a list of arrays."""
    trace = pto.Trace("case")
    sizes = iter(range(99))
    inputs = [
        trace.input(f"x{i}", a.dtype, [_core.Dim.symbol(next(sizes)) for _ in a.shape])
        for i, a in enumerate(arrays)
    ]
    with trace.active():
        graph, _ = trace.finish(function(*inputs))
    graph.verify()
    assert _core.Graph.parse(str(graph)) == graph
    found = pto.interpret(graph, *arrays)
    return found if isinstance(found, list) else [found]


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, got.shape, want.shape)
    np.testing.assert_array_equal(got.astype("f8"), want.astype("f8"))


class Case:
    """A random tensor of small numbers, with equal ones, and an axis of it."""

    def __init__(self, seed, least=0, floats_only=False):
        self.draw = np.random.default_rng(seed)
        kinds = [t for t in TYPES if t in ("f16", "bf16", "f32", "f64")] if floats_only else TYPES
        self.kind = numpy_type(kinds[seed % len(kinds)])
        rank = 1 + seed // len(kinds) % 3
        self.shape = [int(self.draw.choice([s for s in (0, 1, 2, 3, 7) if s >= least]))
                      for _ in range(rank)]  # fmt: skip
        self.axis = int(self.draw.integers(rank))
        self.x = self.numbers(self.shape)

    def numbers(self, shape):
        low = -4 if self.kind.kind in "if" or self.kind.name == "bfloat16" else 0
        x = self.draw.integers(low, 5, shape).astype(self.kind)
        if self.kind.kind == "f" or self.kind.name == "bfloat16":
            x[self.draw.random(shape) < 0.25] = np.nan
            x[self.draw.random(shape) < 0.1] = -np.inf
        return x

    def positions(self, shape, low=0):
        high = self.shape[self.axis]
        kind = self.draw.choice(["i4", "i8", "i2"])
        return self.draw.integers(low, high, shape).astype(kind) if high else np.zeros(shape, kind)

    def index(self, low=0):
        shape = list(self.shape)
        shape[self.axis] = int(self.draw.integers(4)) if self.shape[self.axis] else 0
        return self.positions(shape, low)


def where_it_goes(case, index):
    """(source, destination) of every element in row-major order; none at -1."""
    for at in np.ndindex(index.shape):
        if index[at] >= 0:
            yield at, (*at[: case.axis], int(index[at]), *at[case.axis + 1 :])


@pytest.mark.parametrize("seed", SEEDS)
def test_gather_and_scatter_are_loops_over_the_index(seed):
    case = Case(seed)
    index, axis = case.index(), case.axis
    want = np.take_along_axis(case.x, index.astype("i8"), axis)
    same(run(lambda x, i: pto.gather(x, axis, i), case.x, index)[0], want)
    index = case.index(low=-1)
    src = case.numbers(index.shape)
    want = case.x.copy()
    for source, place in where_it_goes(case, index):
        want[place] = src[source]
    same(run(lambda x, i, s: x.scatter(axis - x.ndim, i, s), case.x, index, src)[0], want)
    if case.kind.kind == "b":
        return
    want = case.x.astype("f8" if case.kind.kind not in "iu" else case.kind)
    for source, place in where_it_goes(case, index):
        want[place] += src[source].astype(want.dtype)
    found = run(lambda x, i, s: pto.scatter(x, axis, i, s, reduce="add"), case.x, index, src)[0]
    same(found, want.astype(case.kind))


@pytest.mark.parametrize("width", [255, 256, 257, 2100, 9000])  # pieces that are asked for ahead
def test_long_rows_are_chosen_whole(width):
    draw = np.random.default_rng(width)
    x = draw.standard_normal((2, 11, width)).astype("f4")
    for table in (draw.integers(0, 11, 7), draw.integers(0, 11, (3, 5)), np.array([10])):
        got = run(lambda x, i: (x[:, i], x[1][i], x[:, i, 3:]), x, table)
        same(got[0], x[:, table]), same(got[1], x[1][table]), same(got[2], x[:, table, 3:])
    index = np.broadcast_to(draw.integers(0, 11, (2, 4, 1)), (2, 4, width))
    same(run(lambda x, i: pto.gather(x, 1, i), x, index)[0], np.take_along_axis(x, index, 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_chosen_and_written_by_a_vector(seed):
    case = Case(seed)
    axis, count = case.axis, 3 if case.shape[case.axis] else 0
    rows = case.positions([count])
    want = np.take(case.x, rows, axis)
    got = run(lambda x, i: (pto.index_select(x, axis, i), x[(slice(None),) * axis + (i,)]),
              case.x, rows)  # fmt: skip
    same(got[0], want), same(got[1], want)
    table = case.positions([2, count])
    same(run(lambda x, i: x[..., i], np.moveaxis(case.x, axis, -1), table)[0],
         np.moveaxis(case.x, axis, -1)[..., table])  # fmt: skip
    new = case.numbers(want.shape)

    def write(x, i, s):
        y = x.clone()
        y[(slice(None),) * axis + (i,)] = s
        return y, x

    written, kept = run(write, case.x, rows, new)
    want = case.x.copy()
    want[(slice(None),) * axis + (rows,)] = new
    same(written, want), same(kept, case.x)
    if case.kind.kind != "b":
        want = case.x.copy()
        for i, row in enumerate(rows):
            at = (slice(None),) * axis
            want[(*at, row)] = want[(*at, row)] + new[(*at, i)]
        same(run(lambda x, i, s: x.index_add(axis, i, s), case.x, rows, new)[0], want)


def ordered(x, descending):
    """Positions in order: NaN is the largest, equal elements keep their order."""
    key = [(bool(v != v), v if v == v else 0) for v in x.tolist()]
    return sorted(range(len(x)), key=key.__getitem__, reverse=descending)


@pytest.mark.parametrize("seed", SEEDS)
def test_sort_keeps_the_order_of_equal_elements_and_puts_nan_last(seed):
    case = Case(seed)
    axis, descending = case.axis, bool(seed % 2)
    want = np.zeros(case.shape, "i8")
    for at in np.ndindex(*(1 if a == axis else n for a, n in enumerate(case.shape))):
        line = (*at[:axis], slice(None), *at[axis + 1 :])
        want[line] = ordered(case.x[line], descending)
    k = case.shape[axis] // 2
    part = (slice(None),) * axis + (slice(k),)
    got = run(lambda x: (*x.sort(axis, descending), *pto.topk(x, k, axis, largest=descending)),
              case.x)  # fmt: skip
    values = np.take_along_axis(case.x, want, axis)
    for found, expected in zip(got, (values, want, values[part], want[part]), strict=True):
        same(found, expected)


def long_rows(kind, size, largest, random):
    """Rows with the best elements where a sample looks, of few values, of one value, in order, and
    with NaN and infinities."""
    x = random.standard_normal((5, size)) * 50
    x[0, ::32] = 99 if largest else -99
    x[1] = x[1].round() // 16
    x[2] = 3
    x[3].sort()
    if np.dtype(kind).kind == "f":
        x[4, random.integers(0, size, size // 8)] = np.nan
        x[4, :3] = np.inf, -np.inf, -0.0
    return x.clip(-100, 100).astype(kind) if np.dtype(kind).kind == "i" else x.astype(kind)


@pytest.mark.parametrize("kind", ["f4", "f2", "f8", "i1", "i4", "i8"])
@pytest.mark.parametrize("size", [256, 1000, 20001])
@pytest.mark.parametrize("largest", [True, False])
def test_few_elements_of_long_rows_are_the_first_of_a_sort(kind, size, largest):
    x = long_rows(kind, size, largest, np.random.default_rng(size))

    def program(x, counts):
        whole, front = pto.sort(x, 1, largest), []
        for k in (1, 17, size // 4):
            front += [*pto.topk(x, k, 1, largest)]
        best, count = pto.full([size], 0, pto.i64), counts[0]
        best[:count] = pto.topk(x[1], count, 0, largest).indices
        return *whole, *front, best

    values, places, *found, best = pto.jit(program)(x, np.array([40]))
    for i, k in enumerate((1, 17, size // 4)):
        same(found[2 * i], values[:, :k]), same(found[2 * i + 1], places[:, :k])
    same(best[:40], places[1, :40])
    assert not best[40:].any()


@pytest.mark.parametrize("kind", ["f4", "f2", "f8", "i1", "i8"])
@pytest.mark.parametrize("shape", [(300, 37), (1009, 16), (70001, 5), (600, 1), (3, 200, 21)])
def test_columns_are_sorted_as_rows_are(kind, shape, monkeypatch):
    x = (np.random.default_rng(shape[1]).standard_normal(shape) * 30).astype(kind)
    rows = np.ascontiguousarray(x.swapaxes(-1, -2))
    want = [y.swapaxes(-1, -2) for y in pto.jit(lambda x: tuple(x.sort(-1, True)))(rows)]
    for threads in (1, 3):
        monkeypatch.setattr(pto.config, "threads", threads)
        got = pto.jit(lambda x: (*x.sort(-2, True), *pto.topk(x, 7, -2), *pto.topk(x, 150, -2)))(x)
        for i, count in enumerate((shape[-2], 7, 150)):
            same(got[2 * i], want[0][..., :count, :]), same(got[2 * i + 1], want[1][..., :count, :])


def test_of_a_long_row_only_what_is_read_is_kept():
    @pto.jit
    def program(x):
        best = pto.topk(x, 16)
        return best.values + 1, best.indices

    assert program.explain(np.ones((2, 5000), "f4")).memory.peak(1) <= 2 * 2 * 16 * 8
    columns = pto.jit(lambda x: tuple(pto.topk(x, 16, 0)))
    assert columns.explain(np.ones((5000, 2), "f4")).memory.peak(1) <= 2 * 2 * 16 * 8


@pytest.mark.parametrize("seed", SEEDS)
def test_the_largest_element_is_the_first_of_a_sort(seed):
    case = Case(seed, least=1)
    axis, x = case.axis, case.x.astype("f8")
    got = run(lambda x: (x.argmax(axis), pto.argmin(x, axis, True), x.argmax(), x.argmin()), case.x)
    same(got[0], x.argmax(axis)), same(got[1], x.argmin(axis, keepdims=True))
    same(got[2], np.asarray(x.argmax())), same(got[3], np.asarray(x.argmin()))


@pytest.mark.parametrize("seed", SEEDS)
def test_scans_join_what_stands_in_front(seed):
    case = Case(seed)
    axis, x, kind = case.axis, case.x, case.kind
    is_float = kind.kind == "f" or kind.name == "bfloat16"
    wide, out = ("f8", kind) if is_float else ("i8", np.dtype("i8"))
    with np.errstate(all="ignore"):
        sums = np.cumsum(x.astype(wide), axis).astype(out)
        products = np.cumprod(x.astype(wide), axis).astype(out)
    got = run(lambda x: (pto.cumsum(x, axis), x.cumprod(axis - x.ndim)), x)
    same(got[0], sums), same(got[1], products)
    if kind.kind != "b":
        got = run(lambda x: (pto.cummax(x, axis), pto.cummin(x, axis)), x)
        same(got[0], np.maximum.accumulate(x.astype(wide), axis).astype(kind))
        same(got[1], np.minimum.accumulate(x.astype(wide), axis).astype(kind))


def test_scans_fold_wide_and_round_each_element_once():
    ones = np.full(4097, 1 + 2**-10, np.float16)
    exact = np.cumsum(ones.astype("f8"))
    found = run(lambda x: x.cumsum(0), ones)[0]
    same(found, exact.astype("f4").astype("f2"))
    same(run(lambda x: x.cumsum(0), np.array([2**24, 1, 1], "f4"))[0],
         np.array([2**24, 2**24, 2**24 + 2], "f4"))  # fmt: skip


@pytest.mark.parametrize("kind", ["f4", "f2", "i1", "i8"])
@pytest.mark.parametrize("lines", [1, 7, 8, 21])
@pytest.mark.parametrize("length", [1, 15, 33, 100])
def test_scans_of_many_lines_are_those_of_each(kind, lines, length):
    random = np.random.default_rng(length * lines)
    whole = (random.standard_normal((lines, 2 * length + 3)) * 3).astype(kind)
    if whole.dtype.kind == "f":
        whole[0, 0], whole[-1, length // 2], whole[lines // 2, 0] = -0.0, np.nan, -np.inf

    def scans(x):
        return pto.cumsum(x, 1), pto.cummax(x, 1), pto.cummin(x, 1)

    for x in (np.ascontiguousarray(whole[:, :length]), whole[:, 1 : 2 * length : 2]):
        wide = x.astype("f8" if x.dtype.kind == "f" else "i8")
        for got in (run(scans, x), pto.jit(scans)(x)):
            same(got[0], np.cumsum(wide, 1).astype(x.dtype if x.dtype.kind == "f" else "i8"))
            same(got[1], np.maximum.accumulate(wide, 1).astype(x.dtype))
            same(got[2], np.minimum.accumulate(wide, 1).astype(x.dtype))


@pytest.mark.parametrize("seed", SEEDS)
def test_conditions_are_joined_and_counted(seed):
    case = Case(seed)
    axis, x = case.axis, case.x.astype(bool)
    got = run(lambda x: (pto.any(x, axis), x.all(axis, True), x.any(), pto.all(x),
                         x.count_nonzero(axis)), case.x)  # fmt: skip
    want = (x.any(axis), x.all(axis, keepdims=True), np.asarray(x.any()), np.asarray(x.all()),
            np.count_nonzero(x, axis).astype("i8"))  # fmt: skip
    for found, expected in zip(got, want, strict=True):
        same(found, np.asarray(expected))


@pytest.mark.parametrize("seed", SEEDS)
def test_padding_flips_and_triangles_are_those_of_numpy(seed):
    case = Case(seed)
    x, axis = case.x, case.axis
    pads = [(int(a), int(b)) for a, b in case.draw.integers(0, 3, (x.ndim, 2))]
    flat = [n for pair in pads[::-1] for n in pair]
    value = 1 if case.kind.kind in "b" else 3
    want = [np.pad(x, pads, constant_values=value), np.flip(x, axis),
            np.pad(x, [(0, 2)] * x.ndim), x.reshape(-1)]  # fmt: skip
    got = run(lambda x: (pto.pad(x, flat, value), pto.flip(x, axis),
                         pto.fillpad(x, [n + 2 for n in x.shape]), x.flatten()), x)  # fmt: skip
    for found, expected in zip(got, want, strict=True):
        same(found, expected)
    if x.ndim > 1:
        k = seed % 5 - 2
        got = run(lambda x: (pto.tril(x, k), x.triu(k)), x)
        same(got[0], np.tril(x, k)), same(got[1], np.triu(x, k))


def test_ranges_and_classes_are_those_of_numpy():
    x = np.zeros((4, 3), "f4")
    n = np.array([5, 2], "i4")
    cases = [
        (lambda x, n: pto.arange(x.shape[0]), np.arange(4)),
        (lambda x, n: pto.arange(2, x.shape[0]), np.arange(2, 4)),
        (lambda x, n: pto.arange(x.shape[0], 0, -3), np.arange(4, 0, -3)),
        (lambda x, n: pto.arange(x.shape[1], x.shape[0] * 4, 4), np.arange(3, 16, 4)),
        (lambda x, n: pto.arange(x.shape[0], x.shape[1]), np.arange(4, 3)),
        (lambda x, n: pto.arange(7, 1, -2, dtype=pto.f32), np.arange(7, 1, -2, "f4")),
        (lambda x, n: pto.arange(n[0]), np.arange(5)),
        (lambda x, n: pto.arange(n[1], n[0]), np.arange(2, 5)),
        (lambda x, n: pto.arange(n[0], n[1], -2), np.arange(5, 2, -2)),
        (lambda x, n: pto.arange(0.5, 2.0, 0.25), np.arange(0.5, 2, 0.25, "f4")),
        (lambda x, n: pto.arange(0), np.arange(0)),
        (lambda x, n: pto.eye(np.int64(2)).reshape(np.int64(4)), np.array([1, 0, 0, 1], "f4")),
        (lambda x, n: pto.eye(x.shape[0], 3), np.eye(4, 3, dtype="f4")),
        (lambda x, n: pto.one_hot(n, 6), np.eye(6, dtype="i8")[n]),
        (lambda x, n: pto.one_hot(n, 4, pto.f32), np.array([[0] * 4, [0, 0, 1, 0]], "f4")),
    ]
    for function, want in cases:
        same(run(function, x, n)[0], want)


def test_a_paged_cache_takes_new_rows_at_slots_and_skips_others():
    draw = np.random.default_rng(0)
    cache = draw.integers(0, 9, (3, 4, 2, 5)).astype("f4")  # blocks, rows, heads, width
    slots = np.array([[11, -1], [0, 5]])
    rows = draw.integers(10, 19, (2, 2, 2, 5)).astype("f4")
    want = cache.reshape(12, 2, 5).copy()
    want[11], want[0], want[5] = rows[0, 0], rows[1, 0], rows[1, 1]
    same(run(pto.scatter_update, cache, slots, rows)[0], want.reshape(cache.shape))
    table = np.array([2, 0])
    got = run(lambda c, t: c[t].reshape(-1, 2, 5)[:6], cache, table)[0]
    same(got, cache[table].reshape(-1, 2, 5)[:6])


def test_programs_write_at_positions_also_in_loops():
    @pto.jit
    def spread(x, rows, out, counts):
        for i in pto.loop(rows.shape[0]):
            out[rows[i]] += x
            counts[rows[i], 1] = pto.arange(rows.shape[1], dtype=pto.i32)
        out.index_add_(0, rows[0], x)
        pto.move(out[rows[1]] * 2, x)

    draw = np.random.default_rng(1)
    x, out = draw.integers(0, 9, (3, 2)).astype("f4"), np.zeros((5, 2), "f4")
    counts = np.zeros((5, 2), "i4")
    rows = np.array([[4, 0, 1], [1, 2, 4], [4, 3, 2]])
    want, numbers = out.copy(), counts.copy()
    for row in rows:
        want[row] += x
        numbers[row, 1] = np.arange(3)
    want[rows[0]] += x
    spread(x, rows, out, counts)
    same(out, want), same(counts, numbers), same(x, want[rows[1]] * 2)


INDICES = [
    lambda x, i: x[1, i],
    lambda x, i: x[i, 1],
    lambda x, i: x[:, i, 1:],
    lambda x, i: x[None, i],
    lambda x, i: x[..., i, :],
    lambda x, i: x[i[:, None], :1],
    lambda x, i: x[:2, :, i % 2],
]


@pytest.mark.parametrize("case", range(len(INDICES)))
def test_an_index_with_a_tensor_means_what_it_means_in_numpy(case):
    x, i = np.arange(60, dtype="f4").reshape(4, 5, 3), np.array([2, 0, 2, 3])
    same(run(INDICES[case], x, i)[0], INDICES[case](x, i))


def test_torch_gather_takes_an_index_that_is_smaller():
    x, i = np.arange(12, dtype="f4").reshape(4, 3), np.array([[3, 0], [1, 2]])
    want = torch.gather(torch.from_numpy(x), 0, torch.from_numpy(i)).numpy()

    def smaller(x, i):
        i = pto.view(i, [2, 2], [0, 0])
        return pto.gather(x, 0, i), x.scatter(0, i, 7.0), pto.take_along_dim(x, i[:, :1], 0)

    got = run(smaller, x, i)
    same(got[0], want)
    scattered = torch.from_numpy(x).scatter(0, torch.from_numpy(i), 7.0).numpy()
    same(got[1], scattered), same(got[2], np.take_along_axis(x, i[:, :1], 0))
