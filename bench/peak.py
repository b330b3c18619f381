# SPDX-License-Identifier: Apache-2.0
"""The most that the machine can do: multiply-adds of f32 in registers, bytes read from memory.

peak = Peak(threads=2)
peak()                       # a few hundred microseconds of them on each thread
peak.multiply_adds           # of one call, on all threads
read = Read(tensor, threads=2)
read()                       # reads it once; each thread a part
"""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from bench.shared_library import compiled
from pto import build_config

TIMES = 100  # a thread; one is 10,000 multiply-adds of vectors


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(compiled("peak.cpp", *build_config.cxxflags())))
    library.bench_multiply_adds.argtypes = [ctypes.c_int64]
    library.bench_multiply_adds.restype = ctypes.c_double
    library.bench_read.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.bench_read.restype = ctypes.c_float
    return library


class _OnThreads:
    """Runs a function with each of some arguments at once, the first on the calling thread."""

    def __init__(self, run: Callable, arguments: list[tuple]) -> None:
        self._run, self._arguments = run, arguments
        self._others = ThreadPoolExecutor(len(arguments) - 1) if len(arguments) > 1 else None

    def __call__(self) -> None:
        others = [self._others.submit(self._run, *one) for one in self._arguments[1:]]
        self._run(*self._arguments[0])
        for other in others:
            other.result()


class Peak(_OnThreads):
    def __init__(self, threads: int) -> None:
        super().__init__(_library().bench_multiply_adds, [(TIMES,)] * threads)
        self.multiply_adds = self._run(TIMES) * threads


class Read(_OnThreads):
    def __init__(self, tensor: torch.Tensor, threads: int) -> None:
        parts = tensor.flatten().chunk(threads)
        super().__init__(_library().bench_read, [(p.data_ptr(), p.numel()) for p in parts])
        self._kept = tensor
