# SPDX-License-Identifier: Apache-2.0
"""Answers what torch.compile's front end asks of a device; loaded with torch._dynamo only."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

_MODULE = "torch._dynamo.device_interface"


def register() -> None:
    """Registers the device with torch._dynamo, now or as soon as that is imported."""
    if _MODULE in sys.modules:
        _register(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _AfterImport())


class _AfterImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module as the others do, and registers the device behind its import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        self.real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.real.exec_module(module)
        _register(module)


def _register(module: Any) -> None:
    class NpuInterface(module.DeviceInterface):
        """Forwards to torch.npu."""

        device = torch.npu.device
        Event, Stream = torch.npu.Event, torch.npu.Stream
        current_device = staticmethod(torch.npu.current_device)
        set_device = staticmethod(torch.npu.set_device)
        device_count = staticmethod(torch.npu.device_count)
        is_available = staticmethod(torch.npu.is_available)
        stream = staticmethod(torch.npu.stream)
        current_stream = staticmethod(torch.npu.current_stream)
        set_stream = staticmethod(torch.npu.set_stream)
        synchronize = staticmethod(torch.npu.synchronize)
        memory_allocated = staticmethod(torch.npu.memory_allocated)
        exchange_device = staticmethod(torch._C._accelerator_exchangeDevice)
        maybe_exchange_device = staticmethod(torch._C._accelerator_maybeExchangeDevice)

        class Worker:
            current_device = staticmethod(torch.npu.current_device)
            set_device = staticmethod(torch.npu.set_device)
            get_device_properties = staticmethod(torch.npu.get_device_properties)

        @staticmethod
        def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
            stream = torch.npu.Stream(
                stream_id=stream_id, device_index=device_index, device_type=device_type
            )
            torch.npu.set_stream(stream)

        @staticmethod
        def get_raw_stream(device_idx: int) -> int:
            return torch.npu.current_stream(device_idx).stream_id

        @staticmethod
        def get_compute_capability(device: Any = None) -> str:
            return ""

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            return True

        @staticmethod
        def is_triton_capable(device: Any = None) -> bool:
            return False

    module.register_interface_for_device("npu", NpuInterface)
    for index in range(torch.npu.device_count()):
        module.register_interface_for_device(f"npu:{index}", NpuInterface)
