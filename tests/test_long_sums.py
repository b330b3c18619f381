# SPDX-License-Identifier: Apache-2.0
"""The error of a sum grows with the logarithm of its length (pto/isa/reduce/block_sums.hpp).

Long inputs are broadcast: one element, or a few thousand, stand for all.
"""

import math

import numpy as np
import pytest
import torch

import pto

UNIT = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}


@pto.jit
def total(x):
    return pto.sum(x)


@pto.jit
def first_axis(x):
    return pto.sum(x, 0)


@pto.jit
def outer_axes(x):
    return pto.sum(x, (0, 2))


@pto.jit
def moments(x):
    return pto.mean(x, 0), pto.var(x, 0)


@pto.jit
def norms(x):
    return pto.softmax(x, 0), pto.layer_norm(x, dim=0), pto.rms_norm(x, dim=0)


def bound(count):
    return 4 * 128 + 2 * math.log2(count)


LONG = (1 << 24) + 12345
SHAPES = {  # a shape with n elements to sum for each result, and the function
    "a row": (lambda n: (n,), total),
    "columns": (lambda n: (n, 3), first_axis),
    "short rows": (lambda n: (n // 3, 2, 3), outer_axes),
}


@pytest.mark.parametrize(("shape", "function"), SHAPES.values(), ids=SHAPES)
def test_ones_are_counted_to_the_end(shape, function, deep):
    for count in (3 * (LONG // 3), *([3 << 30, 1 << 32] if deep and function is total else [])):
        got = function(torch.ones(()).expand(shape(count)))
        assert (got == count).all(), (count, got)


@pytest.mark.parametrize("dtype", UNIT, ids=str)
@pytest.mark.parametrize(("shape", "function"), SHAPES.values(), ids=SHAPES)
def test_a_sum_of_random_numbers_keeps_the_stated_error(shape, function, dtype, deep):
    generator = torch.Generator().manual_seed(1)
    for count in (3, 300, 30000, 900000, *([30000000] if deep else [])):
        x = torch.randn(shape(count), dtype=dtype, generator=generator) + 0.25
        got = np.atleast_1d(function(x).numpy()).tolist()
        kept = x.movedim(1, 0) if x.ndim > 1 else x
        for value, row in zip(got, kept.reshape(len(got), -1).numpy(), strict=True):
            error = abs(math.fsum([value, -math.fsum(row)]))
            assert error <= bound(count) * UNIT[dtype] * math.fsum(np.abs(row))


@pytest.mark.parametrize("rows", [20, 36, 64, 65, 300, 1000])
def test_a_column_of_few_rows_has_the_error_of_short_chains(rows):
    """A one beside 2**24 is lost, but no more of them than a block and the blocks of 16 have."""
    for at in (0, rows // 2):
        x = torch.ones(rows, 40)
        x[at] = 2.0**24
        assert (2**24 + rows - 1 - first_axis(x).double()).max() <= 2 * (16 + rows / 256)


def test_means_variances_and_norms_of_long_axes_keep_their_digits(deep):
    count = LONG * 16 if deep else 1 << 21
    mean, variance = moments(torch.full((1, 2), 0.1).expand(count, 2))
    torch.testing.assert_close(mean, torch.full((2,), 0.1), rtol=1e-5, atol=0)
    assert (variance.abs() < 1e-10).all()
    _, variance = moments(torch.tensor([[-1.0, 3.0], [1.0, 5.0]]).repeat(count // 2, 1))
    torch.testing.assert_close(variance, torch.ones(2), rtol=1e-5, atol=0)


def test_norms_of_long_axes_keep_their_digits():
    count = 1 << 21
    x = torch.tensor([[1.0, 2.0], [3.0, 2.0]]).repeat(count // 2, 1)
    softmax, layer_norm, rms_norm = norms(x)
    share = 2 / count / (1 + math.exp(-2))
    torch.testing.assert_close(softmax[1, 0].item(), share, rtol=2e-5, atol=0)
    torch.testing.assert_close(softmax[0, 1].item(), 1 / count, rtol=2e-5, atol=0)
    assert abs(layer_norm[0, 0].item() + 1) < 2e-5
    assert abs(rms_norm[0, 1].item() - 1) < 2e-5


@pto.jit
def tower(x):
    for _ in range(8):
        centred = x - pto.mean(x, -1, keepdim=True)
        x = x + pto.tanh(centred * pto.rsqrt(pto.mean(centred * centred, -1, keepdim=True) + 1e-5))
    return x


@pytest.mark.parametrize("shape", [(3, 1000), (2, 40000), (5, 1), (2, 0)])
def test_a_chain_of_norms_computes_each_function_once_on_short_and_long_rows(shape):
    """A long row's values exceed 64 KB of scratch memory, where other kernels compute again."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(7))
    want = x.double()
    for _ in range(8):
        centred = want - want.mean(-1, keepdim=True)
        want = want + torch.tanh(centred * torch.rsqrt(centred.square().mean(-1, True) + 1e-5))
    torch.testing.assert_close(tower(x).double(), want, rtol=1e-4, atol=1e-4)
    # Equal sweeps are one function; if they computed again, no two would be equal.
    assert shape != (3, 1000) or str(tower.explain(x)).count("TTANH") <= 8
