# SPDX-License-Identifier: Apache-2.0
"""Memory that a warm call asks for, counted: that of new results, and none where it is given."""

import tracemalloc

import numpy as np
import pytest
import torch

import pto.torch  # noqa: F401
from pto import _core, ops

SHAPES = {"small": (40, 50), "large": (700, 800)}  # large results of PyTorch lie in our pool
FEW = 4096  # bytes of Python's objects around an array

torch_ops = torch.ops.pto
by_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def pool_bytes(call) -> int:
    """Bytes of our pool that are live at the peak of a call and were not before."""
    _core.reset_peak_live_bytes()
    before = _core.memory_stats()["live_bytes"]
    call()
    return _core.memory_stats()["peak_live_bytes"] - before


def torch_bytes(call) -> int:
    """Bytes of our pool and of PyTorch's, of which operators of PyTorch ask none.

    The least of some calls: each thread of the pool takes its row buffer at its first block."""
    call()
    totals = []
    for _ in range(3):
        results = []
        with torch.profiler.profile(profile_memory=True) as profile:
            pool = pool_bytes(lambda kept=results: kept.append(call()))
        assert [e.name for e in profile.events() if e.name.startswith("aten::empty")] == []
        totals.append(pool + sum(max(e.self_cpu_memory_usage, 0) for e in profile.events()))
    return min(totals)


def numpy_bytes(call) -> int:
    """Bytes of our pool, of NumPy and of Python."""
    call()
    tracemalloc.start()
    try:
        pool = pool_bytes(call)
        return pool + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


CALLS = {
    "two arrays": lambda ops, x, y: ops.add(x, y),
    "transposed": lambda ops, x, y: ops.add(x.T, y.T),
    "every second row": lambda ops, x, y: ops.add(x[::2], y[::2]),
    "broadcast": lambda ops, x, y: ops.add(x, y[:1]),
    "fused": lambda ops, x, y: ops.fused_add_relu(x, y, alpha=2.0),
    "rows": lambda ops, x, y: ops.softmax(x),
}
every_call = pytest.mark.parametrize("name", CALLS)


@by_shape
@every_call
def test_a_call_on_tensors_asks_for_its_result_only(name, shape):
    x, y = torch.randn(2, *shape)
    want = CALLS[name](torch_ops, x, y).nbytes
    assert torch_bytes(lambda: CALLS[name](torch_ops, x, y)) == want


@every_call
def test_a_call_on_arrays_asks_for_its_result_only(name):
    x, y = np.random.default_rng(0).standard_normal((2, *SHAPES["large"]), np.float32)
    want = CALLS[name](ops, x, y).nbytes
    assert want <= numpy_bytes(lambda: CALLS[name](ops, x, y)) <= want + FEW


@by_shape
def test_a_call_into_given_memory_asks_for_none(shape):
    x, y = torch.randn(2, *shape)
    out = torch.empty(shape)
    with torch.no_grad():
        assert torch_bytes(lambda: torch_ops.add(x, y, out=out)) == 0
        assert torch_bytes(lambda: torch_ops.relu_(x)) == 0
    array = x.numpy()
    assert numpy_bytes(lambda: ops.relu_(array)) <= FEW


def test_a_copy_would_be_counted():
    x = torch.randn(*SHAPES["large"])
    with pytest.raises(AssertionError, match="aten::empty"):
        torch_bytes(lambda: torch_ops.relu(x.t().contiguous()))
    array = x.numpy()
    twice = numpy_bytes(lambda: ops.relu(np.ascontiguousarray(array.T)))
    assert twice >= 2 * array.nbytes
