# SPDX-License-Identifier: Apache-2.0
"""Argument: one argument of an operator's schema, as the definition and the adapters see it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Argument:
    """One argument of a schema; `kind` is Tensor, Tensor[], int, SymInt, float, bool, str, int[].

    `text` is the type as the schema spells it, `type` the variable of a tensor's element type.
    """

    name: str
    kind: str
    optional: bool
    mutable: bool
    keyword_only: bool
    list_size: int
    has_default: bool
    default: Any
    type: int
    text: str

    @property
    def is_tensor(self) -> bool:
        return self.kind.startswith("Tensor")

    @property
    def is_optional_tensor(self) -> bool:
        return self.is_tensor and self.optional

    def __str__(self) -> str:
        return f"{self.text} {self.name}" + (f"={self.default!r}" if self.has_default else "")
