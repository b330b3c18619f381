# SPDX-License-Identifier: Apache-2.0
"""Measures small rows and products while another process keeps one core busy: `busy_core`.

A process that only computes is bound to one core. With two threads a launch waits for the thread
that shares that core, unless the other has done all the work by then.
`quiet` and `busy` are measured in turns, so that neighbours of the machine strike both alike.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import torch

import pto
from bench import report
from pto.bench.runner import Measurement, Outcome, Setting

ROWS = [(32, 384), (256, 1536)]
PRODUCT = (512, 512, 512)
TURNS, SAMPLE_S = 12, 0.02
LOAD = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@contextlib.contextmanager
def busy(core: int) -> Iterator[None]:
    """Keeps a core busy with one computing process."""
    process = subprocess.Popen([sys.executable, "-c", LOAD, str(core)])
    try:
        time.sleep(0.05)  # until it computes
        yield
    finally:
        process.kill()
        process.wait()


def seconds_of(function: Callable[[], object]) -> list[float]:
    """Seconds of each call."""
    found = []
    while sum(found) < SAMPLE_S:
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return found


@pto.jit
def layer_norm(x):
    return pto.layer_norm(x)


def functions() -> Iterator[tuple[tuple[int, ...], Callable[[], object]]]:
    """Sizes and what is called."""
    for size in ROWS:
        x = torch.randn(*size)
        yield size, lambda x=x: layer_norm(x)
    rows, depth, cols = PRODUCT
    a, b = torch.randn(rows, depth).numpy(), torch.randn(depth, cols).numpy()
    yield PRODUCT, lambda: pto.ops.matmul(a, b)


def measured(
    size: tuple[int, ...], function: Callable[[], object], threads: int, core: int
) -> list[Measurement]:
    samples: dict[str, list[float]] = {"quiet": [], "busy": []}
    before, pto.config.threads = pto.config.threads, threads
    try:
        function()
        for _ in range(TURNS):
            samples["quiet"] += seconds_of(function)
            with busy(core):
                samples["busy"] += seconds_of(function)
    finally:
        pto.config.threads = before
    setting = Setting(size, "f32", threads)
    median, mean = (
        kind(samples["busy"]) / statistics.median(samples["quiet"])
        for kind in (statistics.median, statistics.mean)
    )
    shape = "x".join(map(str, size))
    print(
        f"{shape}, {threads} threads: {median:.2f}x the time beside a busy core, mean {mean:.2f}x"
    )
    return [
        Measurement.of("busy_core", setting, name, sorted(seconds), None)
        for name, seconds in samples.items()
    ]


def run() -> list[Measurement]:
    """Records of layer_norm of small rows and of a product on one thread and on two, printed."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("busy_core: one core only, nothing to measure", flush=True)
        return []
    records = [
        record
        for size, function in functions()
        for threads in (1, 2)
        for record in measured(size, function, threads, cores[-1])
    ]
    print("\n".join(report.plain(Outcome(records))), flush=True)
    return records
