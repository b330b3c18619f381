# SPDX-License-Identifier: Apache-2.0
"""A diamond of five tasks, submitted without waiting; then the same from a saved package."""

import tempfile
from pathlib import Path

import numpy as np

import pto

HERE = Path(__file__).parent
KERNELS = [
    {"source": HERE / "vector.cpp", "symbol": symbol}
    for symbol in ("add", "multiply", "add_constant")
]

package = pto.compile(
    platform="cpu",
    orch=HERE / "2_diamond.cpp",
    kernels=KERNELS,
    signature=["input float32", "input float32", "output float32"],
)
a, b = np.random.default_rng(0).standard_normal((2, 50_000), np.float32)
f, again = np.empty_like(a), np.empty_like(a)
with tempfile.TemporaryDirectory() as folder, pto.Runtime(level="chip") as rt:
    rt.register("diamond", pkg=package)
    run = rt.submit("diamond", [pto.Arg.input(a), pto.Arg.input(b), pto.Arg.output(f)])
    run.result()
    print(run.report)

    package.save(Path(folder, "diamond.pto"))  # runs on a machine without a compiler
    rt.register("loaded", pkg=pto.CompiledPackage.load(Path(folder, "diamond.pto")))
    rt.run("loaded", [pto.Arg.input(a), pto.Arg.input(b), pto.Arg.output(again)])

s = a + b
assert np.allclose(f, (s + 1) * (s + 2) + s, rtol=1e-6) and np.array_equal(f, again)
print("f = (a+b+1)(a+b+2) + (a+b):", f[:3])
