# SPDX-License-Identifier: Apache-2.0
"""Level host: a Python function orchestrates two devices, which are worker processes.

Each device takes half of the array; a Python task adds up what both have made.
"""

from pathlib import Path

import numpy as np

import pto

HERE = Path(__file__).parent


def add_up(x: np.ndarray, total: np.ndarray) -> None:
    """A kernel in Python: it runs in a process of its device, on the same memory."""
    total[0] = x.sum(dtype=np.float64)


def orchestrate(ctx: pto.Context, args: dict[str, np.ndarray]) -> float:
    x, y = args["x"], args["y"]
    chips = ctx.peers()
    size = len(x) // len(chips)
    for i, chip in enumerate(chips):
        part = slice(i * size, (i + 1) * size)
        square = ctx.alloc((size,))
        ins = [pto.Arg.input(x[part]), pto.Arg.input(x[part])]
        ctx.submit(chip, "multiply", [pto.Arg.output(square), *ins, pto.Arg.scalar(size)])
        ins = [pto.Arg.input(square), pto.Arg.input(x[part])]
        ctx.submit(chip, "add", [pto.Arg.output(y[part]), *ins, pto.Arg.scalar(size)])
    total = ctx.alloc((1,), "float64")
    ctx.submit(chips[0], "add_up", [pto.Arg.input(y), pto.Arg.output(total)])  # follows all parts
    ctx.wait(total)
    return float(total.numpy()[0])


if __name__ == "__main__":  # the Python task's process imports this file too
    source = HERE / "vector.cpp"
    kernels = {name: pto.compile(kernels=[{"source": source, "symbol": name}])
               for name in ("add", "multiply")}  # fmt: skip
    with pto.Runtime(level="host", platform="cpu", devices=[0, 1]) as rt:
        rt.register("squares", orch=orchestrate, kernels={**kernels, "add_up": add_up})
        x = np.arange(1000, dtype=np.float32)
        y = np.zeros_like(x)
        total = rt.run("squares", args={"x": x, "y": y})

    assert np.array_equal(y, x * x + x) and total == y.astype(np.float64).sum()
    print("sum of x * x + x:", total)
