# SPDX-License-Identifier: Apache-2.0
"""Autocast of operators in Python, for where autocast.cpp is not built, by the same rules."""

import functools
from typing import Any

import torch
from pto.adapters.record import Record
from pto.adapters.torch.record import packet, qualified_name
from torch.utils import _pytree as pytree

_LOW, _F32 = 1, 2  # of abi/operator.h
_KEYS = {"cpu": "AutocastCPU", "privateuseone": "AutocastPrivateUse1"}


class AutocastKernel:
    """Casts the arguments of one operator in regions of mixed precision, and calls it."""

    def __init__(self, record: Record, device: str, overload: Any):
        self.record, self.device, self.overload = record, device, overload
        self.key = torch._C.DispatchKeySet(torch._C._dispatch_key_parse(_KEYS[device]))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        record = self.record
        values = dict(zip(record.names, record.bind(args, kwargs), strict=True))
        for variable in range(len(record.types)):
            names = [a.name for a in record.tensors if a.type == variable and not a.mutable]
            to = self._target(pytree.tree_leaves([values[name] for name in names]))
            if to is not None:
                cast = functools.partial(self._cast, to)
                values |= {name: pytree.tree_map(cast, values[name]) for name in names}
        positional, named = record.call(values.values())
        with torch._C._ExcludeDispatchKeyGuard(self.key):
            return self.overload(*positional, **named)

    def _eligible(self, x: Any) -> bool:
        fits = isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64
        return fits and x.device.type == torch.device(self.device).type

    def _target(self, tensors: list[Any]) -> torch.dtype | None:
        """The element type for the arguments of one type variable; None: as they are."""
        kinds = [x.dtype for x in tensors if self._eligible(x)]
        if not kinds or self.record.autocast == _F32:
            return torch.float32 if kinds else None
        if self.record.autocast == _LOW:
            return torch.get_autocast_dtype(torch.device(self.device).type)
        return functools.reduce(torch.promote_types, kinds)

    def _cast(self, to: torch.dtype, x: Any) -> Any:
        return x.to(to) if self._eligible(x) else x


def register(record: Record, library: torch.library.Library) -> None:
    """Gives an operator of PyTorch its kernels for autocast on the CPU and the npu device."""
    overload = packet(record).default
    for device, key in _KEYS.items():
        library.impl(qualified_name(record), AutocastKernel(record, device, overload), key)
