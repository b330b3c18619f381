# SPDX-License-Identifier: Apache-2.0
"""Matrix products and sums in turn, in place, and several runs on one runtime."""

from pathlib import Path

import numpy as np

import pto

HERE = Path(__file__).parent
BATCH, ROUNDS, RUNS = 8, 10, 3

rng = np.random.default_rng(0)
x, b = rng.standard_normal((BATCH, 64, 64), np.float32), rng.standard_normal((64, 64), np.float32)
w = np.linalg.qr(rng.standard_normal((64, 64)))[0].astype(np.float32)  # keeps lengths
want = x.astype(np.float64)
with pto.Runtime(level="chip", window=16) as rt:  # at most 16 tasks in flight
    rt.register(
        "alternate",
        orch=HERE / "4_alternate.cpp",
        kernels=[
            {"source": HERE / "matrix.cpp"},
            {"source": HERE / "vector.cpp", "symbol": "add"},
        ],
    )
    args = [pto.Arg.inout(x), pto.Arg.input(w), pto.Arg.input(b), pto.Arg.scalar(ROUNDS)]
    runs = [rt.submit("alternate", args) for _ in range(RUNS)]  # one after another, in this order
    for run in runs:
        run.result()
        print(run.report)

for _ in range(ROUNDS * RUNS):
    want = want @ w + b
error = np.abs(x - want).max() / np.abs(want).max()
assert error < 1e-5, error
print("largest error:", error)
