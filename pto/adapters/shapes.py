# SPDX-License-Identifier: Apache-2.0
"""Shapes: sizes of an operator's outputs as expressions, evaluated with any type of sizes.

    shapes = record.shapes([("f32", 2), ("f32", 1)], [])
    shapes.evaluate([4, 3, 3], Concrete("add"))     # [("f32", (4, 3))]

Symbols are the sizes of all axes of all given tensors in order, then the SymInt attributes.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from pto import _core
from pto.errors import InvalidValue

Dim = _core.Dim
_STEPS = (None, None, "add", "sub", "mul", "floordiv", "mod", "min", "max", "broadcast")


class Concrete:
    """Arithmetic on ints; `name` of the operator is for its errors. A model for other types."""

    def __init__(self, name: str):
        self.name = name

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def sub(self, a: Any, b: Any) -> Any:
        return a - b

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def floordiv(self, a: Any, b: Any) -> Any:
        return a // b

    def mod(self, a: Any, b: Any) -> Any:
        return a % b

    def min(self, a: Any, b: Any) -> Any:
        return min(a, b)

    def max(self, a: Any, b: Any) -> Any:
        return max(a, b)

    def broadcast(self, a: Any, b: Any) -> Any:
        if a != b and 1 not in (a, b):
            self.refuse(a, b, "broadcasting")
        return b if a == 1 else a

    def require_equal(self, a: Any, b: Any, because: str) -> None:
        if a != b:
            self.refuse(a, b, because)

    def refuse(self, a: Any, b: Any, because: str) -> None:
        raise InvalidValue(*mismatch(self.name, a, b, because))


def mismatch(name: str, a: Any, b: Any, because: str) -> tuple[str, str, str]:
    """What, why and fix of two sizes that differ."""
    if b == 1 and because.startswith(("amax", "amin", "argmax", "argmin")):
        return (
            f"{name}: {because} over an axis of size 0",
            "there is no largest or smallest of no elements",
            "pass a tensor that has elements along the reduced axes, or skip an empty one",
        )
    return (
        f"{name}: sizes {a} and {b} differ in {because}",
        "the operator needs them to be equal",
        "pass tensors whose shapes fit; those that broadcast have equal sizes, or 1",
    )


class Shapes:
    """`outputs`: for each one (dtype, sizes), or a list of them; `guards`: (a, b, because)."""

    def __init__(self, record: Any, outputs: list, guards: list):
        self.name = record.name
        self.outputs = [
            members if output.is_list else members[0]
            for members, output in zip(outputs, record.outputs, strict=True)
        ]
        self.guards = guards

    def evaluate(self, symbols: Sequence[Any], arithmetic: Any) -> list:
        """The outputs with their sizes evaluated; guards go to arithmetic.require_equal first."""
        for a, b, because in self.guards:
            left = self._size(a, symbols, arithmetic)
            if not (isinstance(a, Dim) and a.same(b)):
                right = self._size(b, symbols, arithmetic)
                arithmetic.require_equal(left, right, because)

        def known(output: tuple) -> tuple:
            return output[0], tuple(self._size(n, symbols, arithmetic) for n in output[1])

        return [
            [known(member) for member in output] if isinstance(output, list) else known(output)
            for output in self.outputs
        ]

    def _size(self, dim: Any, symbols: Sequence[Any], arithmetic: Any) -> Any:
        if isinstance(dim, int):
            return dim
        if dim.op == 1:
            return symbols[dim.value]
        left = self._size(dim.left, symbols, arithmetic)
        right = self._size(dim.right, symbols, arithmetic)
        step = _STEPS[dim.op]
        if step in ("floordiv", "mod") and isinstance(right, int) and right == 0:
            self._fail(dim, "divides by zero", left, right)
        size = getattr(arithmetic, step)(left, right)
        if isinstance(size, int) and size.bit_length() > 63:
            self._fail(dim, "leaves 64 bits", left, right)
        return size

    def _fail(self, dim: Any, wrong: str, left: Any, right: Any) -> NoReturn:
        raise InvalidValue(
            f"{self.name}: the size {dim} {wrong}: its operands are {left} and {right}",
            "sizes are signed 64-bit numbers, and divisors are not 0",
            "pass tensors of other sizes",
        )
