# SPDX-License-Identifier: Apache-2.0
"""The most that the machine can do: multiply-adds in registers, bytes read, bytes copied.

    peak = Peak("f32", threads=2)
    peak()                       # a few hundred microseconds of them on each thread
    peak.multiply_adds           # of one call, on all threads
    Read(array, threads=2)()     # reads it once; each thread a part
    Copy(out, array, threads=2)()

Thread safety: any thread; those of the pool do the work.
"""

import ctypes
from functools import cache
from typing import Any

from pto import build_config
from pto.config import config
from pto.errors import Failure

LIBRARY = "libpto_bench.so"
TIMES = 20  # thousand steps a call
# The instructions that multiply a type, in the order of pto_bench_multiply_adds's kinds.
KINDS = ("f32", "f64", "i32", "i64", "bytes", "bf16 pairs", "bf16 tiles", "byte tiles")
KINDS_OF = {  # f16 is widened; bf16 where nothing multiplies it as it is
    "f16": ("f32",),
    "bf16": ("f32", "bf16 pairs", "bf16 tiles"),
    "i8": ("bytes", "byte tiles"),
}
# The number of products of bf16 that one of f32 may take, by pto.config.matmul_precision.
PARTS = {"highest": 6, "high": 3, "medium": 1}


@cache
def _library() -> ctypes.CDLL:
    path = f"{build_config.library_dir()}/{LIBRARY}"
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Failure(
            f"{LIBRARY} cannot be loaded: {error}",
            "the benches measure what this machine can do with it",
            "run ./dev build in a checkout, or install the package again",
        ) from None
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    for name, result, arguments in (
        ("multiply_adds", ctypes.c_double, [number, size, number]),
        ("read", None, [pointer, size, size, number]),
        ("copy", None, [pointer, pointer, size, size, number, number]),
    ):
        function = getattr(library, f"pto_bench_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _address(array: Any) -> int:
    """The address of the first element of a dense array of NumPy or PyTorch."""
    return array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data


class _Call:
    """Calls a function of the library with the same arguments each time."""

    def __init__(self, name: str, *arguments: float, keeps: object = None) -> None:
        self._run, self._arguments, self._keeps = getattr(_library(), name), arguments, keeps

    def __call__(self) -> Any:
        return self._run(*self._arguments)


class Peak(_Call):
    """Multiply-adds of one kind; `multiply_adds` is 0 where the CPU lacks its instructions."""

    def __init__(self, kind: str, threads: int) -> None:
        super().__init__("pto_bench_multiply_adds", KINDS.index(kind), TIMES, threads)
        self.multiply_adds = self()


class Read(_Call):
    """Reads an array `times` times."""

    def __init__(self, array: Any, threads: int, times: int = 1) -> None:
        arguments = _address(array), array.nbytes, times, threads
        super().__init__("pto_bench_read", *arguments, keeps=array)


class Copy(_Call):
    """Copies an array into another of its size; `past`: by stores past the caches."""

    def __init__(
        self, to: Any, array: Any, threads: int, past: bool = False, times: int = 1
    ) -> None:
        arguments = _address(to), _address(array), array.nbytes, times, past, threads
        super().__init__("pto_bench_copy", *arguments, keeps=(to, array))


def ways(dtype: str, has_parts: bool) -> list[tuple[str, int]]:
    """The kinds by which a type is multiplied, and how many of their products make one of its own.
    `has_parts`: the operator follows pto.config.matmul_precision."""
    found = [(kind, 1) for kind in KINDS_OF.get(dtype, (dtype,))]
    if dtype == "f32" and has_parts:
        parts = PARTS[config.matmul_precision]
        found += [("bf16 tiles", parts)] + [("bf16 pairs", 1)] * (parts == 1)
    return found
