# SPDX-License-Identifier: Apache-2.0
"""Random graphs of views, element-wise operations, sums and joins: bits and strides of eager.

Elements are small integers in f32, so that every order of a sum gives the same bits.
"""

import random

import pytest
import torch
from compile_cases import below_dynamo, leaves, run


def step_of(rng, pool):
    """Makes one more value of those in the pool, which have two or three axes."""
    x = rng.choice(pool)
    last = x.ndim - 1
    choices = {
        "add": lambda: x + rng.choice([one for one in pool if one.shape == x.shape]),
        "double": lambda: x * 2,
        "relu": lambda: x.relu(),
        "where": lambda: torch.where(x > 0, x, -1.0),
        "sum": lambda: x.sum(rng.randrange(x.ndim), keepdim=True) % 16,
        "max": lambda: x.amax(last, keepdim=True) + x,
        "turn": lambda: x.transpose(0, last),
        "slice": lambda: x[1:] if x.shape[0] > 1 else x[:1] + 1,
        "step": lambda: x[..., ::2],
        "select": lambda: x[0] if x.ndim == 3 else x[None],
        "join": lambda: torch.cat([x, x * 3], last) % 16,
        "flat": lambda: x.reshape(x.shape[0], -1),
        "wide": lambda: x.unsqueeze(0).expand(2, *x.shape)[1],
        "dense": lambda: x.transpose(0, last).contiguous(),
        "written": lambda: torch.slice_scatter(x, x[:1] * 5, 0, 0, 1),
        "chunk": lambda: x.chunk(2, 0)[0],
    }
    return rng.choice(list(choices.values()))


def program(seed):
    """A function of two tensors with several results, the same ones in each run."""

    def function(x, y):
        state, pool = random.Random(seed), [x, y]
        for _ in range(10):
            made = step_of(state, pool)()
            if 0 < made.numel() < 4000 and made.ndim in (2, 3):
                pool.append(made)
        state.shuffle(pool)
        return tuple(pool[:4])

    return function


@pytest.mark.parametrize("part", range(2))
def test_a_random_graph_has_the_bits_types_and_strides_of_eager(part, deep):
    count = 60 if deep else 6
    for seed in range(part * count, (part + 1) * count):
        torch.manual_seed(seed)
        x, y = torch.randint(-8, 8, (4, 6)).float(), torch.randint(-8, 8, (2, 4, 6)).float()
        function = program(seed)
        graph = below_dynamo(function, x, y, symbolic=seed % 2 == 1)
        for _ in range(2):
            found, wanted = run(graph, x, y), leaves(function(x, y))
            for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
                about = f"seed {seed}, result {place}\n{graph.replay.source}"
                assert torch.equal(a, b) and a.dtype == b.dtype, about
                assert a.stride() == b.stride() or 1 in b.shape, about
