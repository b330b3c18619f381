# SPDX-License-Identifier: Apache-2.0
"""Makes PyTorch's PrivateUse1 backend the npu device, once per process.

Thread safety: as of an import; one thread activates.
"""

import ctypes
import importlib.util
import sys

import torch
from pto import build_config
from pto.adapters import build as adapter_libraries
from pto.adapters.torch import build, device_library
from pto.adapters.torch_threads import library
from pto.errors import Failure


def obstacle() -> str | None:
    """Why another backend has, or would take, the place of ours; None where the place is free."""
    if is_active():
        return None
    if _is_foreign("torch_npu"):
        return "torch_npu is installed and provides the device npu itself"
    taken = torch._C._get_privateuse1_backend_name()
    return None if taken == "privateuseone" else f"the device {taken} has PyTorch's extra backend"


def _is_foreign(name: str) -> bool:
    """True if another package than compat/ has a module of this name."""
    found = sys.modules.get(name) or importlib.util.find_spec(name)
    place = getattr(found, "__file__", None) or getattr(found, "origin", None)
    return found is not None and not str(place).startswith(build_config.compat_dir())


def is_active() -> bool:
    """True where the device exists."""
    return device_library.loaded is not None


def activate() -> None:
    """Loads the device and names it npu. Raises Failure where it is not built or has no place."""
    if is_active():
        return
    if reason := obstacle():
        raise Failure(
            f"the npu device cannot be used: {reason}",
            "PyTorch has one place for an extra device, and a process one device named npu",
            "uninstall the other, or use the operators on cpu tensors (import pto.torch)",
        )
    loaded = adapter_libraries.load(build.NPU)
    if loaded is None:
        raise Failure(
            "the npu device is not built for this PyTorch",
            f"it needs the headers of PyTorch {torch.__version__}, and is built on this machine",
            "python -m pto adapters build torch",
        )
    _start(loaded)
    torch.utils.rename_privateuse1_backend("npu")
    device_library.loaded = loaded
    from pto.adapters.torch.npu import dynamo, exchange, module, sharing

    torch._register_device_module("npu", module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    for part in (exchange, dynamo, sharing):
        part.register()
    sys.modules["pto.torch.npu"] = sys.modules["torch.npu"] = torch.npu


def activate_if_possible() -> None:
    """Makes the device where it is built and no other backend has its place.

    Raises Failure for a damaged library.
    """
    if obstacle() is None and adapter_libraries.built(build.NPU) is not None:
        activate()


def _start(loaded: ctypes.CDLL) -> None:
    loaded.pto_npu_load.restype = ctypes.c_char_p
    loaded.pto_npu_fallbacks.restype = ctypes.c_char_p
    if error := loaded.pto_npu_load():
        raise Failure(
            f"the npu device cannot be used: {error.decode()}",
            "PyTorch refused its kernels, or a variable of the environment is malformed",
            "correct what it names",
        )
    loaded.pto_npu_device_runner.restype = ctypes.c_void_p
    library().pto_torch_set_device_runner(ctypes.c_void_p(loaded.pto_npu_device_runner()))
