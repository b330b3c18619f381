# SPDX-License-Identifier: Apache-2.0
"""Linear attention with a decay, that carries a state from chunk to chunk, in the tile language.

Sizes are heads x chunks x rows of a chunk x width. "by hand": kernels on tiles and a program of
tasks of them, captured once: scan_kernels.cpp and scan_tasks.cpp.
"""

from collections.abc import Callable
from pathlib import Path

import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from pto.bench.ceilings import peaks
from pto.bench.runner import Expected, Goal, Setting, case

HERE = Path(__file__).parent
SIDE = 128  # rows and width of a chunk, in the kernels by hand


@pto.jit
def scan(q, k, v, within, before, after, whole, out):
    for h in pto.loop(q.shape[0]):
        state = pto.zeros([q.shape[3], v.shape[3]])
        for c in pto.loop(q.shape[1]):
            seen = pto.matmul(q[h, c], k[h, c], b_trans=True) * within[h]
            out[h, c] = seen @ v[h, c] + (q[h, c] * before[h]) @ state
            state = state * whole[h] + pto.matmul(k[h, c] * after[h], v[h, c], a_trans=True)


def torch_scan(q, k, v, within, before, after, whole):
    """The same by batched products over the heads, chunk by chunk."""
    state, chunks = torch.zeros(q.shape[0], q.shape[3], v.shape[3], dtype=q.dtype), []
    for c in range(q.shape[1]):
        seen = (q[:, c] @ k[:, c].transpose(1, 2)) * within
        chunks.append(seen @ v[:, c] + (q[:, c] * before) @ state)
        state = state * whole + (k[:, c] * after).transpose(1, 2) @ v[:, c]
    return torch.stack(chunks, 1)


def by_hand(given: tuple, out: torch.Tensor, threads: int) -> Callable:
    """A call of the captured tasks."""
    runtime = pto.Runtime(level="chip", workers=threads)
    kernels = [{"source": HERE / "scan_kernels.cpp", "symbol": name}
               for name in ("within_chunk", "carry")]  # fmt: skip
    runtime.register("scan", orch=HERE / "scan_tasks.cpp", kernels=kernels)
    states = torch.zeros(out.shape[0], SIDE, SIDE)
    inputs = [pto.Arg.input(x.contiguous().numpy()) for x in given]
    args = [pto.Arg.output(out.numpy()), pto.Arg.inout(states.numpy()), *inputs]
    captured = runtime.capture("scan", args)

    def call() -> torch.Tensor:
        states.zero_()
        captured.replay(args)
        return out

    return call


@case("language_scan", sizes=[(16, 16, 128, 128)], dtypes=["f32"])
def language_scan(setting: Setting):
    heads, chunks, rows, width = setting.size
    q, k, v = torch.randn(3, heads, chunks, rows, width)
    rate = torch.linspace(0.95, 0.999, heads)[:, None, None]
    at = torch.arange(rows)[:, None]
    within = torch.where(at >= at.T, rate ** (at - at.T).clamp(min=0), 0)
    before, after, whole = rate ** (at + 1), rate ** (rows - 1 - at), rate**rows
    given, out = (q, k, v, within, before, after, whole), torch.empty_like(q)

    def ours():
        scan(*given, out)
        return out

    yield "pto", ours
    assert (rows, width) == (SIDE, SIDE)
    yield "by hand", by_hand(given, torch.empty_like(q), setting.threads)
    yield "torch", lambda: torch_scan(*given)
    yield from peaks("f32", setting.threads, 4.0 * heads * chunks * rows * width * width)
    yield Expected(lambda r: torch_scan(*(x.double() for x in given))[r], tolerance=1e-3)
    yield Goal("pto", "by hand", at_most=round(1 / 0.9, 2))
