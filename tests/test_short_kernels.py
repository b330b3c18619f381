# SPDX-License-Identifier: Apache-2.0
"""Element-wise kernels of a few instructions: a vector of each input in turn, on every target."""

import numpy as np
import pytest

import pto

F32 = np.float32
SIZES = [0, 1, 3, 15, 16, 17, 31, 63, 64, 65, 127, 200, 4095, 4096, 4097, 12345]


@pto.jit
def blended(x, y, z):
    return x + (y - x) * z, pto.where(x > y, x, -z)


@pto.jit
def scaled(x, number: float):
    return pto.abs(x) * number


@pto.jit
def added(x, y):
    y[:] = y + x * y


@pytest.fixture(params=["portable", "avx2", ""])  # "": the best of this CPU
def target(request, monkeypatch):
    monkeypatch.setattr(pto.config, "target", request.param)
    try:
        scaled(np.ones(1, F32), 1.0)
    except pto.Error as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("size", SIZES)
def test_elements_are_numpys_whatever_the_size(size, target):
    random = np.random.default_rng(size)
    x, y, z = (random.integers(-9, 10, size).astype(F32) for _ in range(3))
    x[::7], y[::5] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        want = x + (y - x) * z, np.where(x > y, x, -z)
        for made, one in zip(blended(x, y, z), want, strict=True):
            np.testing.assert_array_equal(made, one)
        np.testing.assert_array_equal(scaled(x, 0.5), np.abs(x) * F32(0.5))
        mine, wanted = y.copy(), y + x * y
        added(x, mine)
        np.testing.assert_array_equal(mine, wanted)


def test_vectors_stay_within_arrays_that_begin_anywhere():
    memory = np.full(400, 7, F32)
    for begin in range(1, 18):
        x, out = memory[begin : begin + 130], memory[200 + begin : 330 + begin]
        out[:] = 7
        scaled(x, 3.0, out=out)
        assert (out == 21).all() and memory[199 + begin] == memory[330 + begin] == 7
        out[:] = 7


def test_only_what_memory_bounds_goes_vector_by_vector():
    x = np.ones(100, F32)
    takes = {one: "for_each_vector" in str(one.explain(*a)) for one, a in
             ((blended, (x, x, x)), (scaled, (x, 2.0)))}  # fmt: skip
    assert all(takes.values())
    assert "for_each_vector" not in str(pto.jit(lambda x, y: pto.exp(x) + y).explain(x, x))
    assert "for_each_vector" not in str(pto.jit(lambda x: x.sum(-1)).explain(x))
