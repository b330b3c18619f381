# SPDX-License-Identifier: Apache-2.0
"""Empty tasks: submitted with inferred order, and replayed, against OpenMP's depend clauses."""

import json
import subprocess
import tempfile
from pathlib import Path

from bench.runner import Record
from pto import build_config

SOURCE = Path(__file__).with_suffix(".cpp")


def line(record: Record) -> str:
    """One row: nanoseconds a task."""
    return (
        f"{record.case:20} {record.contender:8} {record.threads} threads "
        f"{record.median_s * 1e9:9.1f} ns a task"
    )


def run() -> list[Record]:
    """Compiles, measures and prints."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "tasks"
        flags = ["-std=c++20", "-O2", "-fopenmp", f"-I{build_config.include_dir()}", SOURCE]
        subprocess.run(["c++", *flags, "-o", program, *build_config.ldflags()], check=True)
        with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as measuring:
            for text in measuring.stdout:
                records.append(Record(**json.loads(text)))
                print(line(records[-1]), flush=True)
        if measuring.returncode:
            raise SystemExit("tasks.cpp: a task ran before one that it follows")
    return records
