# SPDX-License-Identifier: Apache-2.0
"""Tasks: submitted with inferred order and replayed, against OpenMP, oneTBB and StarPU."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pto import build_config
from pto.bench.runner import Measurement

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Rival:
    """A library that is measured where it is installed."""

    name: str
    module: str  # of pkg-config
    package: str  # of apt
    source: str
    macro: str

    def flags(self) -> list[str]:
        asked = ["pkg-config", "--cflags", "--libs", self.module]
        try:
            found = subprocess.run(asked, capture_output=True, text=True)
        except FileNotFoundError:  # no pkg-config
            return []
        if found.returncode:
            return []
        return [f"-D{self.macro}", str(FOLDER / self.source), *found.stdout.split()]


RIVALS = [
    Rival("oneTBB", "tbb", "libtbb-dev", "task_flow_graph.cpp", "PTO_BENCH_TBB"),
    Rival("StarPU", "starpu-1.3", "libstarpu-dev", "task_starpu.cpp", "PTO_BENCH_STARPU"),
]


def line(record: Measurement) -> str:
    """One row: nanoseconds a task, tasks a second; at best, what bodies get of all cores."""
    share = f" {record.ceiling_s / record.p10_s:7.1%} of all cores" if record.ceiling_s else ""
    return (
        f"{record.case:20} {record.size[0]:8} {record.contender:8} {record.threads} threads "
        f"{record.median_s * 1e9:9.1f} ns a task {1e-6 / record.median_s:8.2f} million/s{share}"
    )


def build(program: Path) -> None:
    """Compiles the bench with the libraries that are found."""
    flags = ["-std=c++20", "-O2", "-fopenmp", f"-I{build_config.include_dir()}"]
    sources = [FOLDER / "tasks.cpp", FOLDER / "task_patterns.cpp"]
    rest = build_config.ldflags()
    for rival in RIVALS:
        found = rival.flags()
        if not found:
            print(f"{rival.name}: not installed: apt install {rival.package}", flush=True)
        rest = [*found, *rest]
    subprocess.run(["c++", *flags, *sources, *rest, "-o", program], check=True)


def run() -> list[Measurement]:
    """Compiles, measures and prints."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "tasks"
        build(program)
        with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as measuring:
            for text in measuring.stdout:
                said = json.loads(text)
                if "note" in said:
                    print(said["note"], flush=True)
                    continue
                records.append(Measurement(**said))
                print(line(records[-1]), flush=True)
        if measuring.returncode:
            raise SystemExit("tasks.cpp ended with an error")
    return records
