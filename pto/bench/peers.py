# SPDX-License-Identifier: Apache-2.0
"""The libraries of this machine that operators are compared with, and their threads.

    set_threads(2)                       # of ours, PyTorch's, NumPy's
    blas_libraries()["BLIS"].product(a, b, "f32", threads=2)()

MKL comes with PyTorch, as oneDNN does; OpenBLAS with NumPy's wheel, and with Debian, as BLIS does.
"""

import ctypes
import ctypes.util
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pto.config import config

# How to get what the machine lacks.
PYTORCH = "PyTorch (MKL, oneDNN, its attention, torch.compile): pip install torch==2.13.0"
DEBIAN = {
    "OpenBLAS": "OpenBLAS as a library: apt-get install libopenblas0-pthread",
    "BLIS": "BLIS: apt-get install libblis4-pthread",
}
ROW_MAJOR, PLAIN, TURNED = 101, 111, 112  # of CBLAS
GEMMS = {"f32": ("cblas_sgemm", ctypes.c_float), "f64": ("cblas_dgemm", ctypes.c_double)}
OPENBLAS_SETTERS = (
    "scipy_openblas_set_num_threads64_",  # of NumPy's wheels
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


@cache
def torch() -> ModuleType | None:
    """PyTorch with our operators registered, where it is installed."""
    if not importlib.util.find_spec("torch"):
        return None
    importlib.import_module("pto.torch")
    return importlib.import_module("torch")


class Blas:
    """A CBLAS library of the machine."""

    def __init__(self, path: str, set_threads: str) -> None:
        self._makes_threads = "blis" in path  # at each call
        self._library = ctypes.CDLL(path)
        self._set_threads = getattr(self._library, set_threads)
        pointer, size = ctypes.c_void_p, ctypes.c_int
        for name, real in GEMMS.values():
            matrix = [pointer, size]
            gemm = getattr(self._library, name)
            gemm.argtypes = [size] * 6 + [real, *matrix, *matrix, real, *matrix]

    def product(self, a: np.ndarray, b: np.ndarray, dtype: str, threads: int) -> Callable:
        """A function that writes a @ b into an array and returns it; b is dense by rows or cols."""
        (m, k), n = a.shape, b.shape[1]
        out, gemm = np.empty((m, n), a.dtype), getattr(self._library, GEMMS[dtype][0])
        kind, stride = (PLAIN, n) if b.flags.c_contiguous else (TURNED, k)
        left, right, result = (x.ctypes.data for x in (a, b, out))

        def run(kept: object = (a, b)) -> np.ndarray:
            gemm(ROW_MAJOR, PLAIN, kind, m, n, k, 1, left, k, right, stride, 0, result, n)
            return out

        run.makes_threads = self._makes_threads
        self._set_threads(threads)
        return run


@cache
def blas_libraries() -> dict[str, Blas]:
    """Finds OpenBLAS and BLIS beside those inside NumPy and PyTorch."""
    found = {}
    for name, library, setter in (
        ("OpenBLAS", "openblas", "openblas_set_num_threads"),
        ("BLIS", "blis", "bli_thread_set_num_threads"),
    ):
        path = ctypes.util.find_library(library)
        try:
            found[name] = Blas(path, setter) if path else None
        except (OSError, AttributeError):  # another version, without what we call
            found[name] = None
    return {name: library for name, library in found.items() if library}


def _openblas_setters() -> Iterator[Any]:
    """The functions that set the threads of each OpenBLAS in this process."""
    maps = Path("/proc/self/maps")
    text = maps.read_text() if maps.exists() else ""
    for path in sorted(set(re.findall(r"(/\S*openblas\S*\.so\S*)$", text, re.M))):
        library = ctypes.CDLL(path)
        yield from (getattr(library, name) for name in OPENBLAS_SETTERS if hasattr(library, name))


def set_threads(count: int) -> None:
    """Sets the threads of our pool, of PyTorch and of NumPy."""
    config.threads = count
    if torch():
        torch().set_num_threads(count)
    for setter in _openblas_setters():
        setter(count)


def missing(is_product: bool) -> list[str]:
    """Lists what this machine lacks, with the command that brings it."""
    lines = [] if torch() else [PYTORCH]
    if is_product:
        lines += [how for name, how in DEBIAN.items() if name not in blas_libraries()]
    if not any(True for _ in _openblas_setters()):
        lines.append("OpenBLAS inside NumPy, whose threads can be set: pip install numpy")
    return lines
