# SPDX-License-Identifier: Apache-2.0
"""The most f32 multiply-adds that the machine makes, in registers alone.

peak = Peak(threads=2)
peak()                       # a few hundred microseconds of them on each thread
peak.multiply_adds           # of one call, on all threads
"""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from bench.shared_library import compiled
from pto import build_config

TIMES = 100  # a thread; one is 10,000 multiply-adds of vectors


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(compiled("peak.cpp", *build_config.cxxflags())))
    library.bench_multiply_adds.argtypes = [ctypes.c_int64]
    library.bench_multiply_adds.restype = ctypes.c_double
    return library


class Peak:
    def __init__(self, threads: int) -> None:
        self._run = _library().bench_multiply_adds
        self._others = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._threads = threads
        self.multiply_adds = self._run(TIMES) * threads

    def __call__(self) -> None:
        others = [self._others.submit(self._run, TIMES) for _ in range(1, self._threads)]
        self._run(TIMES)
        for other in others:
            other.result()
