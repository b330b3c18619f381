# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on sizes of JAX: ints, and the symbolic dimensions of jax.export."""

from typing import Any

import jax
from pto.adapters.shapes import SymbolicSizes
from pto.errors import InvalidValue


class Sizes(SymbolicSizes):
    """Decides on symbolic dimensions, which it takes not to be 1, as jax.numpy does.

    Raises InvalidValue for sizes that are not known to be equal.
    """

    def min(self, a: Any, b: Any) -> Any:
        return jax.core.min_dim(a, b)

    def max(self, a: Any, b: Any) -> Any:
        return jax.core.max_dim(a, b)

    def broadcast(self, a: Any, b: Any) -> Any:
        if 1 not in (a, b):
            self.require_equal(a, b, "broadcasting", 0)
        return b if a == 1 else a

    def require_equal(self, a: Any, b: Any, because: str, kind: int) -> None:
        if a == b:
            return
        raise InvalidValue(
            f"{self.name}: sizes {a} and {b} are not known to be equal in {because}",
            "a symbolic size stands for every number that its constraints allow",
            f"use one name for both, or state it: jax.export.symbolic_shape(..., "
            f"constraints=['{a} == {b}'])",
        )
