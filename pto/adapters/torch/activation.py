# SPDX-License-Identifier: Apache-2.0
"""Makes PyTorch's PrivateUse1 backend the npu device, once per process."""

import ctypes
import importlib
import importlib.util
import sys
from typing import Any

import torch
from pto.adapters.torch import build
from pto.errors import Failure

_library: ctypes.CDLL | None = None


def obstacle() -> str | None:
    """Why another backend has, or would take, the place of ours; None where the place is free."""
    if _library is not None:
        return None
    if "torch_npu" in sys.modules or importlib.util.find_spec("torch_npu") is not None:
        return "torch_npu is installed and provides the device npu itself"
    taken = torch._C._get_privateuse1_backend_name()
    return None if taken == "privateuseone" else f"the device {taken} has PyTorch's extra backend"


def is_active() -> bool:
    """True where the device exists."""
    return _library is not None


def library() -> Any:
    """The C functions of the device."""
    assert _library is not None
    return _library


def activate() -> None:
    """Loads the device and names it npu. Raises Failure where it is not built or has no place."""
    global _library
    if _library is not None:
        return
    if reason := obstacle():
        raise Failure(
            f"the npu device cannot be used: {reason}",
            "PyTorch has one place for an extra device, and a process one device named npu",
            "uninstall the other, or use the operators on cpu tensors (import pto.torch)",
        )
    path = build.built(build.NPU)
    if path is None:
        raise Failure(
            "the npu device is not built for this PyTorch",
            f"it needs the headers of PyTorch {torch.__version__}, and is built on this machine",
            "python -m pto adapters build torch",
        )
    loaded = _load(path)
    torch.utils.rename_privateuse1_backend("npu")
    _library = loaded
    torch._register_device_module("npu", importlib.import_module("pto.adapters.torch.npu.module"))
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    for part in ("exchange", "dynamo"):
        importlib.import_module(f"pto.adapters.torch.npu.{part}").register()
    sys.modules["pto.torch.npu"] = sys.modules["torch.npu"] = torch.npu


def _load(path: Any) -> ctypes.CDLL:
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.pto_npu_load.restype = ctypes.c_char_p
        loaded.pto_npu_fallbacks.restype = ctypes.c_char_p
        error = loaded.pto_npu_load()
    except (OSError, AttributeError) as problem:
        raise Failure(
            f"the npu device cannot be loaded: {problem}",
            "the file was built for this PyTorch but is damaged",
            f"remove {path} and run: python -m pto adapters build torch",
        ) from None
    if error:
        raise Failure(
            f"the npu device cannot be used: {error.decode()}",
            "PyTorch refused its kernels, or a variable of the environment is malformed",
            "correct what it names",
        )
    return loaded
