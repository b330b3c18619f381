# SPDX-License-Identifier: Apache-2.0
"""Products as users call them, against every library that the machine has.

Sizes are rows x depth x columns. `linear` multiplies by a weight, columns x depth, which ours packs
at its second call. The ceiling is the peak of multiply-adds in registers.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pto.bench.arrays import exact, operator, plain, random
from pto.bench.ceilings import peaks
from pto.bench.peers import blas_libraries, torch
from pto.bench.runner import Expected, Setting, Work

DTYPES = ("f32", "f16", "bf16", "f64", "i32", "i64")
IN_NUMPY = ("f32", "f64", "i32", "i64")  # NumPy multiplies others one by one
ONEDNN = {"f32": "", "bf16": "_is_mkldnn_bf16_supported", "f16": "_is_mkldnn_fp16_supported"}
MKL_PACKED, ONEDNN_PACKED = "MKL packed", "oneDNN packed"
PEERS = ("torch.mm", "oneDNN", "NumPy", "OpenBLAS", "BLIS", MKL_PACKED, ONEDNN_PACKED)


def _has_onednn(dtype: str) -> bool:
    if dtype not in ONEDNN or not torch().backends.mkldnn.is_available():
        return False
    return not ONEDNN[dtype] or getattr(torch().ops.mkldnn, ONEDNN[dtype])()


def _in_torch(a: Any, b: Any, setting: Setting, is_weight: bool) -> Iterator[tuple[str, Callable]]:
    mm, weight = torch().mm, b.t()
    yield "torch.mm", lambda: mm(a, b)
    if not _has_onednn(setting.dtype):
        return
    linear = torch().ops.mkldnn._linear_pointwise
    yield "oneDNN", lambda: linear(a, weight, None, "none", [], "")
    if is_weight and setting.dtype == "f32":
        rows = len(a)
        packed = torch().ops.mkldnn._reorder_linear_weight(weight, rows)
        yield ONEDNN_PACKED, lambda: linear(a, packed, None, "none", [], "")
        if torch().backends.mkl.is_available():
            mkl = torch().ops.mkl
            other = mkl._mkl_reorder_linear_weight(weight, rows)
            yield MKL_PACKED, lambda: mkl._mkl_linear(a, other, weight, None, rows)


def peers(a: Any, b: Any, setting: Setting, is_weight: bool) -> Iterator[tuple[str, Callable]]:
    """a @ b by each library that has its type; b is a weight's transposition or dense."""
    if torch():
        yield from _in_torch(a, b, setting, is_weight)
    if setting.dtype not in IN_NUMPY:
        return
    x, y = plain(a), plain(b)
    yield "NumPy", lambda: x @ y
    for name, library in blas_libraries().items() if setting.dtype in ("f32", "f64") else ():
        yield name, library.product(x, y, setting.dtype, setting.threads)


def tolerance(dtype: str, depth: int) -> float | None:
    """Bounds the error of sums of so many products; None: the rounding of the result does."""
    return {"f32": 1e-6, "f64": 1e-14}[dtype] * depth if dtype in ("f32", "f64") else None


def product(setting: Setting, is_weight: bool) -> Iterator[Any]:
    m, k, n = setting.size
    a, dtype = random((m, k), setting.dtype), setting.dtype
    if is_weight:
        weight, linear = random((n, k), dtype, 1), operator("linear")
        b = weight.T
        yield "pto", lambda: linear(a, weight)
    else:
        b, matmul = random((k, n), dtype, 1), operator("matmul")
        yield "pto", lambda: matmul(a, b)
    yield from peers(a, b, setting, is_weight)
    yield from peaks(dtype, setting.threads, m * k * n, has_parts=True)
    yield Work("Gop/s" if dtype.startswith("i") else "GFLOP/s", 2e-9 * m * k * n)
    left, right = exact(a), np.ascontiguousarray(exact(b))
    yield Expected(lambda rows: left[rows] @ right, tolerance(dtype, k))


def matmul(setting: Setting) -> Iterator[Any]:
    return product(setting, is_weight=False)


def linear(setting: Setting) -> Iterator[Any]:
    return product(setting, is_weight=True)
