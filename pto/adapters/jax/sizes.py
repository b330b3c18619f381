# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on sizes of JAX: ints, and the symbolic dimensions of jax.export."""

from typing import Any

import jax
from pto.errors import InvalidValue


class Sizes:
    """What shape programs ask for (pto/adapters/shapes.py), for the operator with this name."""

    def __init__(self, name: str):
        self.name = name

    add = staticmethod(lambda a, b: a + b)
    sub = staticmethod(lambda a, b: a - b)
    mul = staticmethod(lambda a, b: a * b)
    floordiv = staticmethod(lambda a, b: a // b)
    mod = staticmethod(lambda a, b: a % b)
    min = staticmethod(jax.core.min_dim)
    max = staticmethod(jax.core.max_dim)

    def broadcast(self, a: Any, b: Any) -> Any:
        """As jax.numpy: a symbolic size is taken to be another one than 1."""
        if a == 1:
            return b
        if b != 1:
            self.require_equal(a, b, "broadcast")
        return a

    def require_equal(self, a: Any, b: Any, because: str) -> None:
        if a == b:
            return
        if isinstance(a, int) and isinstance(b, int):
            raise InvalidValue(
                f"{self.name}: sizes {a} and {b} differ in {because}",
                "shapes broadcast: sizes are equal or one of them is 1",
                "pass arrays whose shapes broadcast",
            )
        raise InvalidValue(
            f"{self.name}: sizes {a} and {b} are not known to be equal in {because}",
            "a symbolic size stands for every number that its constraints allow",
            f"use one name for both, or state it: jax.export.symbolic_shape(..., "
            f"constraints=['{a} == {b}'])",
        )
