# SPDX-License-Identifier: Apache-2.0
"""Record: what the registry says of an operator, and its arguments sorted for the adapter."""

from typing import Any

import torch
from pto import _core

# Both ways between PyTorch's element types and the names of ours.
DTYPE_NAMES = {
    torch.bool: "bool",
    **{getattr(torch, f"int{bits}"): f"i{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(torch, f"uint{bits}"): f"u{bits}" for bits in (8, 16, 32, 64)},
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


class Record:
    """One operator; see op/operator.h for `gradient`, `saved` and `wanted`."""

    def __init__(self, index: int):
        fields = _core.operator_record(index)
        self.index = index
        self.name: str = fields["name"]
        self.outputs: int = fields["outputs"]
        self.gradient: int = fields["gradient"]
        before = _core.operator_record(index - 1) if index else {"gradient": -1}
        self.is_gradient: bool = before["gradient"] == index
        self.saved: list[int] = fields["saved"]
        self.wanted: list[int] = fields["wanted"]
        arguments = fields["arguments"]
        self.names = [name for name, *_ in arguments]
        self.positional = [name for name, _, keyword_only, *_ in arguments if not keyword_only]
        self.is_tensor = [kind.startswith("Tensor") for _, kind, *_ in arguments]
        self.is_float = [kind == "float" for _, kind, *_ in arguments]
        self.defaults = {name: default for name, *_, default in arguments}

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call in schema order, defaults filled in."""
        given = {**self.defaults, **dict(zip(self.positional, args, strict=False)), **kwargs}
        return [given[name] for name in self.names]
