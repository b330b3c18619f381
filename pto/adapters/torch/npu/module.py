# SPDX-License-Identifier: Apache-2.0
"""torch.npu: devices, streams, memory, random numbers, and which operators fell back to the CPU.

    with torch.npu.device(1), torch.npu.stream(torch.npu.Stream()):
        y = x @ x                        # runs on the stream's thread
    torch.npu.synchronize(1)

Functions are those of torch.cuda of the same names. `device` is a number, "npu:1" or a
torch.device; None is the current one. Errors: Failure for a device that does not exist. Thread
safety: any thread may call; the current device and stream belong to the thread.
"""

import ctypes
import importlib
import os
import platform
from typing import Any, NamedTuple

import torch
from pto.adapters.torch.device_library import functions
from pto.adapters.torch.npu import amp as amp
from pto.errors import Failure, InvalidType
from torch import Event
from torch.accelerator import memory as _memory

__all__ = [
    "DeviceProperties", "Event", "Stream", "StreamContext", "amp", "current_device",
    "current_stream", "default_generators", "default_stream", "device", "device_count",
    "device_of", "empty_cache", "fallbacks", "get_amp_supported_dtype", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "initial_seed", "is_available", "is_bf16_supported", "is_checked", "is_initialized",
    "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_fallbacks", "reset_peak_memory_stats", "seed", "seed_all", "set_device",
    "set_rng_state", "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip

_Device = torch.device | str | int | None


def _index(device: _Device) -> int:
    """The number of a device; the current one where none is named.

    Raises ValueError for a device of another type, Failure for one that does not exist.
    """
    if isinstance(device, str | torch.device):
        device = torch.device(device)
        if device.type != "npu":
            raise ValueError(f"device {device} is not an npu: pass npu:0 or a number")
        device = device.index
    index, count = current_device() if device is None else device, device_count()
    if not 0 <= index < count:
        raise Failure(
            f"npu:{index} does not exist",
            f"there are {count} npu devices, npu:0 to npu:{count - 1}",
            "use one of them, or set PTO_NPU_DEVICES before the start",
        )
    return index


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    return False  # a child of fork() has streams of its own


def is_checked() -> bool:
    """True where PTO_NPU_CHECKED=1: what touches device memory outside a kernel crashes."""
    return bool(functions().pto_npu_is_checked())


def device_count() -> int:
    """The number of npu devices: PTO_NPU_DEVICES, or 2."""
    return functions().pto_npu_device_count()


def current_device() -> int:
    return torch._C._accelerator_getDeviceIndex()


def set_device(device: _Device) -> None:
    """Makes a device current for this thread."""
    torch._C._accelerator_setDeviceIndex(_index(device))


class device:  # noqa: N801 PyTorch's name
    """Makes a device current in a `with` block; None and negative numbers do nothing."""

    def __init__(self, device: _Device):
        is_none = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if is_none else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> "device":
        if self.idx >= 0:
            self.prev_idx = torch._C._accelerator_exchangeDevice(self.idx)
        return self

    def __exit__(self, *_: object) -> None:
        if self.idx >= 0:
            torch._C._accelerator_exchangeDevice(self.prev_idx)


class device_of(device):  # noqa: N801 PyTorch's name
    """Makes the device of a tensor current; nothing where it is not an npu tensor."""

    def __init__(self, tensor: torch.Tensor):
        super().__init__(tensor.device if tensor.device.type == "npu" else None)


class DeviceProperties(NamedTuple):
    name: str
    total_memory: int
    multi_processor_count: int
    major: int
    minor: int


def get_device_properties(device: _Device = None) -> DeviceProperties:
    """The host's cores and memory, which are the device's."""
    _, total = mem_get_info(device)
    return DeviceProperties(get_device_name(device), total, os.cpu_count() or 1, 1, 0)


def get_device_name(device: _Device = None) -> str:
    return f"OpenPTO npu:{_index(device)} on {platform.processor() or platform.machine()}"


def get_device_capability(device: _Device = None) -> dict[str, Any]:
    return torch.accelerator.get_device_capability(_index(device))


def synchronize(device: _Device = None) -> None:
    """Waits for all streams of a device; raises what one of their kernels raised."""
    torch.accelerator.synchronize(_index(device))


class Stream(torch.Stream):
    """A stream of an npu device; one of its pool where no number is given."""

    @property
    def npu_stream(self) -> int:
        """The stream as an aclrtStream of C."""
        return self.native_handle

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """The same, as ctypes passes it."""
        return ctypes.c_void_p(self.native_handle)


def _numbered_stream(number: int, device: int) -> Stream:
    kind = int(torch._C._autograd.DeviceType.PrivateUse1)
    return Stream(stream_id=number, device_index=device, device_type=kind)


def current_stream(device: _Device = None) -> Stream:
    index = _index(device)
    return _numbered_stream(torch.accelerator.current_stream(index).stream_id, index)


def default_stream(device: _Device = None) -> Stream:
    return _numbered_stream(0, _index(device))


def set_stream(stream: Stream) -> None:
    """Makes a stream current on its device, and its device current."""
    torch.accelerator.set_stream(stream)


class StreamContext:
    """Makes a stream current in a `with` block; None does nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> "StreamContext":
        if self.stream is not None:
            self._device = current_device()
            self._before = current_stream(self.stream.device)
            torch.accelerator.set_stream(self.stream)
        return self

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            torch.accelerator.set_stream(self._before)
            torch._C._accelerator_setDeviceIndex(self._device)


def stream(stream: Stream | None) -> StreamContext:
    if stream is not None and not isinstance(stream, torch.Stream):
        raise InvalidType(
            f"torch.npu.stream: {stream!r:.60} is of type {type(stream).__name__}",
            "the work of a block goes to a stream of a device",
            "pass a torch.npu.Stream(), or None for the current one",
        )
    return StreamContext(stream)


def empty_cache() -> None:
    """Gives memory that no tensor holds back to the system."""
    _memory.empty_cache()


def memory_stats(device: _Device = None) -> dict[str, Any]:
    return _memory.memory_stats(_index(device))


def memory_allocated(device: _Device = None) -> int:
    """Bytes that tensors of the device hold."""
    return _memory.memory_allocated(_index(device))


def max_memory_allocated(device: _Device = None) -> int:
    return _memory.max_memory_allocated(_index(device))


def memory_reserved(device: _Device = None) -> int:
    return _memory.memory_reserved(_index(device))


def max_memory_reserved(device: _Device = None) -> int:
    return _memory.max_memory_reserved(_index(device))


def reset_peak_memory_stats(device: _Device = None) -> None:
    _memory.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: _Device = None) -> None:
    _memory.reset_accumulated_memory_stats(_index(device))


def mem_get_info(device: _Device = None) -> tuple[int, int]:
    """Free and total bytes of the host."""
    return _memory.get_memory_info(_index(device))


default_generators = tuple(map(torch.ops.pto_npu.default_generator, range(device_count())))


def manual_seed(seed: int) -> None:
    """Seeds the current device, which then draws the CPU's random numbers of this seed."""
    default_generators[current_device()].manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> int:
    return default_generators[current_device()].seed()


def seed_all() -> None:
    manual_seed_all(default_generators[0].seed())


def initial_seed() -> int:
    return default_generators[current_device()].initial_seed()


def get_rng_state(device: _Device = None) -> torch.Tensor:
    return default_generators[_index(device)].get_state()


def set_rng_state(new_state: torch.Tensor, device: _Device = None) -> None:
    default_generators[_index(device)].set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def is_bf16_supported() -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def fallbacks() -> dict[str, int]:
    """Operators without a kernel of ours that ran on the CPU's, with the number of calls."""
    lines = functions().pto_npu_fallbacks().decode().splitlines()
    return {name: int(calls) for name, calls in (line.rsplit(" ", 1) for line in lines)}


def reset_fallbacks() -> None:
    functions().pto_npu_reset_fallbacks()


# PyTorch asks for these when it compiles; they are loaded then.
_INDUCTOR = (
    "CppWrapperCodegen", "PythonWrapperCodegen", "Scheduling", "WrapperFxCodegen", "run_kernel",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _INDUCTOR:
        return getattr(importlib.import_module("pto.adapters.torch.npu.inductor"), name)
    raise AttributeError(f"module 'torch.npu' has no attribute {name!r}")
