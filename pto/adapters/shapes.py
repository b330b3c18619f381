# SPDX-License-Identifier: Apache-2.0
"""Sizes that are symbols of a framework, for the evaluation of an operator's shapes.

    shapes = record.shapes([("f32", 2), ("f32", 1)], [])
    shapes.evaluate([4, 3, 3])                  # [("f32", (4, 3))]
    shapes.evaluate([n, 3, 3], Symbolic("add"))

Symbols are the sizes of all axes of all given tensors in order, then the SymInt attributes. The
evaluation itself, and what ints become, is base/evaluate_sizes.hpp.
"""

from typing import Any

from pto import _core


class SymbolicSizes:
    """What becomes of two sizes of which one is no int. `name` of the operator is for errors."""

    def __init__(self, name: str):
        self.name = name

    def min(self, a: Any, b: Any) -> Any:
        """The smaller one."""
        raise NotImplementedError

    def max(self, a: Any, b: Any) -> Any:
        """The larger one."""
        raise NotImplementedError

    def broadcast(self, a: Any, b: Any) -> Any:
        """The size to which both broadcast."""
        raise NotImplementedError

    def require_equal(self, a: Any, b: Any, because: str, kind: int) -> None:
        """Raises, at once or when the sizes are known, where they differ."""
        raise NotImplementedError

    def mismatch(self, a: Any, b: Any, because: str, kind: int = 0) -> tuple[str, str, str]:
        """What, why and fix of two sizes that differ."""
        what, why, fix = _core.unequal_sizes(str(a), str(b), because, kind)
        return f"{self.name}: {what}", why, fix
