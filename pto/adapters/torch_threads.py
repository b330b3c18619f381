# SPDX-License-Identifier: Apache-2.0
"""Threads inside PyTorch: kernels respect its setting and run on its pool.

@pto.jit loads this part of the PyTorch adapter alone for calls on torch tensors: it declares no
operators. torch must be imported before. Thread safety: any thread may call.
"""

import ctypes
import functools
import sys

from pto import _core
from pto.adapters.build import LIBRARIES
from pto.errors import Failure

# PyTorch's pool, not ours: its workers spin after each of its own loops and would fight for the
# cores. docs/why.md has the measurements.
HOST_POOL = True


@functools.cache
def library() -> ctypes.CDLL:
    """The adapter's prebuilt library. Raises Failure where this PyTorch lacks what it needs."""
    try:
        return ctypes.CDLL(str(LIBRARIES / "libpto_torch.so"))
    except OSError as error:
        raise Failure(
            f"the PyTorch adapter cannot be loaded: {error}",
            f"it is built for PyTorch 2.13; this is {sys.modules['torch'].__version__}",
            "install torch 2.13, or build the project again",
        ) from None


def use_host_pool(yes: bool) -> None:
    """Runs kernels on PyTorch's own threads (the default), or on ours.

    torch.set_num_threads() counts in both.
    """
    library().pto_torch_use_host_pool(int(yes))
    run = address_of("parallel") if yes else 0
    _core.set_torch_executor(run, address_of("threads"), address_of("plain"))


def address_of(what: str, part: ctypes.CDLL | None = None) -> int:
    """The address of a function of a part, else of the library, which has "run", "plain",
    "parallel" and "threads"."""
    function = (part or library())[f"pto_torch_{what}_address"]
    function.restype = ctypes.c_void_p
    return function()


def _keys() -> tuple[int, int]:
    """The bits by which the thread's dispatch keys differ from PyTorch's: included, excluded."""
    included, excluded = ctypes.c_uint64(), ctypes.c_uint64()
    library().pto_torch_keys(ctypes.byref(included), ctypes.byref(excluded))
    return included.value, excluded.value


def _ignore_inference_mode() -> None:
    """Lets a call in inference mode count as plain: only gradients differ there."""
    torch = sys.modules["torch"]
    with torch.inference_mode():
        on = _keys()
        with torch.inference_mode(False):
            off = _keys()
    bits = [ctypes.c_uint64(a ^ b) for a, b in zip(on, off, strict=True)]
    library().pto_torch_ignore_keys(*bits)


_ignore_inference_mode()
use_host_pool(HOST_POOL)
