# SPDX-License-Identifier: Apache-2.0
"""One fused operator against the framework's own two, each of which sweeps the memory once.

`fused_torch`, `fused_numpy`, and `fused_jax`, `fused_tf` beside the other cases of these
frameworks: fused_add_relu on a million elements against add, then relu, called eagerly.
`call_numpy`: what a call costs on NumPy arrays of 16 elements.
"""

from collections.abc import Iterator

import numpy as np
import torch

from pto import ops
from pto.bench.runner import Expected, Goal, Setting, case

ELEMENTS = (1 << 20,)
FASTER = 1.5  # the goal


def arrays(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return tuple(random.standard_normal((2, *setting.size), np.float32))


def expected(x: np.ndarray, y: np.ndarray, ours: str, theirs: str) -> Iterator[Expected | Goal]:
    total = torch.from_numpy(np.maximum(x.astype(np.float64) + y, 0))
    yield Expected(lambda rows: total[rows])
    yield Goal(ours, theirs, at_most=round(1 / FASTER, 2))


@case("fused_torch", sizes=[ELEMENTS], dtypes=["f32"])
def fused_torch(setting: Setting):
    a, b = arrays(setting)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    operator = torch.ops.pto.fused_add_relu.default
    yield "torch_add_relu", lambda: torch.relu(torch.add(x, y))
    yield "pto_default", lambda: operator(x, y)
    yield from expected(a, b, "pto_default", "torch_add_relu")


@case("fused_numpy", sizes=[ELEMENTS], dtypes=["f32"], threads=(1,))
def fused_numpy(setting: Setting):
    x, y = arrays(setting)
    operator = ops.fused_add_relu
    yield "numpy_add_relu", lambda: np.maximum(np.add(x, y), 0)
    yield "pto_numpy", lambda: operator(x, y)
    yield from expected(x, y, "pto_numpy", "numpy_add_relu")


@case("call_numpy", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_numpy(setting: Setting):
    x, y = np.ones(setting.size, np.float32), np.ones(setting.size, np.float32)
    operator = ops.add
    yield "numpy_add", lambda: np.add(x, y)
    yield "pto_numpy", lambda: operator(x, y)
