# SPDX-License-Identifier: Apache-2.0
"""Products of f32 matrices as users call them, against every library that the machine has.

MKL through torch.mm, oneDNN through PyTorch's fused linear layer, OpenBLAS of NumPy's wheel, and
BLIS and OpenBLAS where Debian's packages are installed. `linear` multiplies by a weight, columns x
depth; `linear_gelu` adds bias and GELU. The ceiling is the peak of multiply-adds in registers.
Sizes are rows x depth x columns.
"""

import contextlib
import ctypes
import ctypes.util
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pto.torch  # noqa: F401 registers torch.ops.pto
import torch
from torch.nn import functional as F

from bench.peak import Peak
from bench.runner import Ceiling, Expected, Setting, case

SQUARE = (16, 32, 48, 64, 96, 128, 256, 512, 1024, 2048)
ODD = [(97, 101, 103), (333, 1001, 515), (1000, 999, 1013)]
MODEL = [(128, 384, 1536), (512, 1536, 384), (4096, 384, 384)]
SKINNY = [(m, k, n) for k, n in ((4096, 4096), (1024, 1024)) for m in (1, 4, 16)]

ROW_MAJOR, PLAIN, TURNED = 101, 111, 112  # of CBLAS


class Library:
    """A CBLAS library found on the machine."""

    def __init__(self, name: str, set_threads: str) -> None:
        self._library = ctypes.CDLL(ctypes.util.find_library(name))
        self._threads = getattr(self._library, set_threads)
        pointer, size, real = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
        self._sgemm = self._library.cblas_sgemm
        matrix = [pointer, size]
        self._sgemm.argtypes = [size] * 6 + [real, *matrix, *matrix, real, *matrix]

    def contender(self, a: torch.Tensor, b: torch.Tensor, threads: int) -> Callable:
        (m, k), n = a.shape, b.shape[1]
        out = a.new_empty(m, n)
        left, right, result = a.data_ptr(), b.data_ptr(), out.data_ptr()
        kind, stride = (PLAIN, n) if b.is_contiguous() else (TURNED, k)

        def run():
            self._sgemm(
                ROW_MAJOR, PLAIN, kind, m, n, k, 1, left, k, right, stride, 0, result, n
            )  # fmt: skip
            return out

        self._threads(threads)
        return run


@cache
def libraries() -> dict[str, Library]:
    found = {}
    setters = {"openblas": "openblas_set_num_threads", "blis": "bli_thread_set_num_threads"}
    for name, threads in setters.items():
        with contextlib.suppress(OSError, TypeError, AttributeError):
            found[name] = Library(name, threads)
    return found


def set_numpy_threads(count: int) -> None:
    """Of the OpenBLAS in NumPy's wheel; a NumPy of another kind keeps its own number."""
    folder = Path(np.__file__).parent.with_name("numpy.libs")
    for path in folder.glob("libscipy_openblas*"):
        ctypes.CDLL(str(path)).scipy_openblas_set_num_threads64_(count)


def peers(a: torch.Tensor, b: torch.Tensor, threads: int) -> Iterator[tuple[str, Callable]]:
    yield "mkl", lambda: torch.mm(a, b)
    linear, weight = torch.ops.mkldnn._linear_pointwise, b.t()
    yield "onednn", lambda: linear(a, weight, None, "none", [], "")
    x, y = a.numpy(), b.numpy()
    set_numpy_threads(threads)
    yield "numpy", lambda: x @ y
    for name, library in libraries().items():
        yield name, library.contender(a, b, threads)


def product(setting: Setting, is_weight: bool = False):
    m, k, n = setting.size
    a, weight = torch.randn(m, k), torch.randn(n, k)
    b = weight.t() if is_weight else weight.t().contiguous()
    peak = Peak(setting.threads)
    if is_weight:
        yield "pto", lambda: torch.ops.pto.matmul(a, weight, transpose_b=True)
        yield "packed", lambda: torch.ops.pto.linear(a, weight)  # by itself, at its second call
    else:
        yield "pto", lambda: torch.ops.pto.matmul(a, b)
    yield from peers(a, b, setting.threads)
    yield Ceiling("peak", peak, m * k * n / peak.multiply_adds)
    yield Expected(
        lambda rows: a[rows].double() @ b.double(),
        tolerance=1e-6 * k,
    )


def followed(setting: Setting):
    """A layer with GELU: in one pass, by two kernels, by PyTorch; the ceiling is the product."""
    m, k, n = setting.size
    a, weight, bias = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
    ops = torch.ops.pto
    yield "pto", lambda: ops.linear(a, weight, bias, activation="gelu")
    yield "apart", lambda: ops.bias_gelu(ops.linear(a, weight), bias)
    yield "torch", lambda: F.gelu(F.linear(a, weight, bias))
    yield Ceiling("product", lambda: ops.linear(a, weight), 1)
    want = weight.double().t()
    yield Expected(lambda rows: F.gelu(a[rows].double() @ want + bias.double()), tolerance=1e-6 * k)


SIZES = [(n, n, n) for n in SQUARE] + ODD + MODEL
case("gemm", sizes=SIZES, dtypes=["f32"])(product)
case("few_rows", sizes=SKINNY, dtypes=["f32"])(product)
case("linear", sizes=MODEL + SKINNY, dtypes=["f32"])(lambda setting: product(setting, True))
case("linear_gelu", sizes=[(128, 1536, 384), (512, 384, 1536)], dtypes=["f32"])(followed)
