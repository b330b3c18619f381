# SPDX-License-Identifier: Apache-2.0
"""Evaluates an operator's shapes over sizes that are symbols of a framework.

    shapes = record.shapes([("f32", 2), ("f32", 1)], [])
    shapes.evaluate([4, 3, 3])                  # [("f32", (4, 3))]
    shapes.evaluate([n, 3, 3], Symbolic("add"))

evaluate() takes the sizes of all axes of all given tensors in order, then the SymInt attributes.
base/evaluate_sizes.hpp evaluates, and decides on ints by itself. Thread safety: pure functions.
"""

from typing import Any

from pto import _core


class SymbolicSizes:
    """Decides on two sizes of which at least one is no int; errors begin with `name`, the
    operator's.

    A framework's class adds min(a, b), max(a, b), broadcast(a, b), the size to which both
    broadcast, and require_equal(a, b, because, kind), which raises where they differ.
    """

    def __init__(self, name: str):
        self.name = name

    def mismatch(self, a: Any, b: Any, because: str, kind: int = 0) -> tuple[str, str, str]:
        """What, why and fix of two sizes that differ."""
        what, why, fix = _core.unequal_sizes(str(a), str(b), because, kind)
        return f"{self.name}: {what}", why, fix
