# SPDX-License-Identifier: Apache-2.0
"""The kernel examples against the public functional simulator: GEMM and attention.

Its figures were measured apart, on another machine (0.1 to 0.4 GFLOP/s for its demos): a ratio here
says an order of magnitude, and the higher of them is what we compare with.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from bench.runner import Record, Setting
from pto import build_config

KERNELS = Path(__file__).resolve().parent.parent / "examples/kernels"
SIMULATOR_GFLOPS = 0.4
LINE = re.compile(r"(?P<name>.*): error .*, (?P<ms>[\d.e+]+) ms, (?P<rate>[\d.e+]+) GFLOP/s")


def run() -> list[Record]:
    """Compiles, runs and prints; an example whose result is wrong ends the run."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for source in (KERNELS / "3_gemm.cpp", KERNELS / "2_flash_attention.cpp"):
            program = Path(folder) / source.stem
            flags = [*build_config.cxxflags(), source, "-o", program, *build_config.ldflags()]
            subprocess.run(["c++", "-O2", *flags], check=True)
            done = subprocess.run([program], capture_output=True, text=True, check=True)
            found = LINE.match(done.stdout)
            rate = float(found["rate"])
            print(f"{done.stdout.strip()}: {rate / SIMULATOR_GFLOPS:.0f}x the simulator (goal 50x)")
            seconds = [float(found["ms"]) * 1e-3]
            setting = Setting((1,), "f32", 0)
            records.append(Record.of(f"demo_{source.stem}", setting, "pto", seconds, None))
    return records
