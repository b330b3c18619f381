# SPDX-License-Identifier: Apache-2.0
"""Conditions and blocks: an iteration that ends when it has converged; and what an error says."""

from pathlib import Path

import numpy as np

import pto

HERE = Path(__file__).parent

a = np.random.default_rng(0).uniform(0.01, 100, 30_001).astype(np.float32)
x = np.ones_like(a)
with pto.Runtime(level="chip") as rt:
    rt.register(
        "roots",
        orch=HERE / "6_converge.cpp",
        kernels=[{"source": HERE / "root.cpp", "symbol": s} for s in ("step", "largest")],
        signature=["inout float32", "input float32", "scalar int64", "scalar float64"],
    )
    args = [pto.Arg.inout(x), pto.Arg.input(a), pto.Arg.scalar(50), pto.Arg.scalar(1e-6)]
    run = rt.submit("roots", args)
    run.result()
    print(run.report)

    try:
        rt.run("roots", [pto.Arg.input(x), *args[1:]])
    except pto.Error as error:
        print(error)

assert np.allclose(x, np.sqrt(a), rtol=1e-6) and 60 < run.report.skipped < 95
