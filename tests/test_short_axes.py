# SPDX-License-Identifier: Apache-2.0
"""Short last axes: pictures whose channels lie innermost, points, boxes, pairs. Vectors hold
elements of several rows: the results and bits are those of each row alone, and nothing beside a
tensor is read."""

import ctypes
import mmap

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pto
import pto.torch

SIZES = (2, 3, 4, 5, 7, 8, 9)
ROWS = (1, 2, 15, 16, 33, 1500)
TYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int8)


FLOATS = (torch.float32, torch.bfloat16, torch.float64)


def cases(sizes, types):
    return [pytest.param(n, dtype, id=f"{n}-{dtype}") for dtype in types for n in sizes]


def skip_unless_deep(n, dtype, deep):
    """Quick runs have each size in f32, and each type at one size."""
    if not deep and n != 3 and dtype is not torch.float32:
        pytest.skip("only deep")


@pto.jit
def scaled(x: pto.Tensor[..., pto.STATIC], row: pto.Tensor[pto.STATIC], column):
    return x * row, x * column, row * column, pto.where(column > row, x, row)


@pto.jit
def repeated(column, n: pto.Constant):
    return pto.broadcast_to(column, column.shape[0], n) + 1


@pto.jit
def last_column(x: pto.Tensor[..., pto.STATIC]):
    return x[:, -1] + 1


@pto.jit
def rows_of(x: pto.Tensor[..., pto.STATIC]):
    return (pto.sum(x, -1), pto.amax(x, -1), pto.amin(x, -1), pto.softmax(x, -1),
            x / pto.sqrt(pto.sum(x * x, -1, keepdims=True)))  # fmt: skip


def numbers(shape, dtype):
    made = torch.Generator().manual_seed(len(shape) + sum(shape))
    if dtype.is_floating_point:
        return torch.randn(shape, generator=made).to(dtype)
    return torch.randint(-9, 9, shape, generator=made).to(dtype)


@pytest.mark.parametrize(("n", "dtype"), cases(SIZES, TYPES))
def test_rows_and_columns_meet_short_axes(n, dtype, deep):
    skip_unless_deep(n, dtype, deep)
    for rows in ROWS:
        x, row, column = (numbers(shape, dtype) for shape in ((rows, n), (n,), (rows, 1)))
        wanted = x * row, x * column, row * column, torch.where(column > row, x, row)
        for ours, theirs in zip(scaled(x, row, column), wanted, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
        torch.testing.assert_close(repeated(column, n), column.expand(rows, n) + 1, rtol=0, atol=0)


@pytest.mark.parametrize("n", SIZES)
def test_short_axes_with_gaps_give_the_same(n):
    x, row, column = numbers((40, n + 2), torch.float32), *map(torch.randn, ((2 * n,), (80, 3)))
    parts = x[:, 1:-1], row[::2], column[::2, 1:2]
    dense = tuple(part.contiguous() for part in parts)
    for ours, theirs in zip(scaled(*parts), scaled(*dense), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize(("n", "dtype"), cases((3, 2, 4, 5), FLOATS))
def test_short_rows_have_the_bits_of_each_row_alone(n, dtype, deep):
    skip_unless_deep(n, dtype, deep)
    for shape in ((3, n), (100, n), (7, 33, n)):
        x = numbers(shape, dtype)
        exact = rows_of(x.double())
        for at, (all_rows, wanted) in enumerate(zip(rows_of(x), exact, strict=True)):
            within = 8 * torch.finfo(dtype).eps
            torch.testing.assert_close(all_rows.double(), wanted, rtol=within, atol=within)
            for place in ((0,) * (x.ndim - 1), (2,) + (1,) * (x.ndim - 2)):
                alone = rows_of(x[place][None])[at][0]
                torch.testing.assert_close(all_rows[place], alone, rtol=0, atol=0)


def test_short_rows_keep_nan_infinity_and_zeros():
    inf, nan = torch.inf, torch.nan
    x = torch.tensor([[0.0, -0.0], [inf, -inf], [nan, 1.0], [-inf, -inf], [1e38, 3e38]] * 5)
    found, wanted = rows_of(x), (x.sum(-1), x.amax(-1), x.amin(-1), x.softmax(-1))
    for ours, theirs in zip(found, wanted, strict=False):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


def at_the_end_of_memory(count):
    """An array of f32 in front of a page that nobody may read."""
    page = mmap.PAGESIZE
    whole = -(-count * 4 // page) * page
    memory = mmap.mmap(-1, whole + page)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(begin + whole), page, 0) == 0
    return np.frombuffer(memory, np.float32, count, whole - count * 4)


@pytest.mark.parametrize("n", SIZES)
def test_nothing_behind_a_short_axis_is_read(n):
    for rows in (1, 5, 16, 17, 32, 100):
        row, column, x = (at_the_end_of_memory(count) for count in (n, rows, rows * n))
        x[:], row[:], column[:] = np.arange(rows * n), np.arange(n), np.arange(rows)
        x, column = x.reshape(rows, n), column.reshape(rows, 1)
        np.testing.assert_array_equal(scaled(x, row, column)[1], x * column)
        np.testing.assert_array_equal(rows_of(x)[1], x.max(-1))
        np.testing.assert_array_equal(last_column(x), x[:, -1] + 1)


@pytest.mark.parametrize("mode", ("nearest", "nearest-exact"))
@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize(
    ("shape", "factor"),
    [((2, 3, 7), 2), ((2, 3, 5, 6), (2, 3)), ((1, 2, 3, 4, 5), 2), ((1, 1, 1, 3), 8)],
)
def test_a_picture_that_grows_whole_times_is_a_program(shape, factor, mode, dynamic):
    upsample = nn.Upsample(scale_factor=factor, mode=mode)

    def grown(x):
        return upsample(x) * 1.5

    torch._dynamo.reset()
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    report = pto.torch.explain(torch.compile(grown, backend="pto", dynamic=dynamic), x)
    assert [step.kind for step in report.steps] == ["program"]
    compiled = torch.compile(grown, backend="pto", dynamic=dynamic)
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    found, wanted = compiled(ours), grown(theirs)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    d = torch.randn_like(wanted)
    found.backward(d), wanted.backward(d)
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("options", ({"size": (9, 13)}, {"scale_factor": 2.3},
                                     {"scale_factor": (9.0, 2.0)}))  # fmt: skip
def test_a_picture_that_grows_in_part_is_atens(options):
    x = torch.randn(1, 2, 4, 5)
    compiled = torch.compile(lambda x: F.interpolate(x, **options), backend="pto")
    torch.testing.assert_close(compiled(x), F.interpolate(x, **options), rtol=0, atol=0)
    assert [step.kind for step in pto.torch.explain(compiled, x).steps] == ["ATen"]
