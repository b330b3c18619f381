# SPDX-License-Identifier: Apache-2.0
"""Timing of several functions against each other on a small, shared, noisy machine.

    samples = interleave({"ours": f, "theirs": g})
    samples["theirs"].median / samples["ours"].median

Invariants: all contenders run in one process, one sample each in turn, and each round begins with
another one, so that drift and neighbours strike all alike. A sample is the mean of as many calls
as fill `sample_s`, after a call that is not timed: what the one before left in the caches would
count otherwise. Only ratios of one interleave() mean anything.
"""

import contextlib
import gc
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

WARM_SAMPLES = 3


@dataclass(frozen=True)
class Samples:
    """Seconds per call, sorted."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def quantile(self, part: float) -> float:
        """The sample below which `part` of all lie, interpolated."""
        at = part * (len(self.seconds) - 1)
        low = int(at)
        high = min(low + 1, len(self.seconds) - 1)
        return self.seconds[low] + (at - low) * (self.seconds[high] - self.seconds[low])


def _other_threads() -> dict[int, set[int]]:
    """The cores that each other thread of this process may use, by thread; {} where unknown."""
    found, tasks = {}, "/proc/self/task"
    for task in map(int, os.listdir(tasks) if os.path.isdir(tasks) else ()):
        if task != threading.get_native_id():
            with contextlib.suppress(OSError):  # it has ended
                found[task] = os.sched_getaffinity(task)
    return found


def _bind(threads: Iterable[int], cores: set[int]) -> None:
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(thread, cores)


@contextlib.contextmanager
def spread_threads(makes_threads: bool = False) -> Iterator[None]:
    """Keeps the caller on the first core and all other threads of the process off it.

    Some kernels, of virtual machines above all, leave two busy threads on one core while another
    idles, so that each waits a time slice for the other: 8 ms where 0.1 were needed. What makes its
    threads at each call is not held, since they would inherit the caller's core; nor is a process
    that has bound threads itself.
    """
    cores, others = os.sched_getaffinity(0), _other_threads()
    is_bound = any(mask != cores for mask in others.values())
    if makes_threads or is_bound or len(cores) < 2 or not others:
        yield
        return
    first = {min(cores)}
    _bind(others, cores - first)
    _bind([0], first)
    try:
        yield
    finally:
        _bind([0, *_other_threads()], cores)


def _time(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def _calls(function: Callable[[], object], sample_s: float) -> int:
    """Calls that fill a sample, after a warm-up."""
    once = _time(function, 1)
    if once < sample_s:
        once = min(once, _time(function, max(1, min(20, int(sample_s / once)))))
    return max(1, round(sample_s / once))


def _sample(function: Callable[[], object], calls: int, sample_s: float, pause_s: float) -> float:
    """Seconds per call, after one call, or after a pause and calls for a while: threads wake."""
    if not pause_s:
        function()
        return _time(function, calls)
    time.sleep(pause_s)
    with spread_threads(getattr(function, "makes_threads", False)):
        end = time.perf_counter() + WARM_SAMPLES * sample_s
        while True:
            function()
            if time.perf_counter() >= end:
                return _time(function, calls)


def interleave(
    contenders: dict[str, Callable[[], object]],
    rounds: int = 11,
    sample_s: float = 2e-3,
    pause_s: float = 0,
) -> dict[str, Samples]:
    """Samples of each contender: `rounds` of them, each of at least about `sample_s` seconds.

    A pause goes before each sample of contenders with several threads: the workers of the one
    before spin for work (ONNX Runtime's and OpenBLAS's for tens of milliseconds) and would take the
    cores of the next. Then the threads are spread over the cores.
    """
    calls = {name: _calls(function, sample_s) for name, function in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                seconds[name].append(_sample(contenders[name], calls[name], sample_s, pause_s))
    finally:
        if collecting:
            gc.enable()
    return {name: Samples(tuple(sorted(all_))) for name, all_ in seconds.items()}


def geometric_mean(ratios: list[float]) -> float:
    """The geometric mean of positive ratios; 1.0 for none."""
    return statistics.geometric_mean(ratios) if ratios else 1.0
