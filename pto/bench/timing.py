# SPDX-License-Identifier: Apache-2.0
"""Timing of several functions against each other on a small, shared, noisy machine.

    samples = interleave({"ours": f, "theirs": g})
    samples["theirs"].median / samples["ours"].median

Invariants: all contenders run in one process, one sample each in turn, and each round begins with
another one, so that drift and neighbours strike all alike. A sample is the mean of as many calls
as fill `sample_s`, after a call that is not timed: what the one before left in the caches would
count otherwise. Only ratios of one interleave() mean anything.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


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


def interleave(
    contenders: dict[str, Callable[[], object]], rounds: int = 11, sample_s: float = 2e-3
) -> dict[str, Samples]:
    """Samples of each contender: `rounds` of them, each of at least about `sample_s` seconds."""
    calls = {name: _calls(function, sample_s) for name, function in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                contenders[name]()
                seconds[name].append(_time(contenders[name], calls[name]))
    finally:
        if collecting:
            gc.enable()
    return {name: Samples(tuple(sorted(all_))) for name, all_ in seconds.items()}


def geometric_mean(ratios: list[float]) -> float:
    """The geometric mean of positive ratios; 1.0 for none."""
    return statistics.geometric_mean(ratios) if ratios else 1.0
