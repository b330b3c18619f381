# SPDX-License-Identifier: Apache-2.0
"""Small problems and the kernel examples against the public functional simulator.

`bench/demos.cpp` has the sizes that the simulator demonstrates, on one thread; the examples are
larger. Its figures were measured apart, on another machine (0.1 to 0.4 GFLOP/s for its demos): a
ratio here says an order of magnitude, and the higher of them is what we compare with.
"""

import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.instructions import measured
from pto import build_config
from pto.bench.runner import Measurement, Setting

SOURCE = Path(__file__).with_suffix(".cpp")
KERNELS = Path(__file__).resolve().parent.parent / "examples/kernels"
SIMULATOR_GFLOPS = 0.4
LINE = re.compile(r"(?P<name>.*): error .*, (?P<ms>[\d.e+]+) ms, (?P<rate>[\d.e+]+) GFLOP/s")


def product_flops(rows: int, depth: int, cols: int) -> int:
    return 2 * rows * depth * cols


def attention_flops(heads: int, length: int, width: int) -> int:
    return heads * 4 * length * length * width


def latent_attention_flops(heads: int, length: int, width: int, latent: int) -> int:
    return heads * 8 * length * width * latent + attention_flops(heads, length, latent)


FLOPS = {
    "demo_product": product_flops,
    "demo_attention": attention_flops,
    "demo_latent_attention": latent_attention_flops,
}


def versus(rate: float) -> str:
    return f"{rate / SIMULATOR_GFLOPS:.0f}x the simulator (goal 50x)"


def small() -> list[Measurement]:
    """The simulator's sizes; a wrong result ends the run."""
    records = []
    for record in measured(SOURCE):
        rate = FLOPS[record.case](*record.size) / record.median_s * 1e-9
        size = "x".join(map(str, record.size))
        time = f"{record.median_s * 1e6:.3g} us, {rate:.3g} GFLOP/s"
        print(f"{record.case} {size}: {time}: {versus(rate)}", flush=True)
        records.append(replace(record, ceiling_s=None))
    return records


def run() -> list[Measurement]:
    """Compiles, runs and prints; an example whose result is wrong ends the run."""
    records = small()
    with tempfile.TemporaryDirectory() as folder:
        for source in (KERNELS / "3_gemm.cpp", KERNELS / "2_flash_attention.cpp"):
            program = Path(folder) / source.stem
            flags = [*build_config.cxxflags(), source, "-o", program, *build_config.ldflags()]
            subprocess.run(["c++", "-O2", *flags], check=True)
            done = subprocess.run([program], capture_output=True, text=True, check=True)
            found = LINE.match(done.stdout)
            print(f"{done.stdout.strip()}: {versus(float(found['rate']))}")
            seconds = [float(found["ms"]) * 1e-3]
            setting = Setting((1,), "f32", 0)
            records.append(Measurement.of(f"demo_{source.stem}", setting, "pto", seconds, None))
    return records
