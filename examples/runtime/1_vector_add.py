# SPDX-License-Identifier: Apache-2.0
"""Two dependent tasks: a kernel, an orchestration that submits it, and a runtime that runs both."""

from pathlib import Path

import numpy as np

import pto

HERE = Path(__file__).parent

rt = pto.Runtime(level="chip", platform="cpu", device=0)
rt.register(
    "vector_add",
    orch=HERE / "1_vector_add.cpp",
    kernels=[{"source": HERE / "vector.cpp", "symbol": "add", "core_type": "aiv", "func_id": 0}],
)
x, y = np.random.default_rng(0).standard_normal((2, 100_000), np.float32)
w = np.empty_like(x)
rt.run("vector_add", args=[pto.Arg.input(x), pto.Arg.input(y), pto.Arg.output(w)])
rt.close()

assert np.array_equal(w, x + y + y)
print("w = x + y + y:", w[:3])
