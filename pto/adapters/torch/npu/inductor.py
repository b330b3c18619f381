# SPDX-License-Identifier: Apache-2.0
"""torch.compile: Inductor's C++ kernels on npu memory, in the order of the current stream.

The loops are those that Inductor writes for the CPU; each call waits for the stream, since a kernel
of Inductor runs on the thread that calls it.
"""

from textwrap import dedent
from typing import Any

import torch
from torch._inductor import scheduler, utils
from torch._inductor.codegen import common, cpp, cpp_wrapper_cpu, wrapper, wrapper_fxir
from torch._inductor.virtualized import V

__all__ = ["CppWrapperCodegen", "PythonWrapperCodegen", "Scheduling", "WrapperFxCodegen"]


class Scheduling(cpp.CppScheduling):
    """Fuses and writes loops as for the CPU."""


class PythonWrapperCodegen(wrapper.PythonWrapperCodegen):
    """Calls kernels through run_kernel()."""

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: wrapper.PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> wrapper.PythonWrapperCodegen:
        if is_subgraph:
            return wrapper.PythonWrapperCodegen.create(
                is_subgraph, subgraph_name, parent_wrapper, partition_signatures
            )
        return PythonWrapperCodegen()

    def _generate_kernel_call_helper(
        self, kernel_name: str, call_args: Any, *, device: Any = None, **rest: Any
    ) -> None:
        device = device or V.graph.get_current_device_or_throw()
        if device.type != "npu":
            super()._generate_kernel_call_helper(kernel_name, call_args, device=device, **rest)
            return
        arguments = ", ".join([kernel_name, str(device.index or 0), *call_args])
        self.writeline(f"torch.npu.run_kernel({arguments})")


class CppWrapperCodegen(cpp_wrapper_cpu.CppWrapperCpu):
    """Refused: it would call kernels without waiting for the stream."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "npu: torch.compile was called with cpp_wrapper\n"
            "  why: its calls do not wait for the stream that computes their arguments\n"
            "  fix: set torch._inductor.config.cpp_wrapper = False"
        )


WrapperFxCodegen = wrapper_fxir.WrapperFxCodegen


class _Overrides(common.DeviceOpOverrides):
    """The code that the wrapper writes around kernels."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return dedent(
            f"""
            def {name}(device):
                return torch.npu.current_stream(device).stream_id
            """
        )

    def set_device(self, device_idx: int) -> str:
        return f"torch.npu.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.npu.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.npu.device({device_idx})"

    def cpp_kernel_type(self) -> str:
        return "void*"


def _is_cpu(node: scheduler.BaseSchedulerNode) -> bool:
    device = node.get_device()
    return device is not None and device.type in ("cpu", "npu")


def _current_backend(device_type: str | None = None) -> str:
    return utils.get_current_backend(
        "cpu"
        if (device_type or V.graph.get_current_device_or_throw().type) == "npu"
        else device_type
    )


# Inductor knows by name which devices have loops of the processor, and asks a node in some fusions.
scheduler.BaseSchedulerNode.is_cpu = _is_cpu
common.get_current_backend = scheduler.get_current_backend = _current_backend
common.register_device_op_overrides("npu", _Overrides())
common.register_backend_for_device(
    "npu", Scheduling, PythonWrapperCodegen, CppWrapperCodegen, WrapperFxCodegen
)


def run_kernel(kernel: Any, device: int, *arguments: Any) -> None:
    """A kernel of Inductor on npu tensors; in checked mode they are accessible meanwhile."""
    torch.npu.current_stream(device).synchronize()
    if not torch.npu.is_checked():
        kernel(*arguments)
        return
    tensors = [a for a in arguments if isinstance(a, torch.Tensor) and a.device.type == "npu"]
    torch.ops.pto_npu.open_access(tensors)
    try:
        kernel(*arguments)
    finally:
        torch.ops.pto_npu.close_access(tensors)
