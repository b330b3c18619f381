# SPDX-License-Identifier: Apache-2.0
"""Measures what a call costs besides the arithmetic: warm calls on 16 elements, and first calls.

`call`: a registered operator through `.default` and as pto.ops has it, a jitted function and one
that writes its argument, against torch.add, as a function and called the same way, and against an
operator that is written in Python.
`call_gradient`: the same while gradients are recorded.
`first_call`: a kernel never seen before (`cold`: the C++ compiler runs) and one that another
process has compiled (`cached`: from the cache on disk), each in a process of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import report
from pto.bench.runner import Expected, Goal, Measurement, Outcome, Setting, case

PROCESSES = 10

FIRST_CALL = """
import json, sys, time
import numpy as np
import pto
from pto import ops

x = np.ones((2, 8), np.float32)

@pto.jit
def other(x):
    return pto.exp(x) * 2.0

other(x)                                   # what every first call shares: the compiler is found

@pto.jit
def softmax(x):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)

start = time.perf_counter()
softmax(x)
json.dump(time.perf_counter() - start, sys.stdout)
"""


@torch.library.custom_op("bench::add", mutates_args=())
def python_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


python_add.register_autograd(lambda ctx, d: (d, d))


def contenders(x: torch.Tensor, y: torch.Tensor, at_most: float) -> Iterator:
    """The ways to add two tensors in PyTorch."""
    operator, python = torch.ops.pto.add.default, torch.ops.bench.add.default
    yield "torch_add_alpha", lambda: torch.add(x, y, alpha=1)
    yield "torch_default", lambda: torch.ops.aten.add.Tensor(x, y)
    yield "python_default", lambda: python(x, y)
    yield "pto_default", lambda: operator(x, y)
    yield Expected(lambda rows: (x + y).detach()[rows].double())
    yield Goal("pto_default", "torch_default", at_most)


@case("call", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call(setting: Setting):
    x, y = torch.randn(setting.size), torch.randn(setting.size)
    yield from contenders(x, y, at_most=1.1)
    jitted = pto.jit(lambda a, b: a + b)
    yield "pto_jit", lambda: jitted(x, y)
    out = torch.empty_like(x)
    yield "pto_ops", lambda: pto.ops.add(x, y)
    yield "pto_ops_out", lambda: pto.ops.add(x, y, out=out)
    yield "pto_program", lambda: write_sum(x, y, out) or out


@pto.jit
def write_sum(x, y, out):
    out[:] = x + y


@case("call_gradient", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_gradient(setting: Setting):
    x = torch.randn(setting.size, requires_grad=True)
    y = torch.randn(setting.size, requires_grad=True)
    yield from contenders(x, y, at_most=1.2)


def first_call_seconds(cache: str) -> float:
    """The first call of a softmax in a new process with this cache folder."""
    root = str(Path(__file__).parents[1])
    env = {**os.environ, "PTO_CACHE_DIR": cache, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL], env=env, cwd=cache, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def first_calls(processes: int = PROCESSES) -> list[Measurement]:
    """Records of the contenders `cold` and `cached`, printed."""
    cold, cached = [], []
    for _ in range(processes):
        with tempfile.TemporaryDirectory(prefix="openpto-bench-") as folder:
            cold.append(first_call_seconds(folder))
            cached.append(first_call_seconds(folder))
    setting = Setting((2, 8), "f32", 1)
    records = [
        Measurement.of("first_call", setting, name, sorted(seconds), None)
        for name, seconds in (("cold", cold), ("cached", cached))
    ]
    print("\n".join(report.plain(Outcome(records))), flush=True)
    return records
