# SPDX-License-Identifier: Apache-2.0
"""Calls of two threads that write one cache follow each other: no row is of both, none is lost."""

import threading

import numpy as np
import pytest
import torch

from pto import models

SEQUENCES, TOKENS, PAGE, WIDTH = 4, 192, 16, 32
PAGES = SEQUENCES * TOKENS // PAGE
WAYS = {"torch": lambda x: x, "numpy": lambda x: x.numpy()}


def arguments(seed, keys, values, slots):
    """Of qwen3_attention, whose caches take a row for each token of k and v."""
    draw = torch.Generator().manual_seed(seed)
    tokens = slots.shape[1]
    q, k, v = (torch.randn(SEQUENCES, tokens, n, WIDTH, generator=draw) for n in (2, 1, 1))
    angles = torch.randn(SEQUENCES, tokens, WIDTH, generator=draw)
    table = torch.arange(PAGES).view(SEQUENCES, -1)
    lengths = torch.full((SEQUENCES,), TOKENS)
    gamma = torch.ones(WIDTH)
    return q, k, v, gamma, gamma, angles.cos(), angles.sin(), keys, values, slots, table, lengths


def at_once(calls):
    """Calls each in a thread of its own; all begin together."""
    barrier = threading.Barrier(len(calls))

    def run(call):
        barrier.wait()
        call()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def caches(has_gaps):
    both = torch.zeros(PAGES, 2, PAGE, 1, WIDTH)
    return both.unbind(1) if has_gaps else (both[:, 0].clone(), both[:, 1].clone())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("has_gaps", [False, True])
def test_a_cache_holds_what_one_of_the_calls_wrote(way, has_gaps):
    slots = torch.arange(SEQUENCES * TOKENS).view(SEQUENCES, -1)
    rights = []
    for seed in range(2):
        keys, values = caches(False)
        models.qwen3_attention(*arguments(seed, keys, values, slots))
        rights.append((keys, values))
    keys, values = caches(has_gaps)
    given = [[WAYS[way](x) for x in arguments(seed, keys, values, slots)] for seed in range(2)]
    for _ in range(20):
        at_once([lambda one=one: models.qwen3_attention(*one) for one in given])
        assert any(torch.equal(keys, k) and torch.equal(values, v) for k, v in rights)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("has_gaps", [False, True])
def test_calls_that_write_other_rows_lose_none(way, has_gaps):
    keys, values = caches(has_gaps)
    right = caches(False)
    first = torch.arange(SEQUENCES)[:, None] * TOKENS
    for place in range(0, TOKENS, 8):
        slots = [first + place + torch.arange(4) + i * 4 for i in range(2)]
        given = [arguments(place + i, keys, values, slots[i]) for i in range(2)]
        at_once([lambda one=one: models.qwen3_attention(*map(WAYS[way], one)) for one in given])
        for i in range(2):
            models.qwen3_attention(*arguments(place + i, *right, slots[i]))
    assert torch.equal(keys, right[0]) and torch.equal(values, right[1])
    assert np.count_nonzero(keys.flatten(2).any(2)) == keys[..., 0, 0].numel()
