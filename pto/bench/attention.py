# SPDX-License-Identifier: Apache-2.0
"""Attention as users call it, against PyTorch's scaled_dot_product_attention, or NumPy's formula.

Sizes are heads x length x width, or heads x queries x keys x width. The ceiling is the peak of
multiply-adds, of which causal attention counts those that it needs.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pto.bench.arrays import exact, operator, plain, random
from pto.bench.ceilings import peaks
from pto.bench.peers import torch
from pto.bench.runner import Expected, Setting, Work

DTYPES = ("f32", "f16", "bf16")
TOLERANCE = {"f32": 1e-5}


def in_numpy(q: np.ndarray, k: np.ndarray, v: np.ndarray, is_causal: bool) -> np.ndarray:
    """softmax(q kᵀ / sqrt(width)) v, head by head."""
    result = np.empty((*q.shape[:2], v.shape[2]), q.dtype)
    hidden = ~np.tri(q.shape[1], k.shape[1], dtype=bool)
    for head in range(len(q)):
        scores = q[head] @ k[head].T
        scores *= q.shape[2] ** -0.5
        if is_causal:
            scores[hidden] = -np.inf
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        result[head] = scores @ v[head]
    return result


def pairs(queries: int, keys: int, is_causal: bool) -> int:
    """How many keys all queries see."""
    return sum(min(i + 1, keys) for i in range(queries)) if is_causal else queries * keys


def attended(setting: Setting, is_causal: bool) -> Iterator[Any]:
    heads, queries, width = setting.size[0], setting.size[1], setting.size[-1]
    keys = setting.size[-2]
    q = random((heads, queries, width), setting.dtype)
    k, v = (random((heads, keys, width), setting.dtype, seed) for seed in (1, 2))
    ours = operator("attention")
    yield "pto", lambda: ours(q, k, v, causal=is_causal)
    if torch():
        theirs = torch().nn.functional.scaled_dot_product_attention
        batch = q[None], k[None], v[None]  # three axes would take PyTorch's slow way
        yield "torch", lambda: theirs(*batch, is_causal=is_causal)[0]
    elif setting.dtype == "f32":
        arrays = [plain(x) for x in (q, k, v)]
        yield "NumPy", lambda: in_numpy(*arrays, is_causal)
    work = 2 * heads * pairs(queries, keys, is_causal) * width
    yield from peaks(setting.dtype, setting.threads, work)
    yield Work("GFLOP/s", 2e-9 * work)
    double = [exact(x) for x in (q, k, v)]
    yield Expected(
        lambda rows: in_numpy(*(x[rows] for x in double), is_causal), TOLERANCE.get(setting.dtype)
    )


def attention(setting: Setting) -> Iterator[Any]:
    return attended(setting, is_causal=False)


def causal(setting: Setting) -> Iterator[Any]:
    return attended(setting, is_causal=True)
