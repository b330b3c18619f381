# SPDX-License-Identifier: Apache-2.0
"""Slices with steps: NumPy's elements in every size and type, read and written where they lie."""

import numpy as np
import pytest
import torch

import pto

SHAPES = ((8, 9), (7, 12), (5, 1), (1, 7), (9, 130), (0, 4))


def numbers(shape, dtype="f4"):
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 9).astype(dtype)


@pto.jit
def parts(x):
    return x[..., ::2], x[:, 1::3] * 2, x[1::2, ::4], x[-3::2], x[5:1:2], x[::100], x[0:4:3, None]


@pto.jit
def sums(x):
    return pto.sum(x[:, ::2], -1), pto.amax(x[::3], 0), pto.softmax(x[..., 1::2])


@pto.jit
def write(x, y):
    y[::2] = x[::2] * 2
    y[:, 1::3] += 1
    y[1::4, ::2] = x[1::4, ::2]


def test_parts_have_the_elements_of_numpy():
    def expected(x):
        return (x[..., ::2], x[:, 1::3] * 2, x[1::2, ::4], x[-3::2], x[5:1:2], x[::100],
                x[0:4:3, None])  # fmt: skip

    for shape in SHAPES[:2] + SHAPES[4:5]:
        for dtype in ("f4", "f2", "i8", "i1", "?"):
            x = numbers(shape, dtype)
            for got, wanted in zip(parts(x), expected(x), strict=True):
                np.testing.assert_array_equal(got, wanted, strict=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_writes_change_the_elements_of_numpy_and_no_others(shape):
    for dtype in ("f4", "f8", "f2", "i4", "i1"):
        x, y = numbers(shape, dtype), np.ones(shape, dtype)
        wanted = y.copy()
        wanted[::2] = x[::2] * 2
        wanted[:, 1::3] += 1
        wanted[1::4, ::2] = x[1::4, ::2]
        write(x, y)
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("function", (parts, sums), ids=("parts", "sums"))
@pytest.mark.parametrize("shape", SHAPES[:2])
def test_compiled_forms_agree_with_the_interpreter(function, shape):
    assert (report := pto.verify(function, numbers(shape))).is_equal, report


def test_products_and_scans_read_elements_some_steps_apart():
    @pto.jit
    def several(a, b):
        return a[:, ::2] @ b[::2, 1::2], pto.cumsum(a[1::2], -1), pto.sort(a[:, ::3]).values

    a, b = numbers((6, 10)), numbers((10, 8))
    product, total, ordered = several(a, b)
    np.testing.assert_allclose(product, a[:, ::2] @ b[::2, 1::2], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(total, np.cumsum(a[1::2], -1), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(ordered, np.sort(a[:, ::3], -1))


def test_iterations_may_write_between_each_other():
    @pto.jit
    def by_turns(x, out):
        for i in pto.loop(3):
            out[i::3] = x[i::3] * 3

    for rows in (3, 4, 8):
        x, out = numbers((rows, 5)), np.zeros((rows, 5), "f4")
        by_turns(x, out)
        np.testing.assert_array_equal(out, x * 3)


def test_gradients_pass_through_reads_and_writes():
    @pto.jit
    def ours(x):
        y = x * 2
        y[1::2] = pto.tanh(x[::2])
        return y[:, ::3].sum() + (x[:, 1::2] ** 2).sum()

    def theirs(x):
        y = x * 2
        y[1::2] = torch.tanh(x[::2])
        return y[:, ::3].sum() + (x[:, 1::2] ** 2).sum()

    x = torch.randn(6, 9, requires_grad=True)
    (got,) = torch.autograd.grad(ours(x), x)
    (wanted,) = torch.autograd.grad(theirs(x), x)
    torch.testing.assert_close(got, wanted)


def test_interleaved_rotation_is_one_kernel_without_copies():
    @pto.jit
    def rotated(x, c, s):
        a, b = x[..., 0::2], x[..., 1::2]
        return pto.stack([a * c - b * s, a * s + b * c], -1).reshape(*x.shape)

    c, s = numbers((5, 33)), numbers((33, 5)).T.copy()
    for shape in ((2, 3, 5, 66), (5, 66)):
        for dtype in ("f4", "f2"):
            x = numbers(shape, dtype)
            a, b = x[..., 0::2], x[..., 1::2]
            cos, sin = c.astype(dtype), s.astype(dtype)
            wanted = np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(shape)
            got = rotated(x, cos, sin)
            tolerance = 1e-5 if dtype == "f4" else 4e-2
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=40 * tolerance)
    plan = rotated.explain(x, cos, sin)
    assert len(plan.steps_of("kernel")) == 1
    assert "pto_copy_tensor" not in str(plan) and "take<" not in str(plan)


def test_columns_of_several_types_and_numbers_are_stored_by_their_kernel():
    @pto.jit
    def columns(x):
        return pto.stack([x * 2, x + 1, -x], -1), pto.stack([x > 0, x < 1], -1)

    for size in (1, 15, 16, 17, 200):
        x = numbers((size,))
        three, two = columns(x)
        np.testing.assert_array_equal(three, np.stack([x * 2, x + 1, -x], -1))
        np.testing.assert_array_equal(two, np.stack([x > 0, x < 1], -1))
    assert "pto_copy_tensor" not in str(columns.explain(x))
