# SPDX-License-Identifier: Apache-2.0
"""TMATMUL of square tiles on one thread, against the multiply-adds of the same run in registers.

`bench/matmul.cpp` is compiled for this machine and measures; this prints a row a case and gives the
records.
"""

from math import prod
from pathlib import Path

from bench.instructions import measured
from pto.bench.runner import Measurement

SOURCE = Path(__file__).with_suffix(".cpp")
HEADER = f"{'instruction':14} {'type':6} {'M = N = K':>10} {'G/s':>8} {'peak':>8} {'of it':>6}"


def line(record: Measurement) -> str:
    """One row: operations in a nanosecond (an addition and a multiplication are two)."""
    work = 2e-9 * prod(record.size)
    return (
        f"{record.case:14} {record.dtype:6} {record.size[0]:10} {work / record.median_s:8.1f} "
        f"{work / record.ceiling_s:8.1f} {record.ceiling_s / record.median_s:6.0%}"
    )


def run() -> list[Measurement]:
    """Compiles, measures and prints."""
    print(HEADER)
    records = []
    for record in measured(SOURCE):
        records.append(record)
        print(line(record), flush=True)
    return records
