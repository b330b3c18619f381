# SPDX-License-Identifier: Apache-2.0
"""One instruction on tiles in the first cache against the L1 and ALU limits of its shape.

Transfers of 64 KB against memcpy.

`bench/instructions.cpp` and `bench/transfers.cpp` are compiled for this machine and measure; this
prints a row a case and gives the records.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pto import build_config
from pto.bench.runner import Measurement

SOURCE = Path(__file__).with_suffix(".cpp")
HEADER = f"{'instruction':14} {'type':10} {'tile':>9} {'ns/element':>11} {'limit':>8} {'of it':>6}"


def line(record: Measurement) -> str:
    """One row: nanoseconds per element of the destination, and the share of the limit."""
    rows, cols = record.size
    each = 1e9 / (rows * cols)
    return (
        f"{record.case:14} {record.dtype:10} {f'{rows}x{cols}':>9} {record.median_s * each:11.4f} "
        f"{record.ceiling_s * each:8.4f} {record.ceiling_s / record.median_s:6.0%}"
    )


def measured(source: Path) -> Iterator[Measurement]:
    """Compiles a program for this machine and reads its records as they come."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / source.stem
        links = [*build_config.ldflags(), "-lpto_bench"]
        flags = [*build_config.cxxflags(), source, "-o", program, *links]
        subprocess.run(["c++", "-O2", *flags], check=True)
        with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as measuring:
            for text in measuring.stdout:
                yield Measurement(**json.loads(text))
        if measuring.returncode:
            raise SystemExit(f"{source.name}: a result is wrong, see above")


def run() -> list[Measurement]:
    """Compiles, measures and prints."""
    print(HEADER)
    records = []
    for source in (SOURCE, SOURCE.with_name("transfers.cpp")):
        for record in measured(source):
            records.append(record)
            print(line(record), flush=True)
    return records
