# SPDX-License-Identifier: Apache-2.0
"""torch.npu.amp: autocast and gradient scaling on npu devices."""

from typing import Any

import torch

__all__ = ["GradScaler", "autocast"]


class autocast(torch.amp.autocast):  # noqa: N801 PyTorch's name
    """torch.autocast("npu", ...)."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True
    ):
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("npu", ...)."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("npu", *args, **kwargs)
