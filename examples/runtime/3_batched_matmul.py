# SPDX-License-Identifier: Apache-2.0
"""500 independent tasks on torch tensors: each gets a view of its matrix, nothing is copied."""

from pathlib import Path

import torch

import pto

HERE = Path(__file__).parent

x, y = torch.randn(2, 500, 64, 64).unbind()
z = torch.empty_like(x)
with pto.Runtime(level="chip") as rt:
    rt.register(
        "batched", orch=HERE / "3_batched_matmul.cpp", kernels=[{"source": HERE / "matrix.cpp"}]
    )
    run = rt.submit("batched", [pto.Arg.input(x), pto.Arg.input(y), pto.Arg.output(z)])
    run.result()

assert run.report.tasks == 500 and run.report.edges == 0
torch.testing.assert_close(z, x @ y)
print(run.report, "largest difference:", float((z - x @ y).abs().max()))
