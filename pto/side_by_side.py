# SPDX-License-Identifier: Apache-2.0
"""Runs compilations on a few threads; Ctrl-C, or the failure of one, stops the others.

    codes = side_by_side([lambda: compiled(one) for one in sources])

Thread safety: any thread.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pto import _core

T = TypeVar("T")


def side_by_side(jobs: Sequence[Callable[[], T]], most: int = 4) -> list[T]:
    """The results in order, from at most `most` threads. Raises what the first failing job raises,
    after the others have stopped."""
    if not jobs:
        return []
    stop = _core.Stop()
    with ThreadPoolExecutor(min(most, len(jobs), os.cpu_count() or 1), "pto-compile") as pool:
        try:
            futures = [pool.submit(stop.run, job) for job in jobs]
        except RuntimeError:  # the system has no more threads: this one does all
            return [job() for job in jobs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
