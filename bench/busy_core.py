# SPDX-License-Identifier: Apache-2.0
"""Measures launches of small rows while another process keeps one core busy: `busy_core`.

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

SIZES = [(32, 384), (256, 1536)]
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


def seconds_a_call(function: Callable[[], object]) -> float:
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < SAMPLE_S:
        for _ in range(10):
            function()
        calls += 10
    return (time.perf_counter() - start) / calls


@pto.jit
def layer_norm(x):
    return pto.layer_norm(x)


def measured(size: tuple[int, int], threads: int, core: int) -> list[Measurement]:
    x = torch.randn(*size)
    function, samples = lambda: layer_norm(x), {"quiet": [], "busy": []}
    before, pto.config.threads = pto.config.threads, threads
    try:
        function()
        for _ in range(TURNS):
            samples["quiet"].append(seconds_a_call(function))
            with busy(core):
                samples["busy"].append(seconds_a_call(function))
    finally:
        pto.config.threads = before
    setting = Setting(size, "f32", threads)
    slower = statistics.median(samples["busy"]) / statistics.median(samples["quiet"])
    print(f"{size[0]}x{size[1]}, {threads} threads: {slower:.2f} times as long beside a busy core")
    return [
        Measurement.of("busy_core", setting, name, sorted(seconds), None)
        for name, seconds in samples.items()
    ]


def run() -> list[Measurement]:
    """Records of layer_norm of small rows on one thread and on two, printed."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("busy_core: one core only, nothing to measure", flush=True)
        return []
    records = [
        record
        for size in SIZES
        for threads in (1, 2)
        for record in measured(size, threads, cores[-1])
    ]
    print("\n".join(report.plain(Outcome(records))), flush=True)
    return records
