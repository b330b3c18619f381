# SPDX-License-Identifier: Apache-2.0
"""Calls of ATen: what one costs beside PyTorch's own, on 4 floats.

From C++ (aten_calls.cpp): ready tensors, tensors made of pointers at each call, and ours, and calls
of PyTorch that a front refuses for their strides; from Python: `torch.ops.aten.add.out` and
`pto.aten.add.out`, and calls of PyTorch that a front refuses for their types.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import pto.aten
from pto import build_config
from pto.adapters.torch import build
from pto.bench.runner import Measurement

SOURCE = Path(__file__).with_suffix(".cpp")
ROUNDS, CALLS, FLOATS = 101, 1000, 4


def run() -> list[Measurement]:
    """Measures and prints."""
    return [*_from_cpp(), *_from_python(), *_refused()]


def _from_cpp() -> list[Measurement]:
    build.build_aten()
    fronts = build.library.build(build.fronts())
    part = build.NODE
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/aten_calls"
        ours = [f"-I{build.aten_include()}", f"-I{build_config.include_dir()}"]
        home = Path(torch.__file__).parent / "lib"
        command = ["g++", "-O2", *part.options, *ours, *part.folders, SOURCE, "-o", program]
        subprocess.run([*command, *part.links, f"-Wl,-rpath,{home}", "-ldl"], check=True)
        made = subprocess.run(
            [program, home, str(ROUNDS), fronts], stdout=subprocess.PIPE, text=True
        )
    if made.returncode or "WRONG" in made.stdout:
        raise RuntimeError(f"the calls from C++ are wrong: {made.stdout}")
    ns = {name: float(value) for name, value in map(str.split, made.stdout.splitlines())}
    for name, value in ns.items():
        ratios = ", ".join(f"{value / ns[one]:.2f}x {one}" for one in ("at::add_out", "from_blob"))
        print(f"aten_calls C++    {name:<22}{value:7.0f} ns   {ratios}", flush=True)
    return [_record("aten_calls", name, value) for name, value in ns.items()]


def _from_python() -> list[Measurement]:
    x, y, z = torch.rand(FLOATS), torch.rand(FLOATS), torch.empty(FLOATS)
    ways: dict[str, Callable[[], object]] = {
        "torch.ops.aten.add.out": lambda: torch.ops.aten.add.out(x, y, out=z),
        "pto.aten.add.out": lambda: pto.aten.add.out(x, y, out=z),
        "torch.ops.aten.add": lambda: torch.ops.aten.add(x, y),
        "pto.aten.add": lambda: pto.aten.add(x, y),
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    with torch.no_grad():
        for _ in range(ROUNDS):
            for name, call in ways.items():
                begin = time.perf_counter()
                for _ in range(CALLS):
                    call()
                samples[name].append((time.perf_counter() - begin) / CALLS * 1e9)
    ns = {name: sorted(several)[len(several) // 2] for name, several in samples.items()}
    for name, value in ns.items():
        theirs = ns[name.replace("pto.aten", "torch.ops.aten")]
        print(f"aten_calls Python {name:<22}{value:7.0f} ns   {value / theirs:.2f}x", flush=True)
    return [_record("aten_calls_python", name, value) for name, value in ns.items()]


def _refused() -> list[Measurement]:
    """torch.atan2 with out of doubles, which no row takes by itself, with and without enable()."""
    x, y, z = (torch.rand(FLOATS, dtype=torch.float64) for _ in range(3))
    on = pto.aten.enable(only=["atan2.out"])
    on.off()
    without = pto.aten.enable(only=[])  # a choice of the thread, too
    without.off()
    samples: dict[str, list[float]] = {"without": [], "refused": []}
    with torch.no_grad():
        for _ in range(ROUNDS):
            for name, choice in (("without", without), ("refused", on)):
                with choice:
                    begin = time.perf_counter()
                    for _ in range(CALLS):
                        torch.atan2(x, y, out=z)
                    samples[name].append((time.perf_counter() - begin) / CALLS * 1e9)
    ns = {name: sorted(several)[len(several) // 2] for name, several in samples.items()}
    more = ns["refused"] - ns["without"]
    print(
        f"aten_calls Python torch.atan2 of doubles {ns['refused']:7.0f} ns   {more:+.0f} ns enabled"
    )
    return [_record("aten_calls_refused", name, value) for name, value in ns.items()]


def _record(case: str, contender: str, ns: float) -> Measurement:
    return Measurement(case, [FLOATS], "f32", contender, 1, ns / 1e9, ns / 1e9, ns / 1e9, None)
