# SPDX-License-Identifier: Apache-2.0
"""The hand-fused C++ reference, compiled when the benches start and run on PyTorch's own pool.

    run = Reference().contender("softmax", x, out=out, threads=2, stream=False)
    run()                                   # fills `out` and returns it

Its kernels share blocks, threads and output buffers with the compiled ones, so that a ratio says
something about code and nothing about allocation or thread pools.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path

from bench.shared_library import compiled

KERNELS = ["softmax", "layernorm", "residual_layernorm", "rmsnorm"]
KERNELS += ["bias_gelu", "bias_gelu_tanh", "silu_mul"]
INLINE_BYTES = 256 << 10  # written and read bytes below which one thread is faster than two
BLOCKS_PER_THREAD = 4


class _Job(ctypes.Structure):
    _fields_ = [
        ("parallel", ctypes.c_void_p),
        ("kernel", ctypes.c_int32),
        ("stream", ctypes.c_int32),
        ("blocks", ctypes.c_int32),
        ("eps", ctypes.c_float),
        ("x", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("gain", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
    ]


def libpto() -> Path:
    """The runtime library of this checkout."""
    return Path(__file__).parents[1] / "pto" / "lib" / "libpto.so"


def libpto_torch() -> Path:
    """PyTorch's adapter of this checkout, loaded by pto.torch."""
    return libpto().with_name("libpto_torch.so")


class Reference:
    """The kernels of reference.cpp over torch tensors: f32, contiguous, [rows, columns]."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(compiled("reference.cpp")))
        self._run = library.reference_run
        self._run.argtypes = [ctypes.c_void_p]
        self.place = ctypes.cast(library.reference_place, ctypes.c_void_p).value
        self._adapter = ctypes.CDLL(str(libpto_torch()))
        self._parallel = ctypes.cast(self._adapter.pto_torch_parallel, ctypes.c_void_p).value

    def contender(
        self, kernel: str, x, *, out, y=None, gain=None, bias=None,
        eps: float = 1e-5, threads: int = 1, stream: bool = False,
    ) -> Callable:  # fmt: skip
        """A function that fills `out` and returns it."""
        tensors = {"x": x, "y": y, "gain": gain, "bias": bias, "out": out}
        pointers = {k: None if t is None else t.data_ptr() for k, t in tensors.items()}
        small = x.nbytes + out.nbytes < INLINE_BYTES
        blocks = 1 if small or threads == 1 else threads * BLOCKS_PER_THREAD
        job = _Job(
            self._parallel, KERNELS.index(kernel), stream, blocks, eps,
            rows=x.shape[0], columns=x.shape[1], **pointers,
        )  # fmt: skip
        address, run = ctypes.addressof(job), self._run

        def call():
            if run(address):
                raise ValueError(f"{kernel}: {tuple(x.shape)}: columns are no multiple of 64")
            return out

        call.keeps = (job, *tensors.values())
        return call
