# SPDX-License-Identifier: Apache-2.0
"""DLPack for npu tensors: PyTorch knows the extra backend only by the name it had before."""

import functools
from typing import Any

import torch
from torch.utils.dlpack import DLDeviceType


def register() -> None:
    """Teaches torch.Tensor that npu is DLPack's device for extensions."""
    device_of, export = torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__

    @functools.wraps(device_of)
    def __dlpack_device__(self: torch.Tensor) -> tuple[Any, int]:
        if self.device.type == "npu":
            return DLDeviceType.kDLExtDev, self.device.index
        return device_of(self)

    @functools.wraps(export)
    def __dlpack__(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "npu":  # the consumer knows nothing of our streams
            torch.npu.synchronize(self.device)
        return export(self, *args, **kwargs)

    torch.Tensor.__dlpack_device__ = __dlpack_device__
    torch.Tensor.__dlpack__ = __dlpack__
