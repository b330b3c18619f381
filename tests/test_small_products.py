# SPDX-License-Identifier: Apache-2.0
"""Batches of small matrices, which are multiplied at once: the bits of each product alone."""

import numpy as np
import pytest

import pto


@pto.jit
def product(x, y):
    return pto.matmul(x, y)


def laid_out(draw, shape, kind):
    """Numbers in rows, in columns, every second one, or one matrix for all of the first axis."""
    way = draw.integers(4)
    x = draw.standard_normal(shape).astype(kind)
    if way == 0:
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if way == 1:
        return np.repeat(x, 2, 0)[::2]
    return np.broadcast_to(x[:1], shape) if way == 2 else x


SIZES = [(3, 3, 1), (1, 64, 1), (2, 2, 2), (1, 301, 1), (4, 4, 4), (1, 5, 7), (8, 1, 3), (9, 9, 9)]


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_batch_has_the_bits_of_each_product(size, threads, kind, monkeypatch):
    monkeypatch.setattr(pto.config, "threads", threads)
    draw = np.random.default_rng(0)
    rows, depth, columns = size
    for batch in ((1,), (15,), (16,), (77,), (5, 40), (3, 1, 17), (0,), (9001,)):
        x = laid_out(draw, (*batch, rows, depth), kind)
        y = laid_out(draw, (*batch, depth, columns), kind)
        for multiply in (product, pto.ops.matmul):
            found = multiply(x, y)
            assert found.shape == (*batch, rows, columns)
            flat = [a.reshape(-1, *a.shape[-2:]) for a in (found, x, y)]
            for i in [*range(min(len(flat[0]), 40)), *range(len(flat[0]))[-40:]]:
                alone = multiply(flat[1][i], flat[2][i])
                assert alone.tobytes() == flat[0][i].tobytes(), (batch, i)
