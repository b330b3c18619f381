# SPDX-License-Identifier: Apache-2.0
"""The sizes of one call: those of its arguments, and bounds of those that come from data.

    sizes = Sizes({0: 4096})
    sizes.most(s0 * 4)             # 16384
    sizes.most(s7)                 # at most this many; None: nothing limits it before the call

Thread safety: none; one plan owns it.
"""

from typing import Any

from pto import _core

_ITEM = {row.name: row.bytes for row in _core.dtypes()}
_CONSTANT, _SYMBOL, _ADD, _SUB, _MUL, _QUOTIENT, _MIN, _MAX = 0, 1, 2, 3, 4, 5, 7, 8


def bytes_of(kind: tuple) -> Any:
    """The bytes of a tensor of this (dtype, shape): an int or a size program."""
    total: Any = _ITEM[kind[0]]
    for size in kind[1]:
        total = size * total
    return total


def type_text(kind: tuple) -> str:
    """The text of a (dtype, shape): "f32[s0, 8]"."""
    return f"{kind[0]}[{', '.join(map(str, kind[1]))}]"


class Sizes:
    """Values of sizes, by the number of their symbol."""

    def __init__(self, known: dict[int, int]):
        self.known = known
        self.bounds: dict[int, int] = {}  # of sizes from data
        self.unbounded: dict[int, str] = {}  # the others, with their line
        self._blocks: dict[int, tuple[list[dict], tuple[int, dict] | None]] = {}

    def learn(self, block: int, nodes: list[dict], owner: tuple[int, dict] | None) -> None:
        """Takes the sizes that a block defines. `owner`: the block and node whose body it is."""
        self._blocks[block] = nodes, owner
        for node in nodes:
            if node["op"] != "size":
                continue
            fixed = self._number(block, node["operands"][0], True)
            if fixed is not None:  # the arguments say it
                self.known[node["size"].value] = fixed
                continue
            bound = self._number(block, node["operands"][0])
            if bound is None:
                self.unbounded[node["size"].value] = node["lines"][0] if node["lines"] else ""
            else:
                self.bounds[node["size"].value] = max(0, bound)

    def where(self, data: dict[int, int]) -> "Sizes":
        """The same for one execution, whose sizes from data are known."""
        return Sizes(self.known | data)

    def most(self, size: Any) -> int | None:
        """The value of a size, or the least known bound."""
        if isinstance(size, int):
            return size
        symbols = symbols_of(size)
        if symbols <= self.known.keys():
            return self.exact(size)
        if size.op == _SYMBOL:
            return self.bounds.get(size.value)
        if size.op in (_SUB, _QUOTIENT):  # by what is not negative, and not 0
            return self._less(size)
        if size.op not in (_ADD, _MUL, _MIN, _MAX):
            return None
        a, b = self.most(size.left), self.most(size.right)
        if size.op == _MIN:
            return min((one for one in (a, b) if one is not None), default=None)
        if a is None or b is None:
            return None
        return a + b if size.op == _ADD else a * b if size.op == _MUL else max(a, b)

    def _less(self, size: Any) -> int | None:
        of, by = self.most(size.left), self.exact(size.right)
        if of is None or by is None:
            return of
        return of - by if size.op == _SUB else of // by if by > 0 else None

    def exact(self, size: Any) -> int | None:
        """The value of a size that the arguments give; None for one from data."""
        if isinstance(size, int):
            return size
        if not symbols_of(size) <= self.known.keys():
            return None
        values = [self.known.get(i, 0) for i in range(max(self.known, default=-1) + 1)]
        return size.evaluate(values)

    def _number(self, block: int, value: int, exactly: bool = False) -> int | None:
        """The largest value that a whole number of the program can have; or its only one."""
        nodes, owner = self._blocks[block]
        node = nodes[value]
        op, of = node["op"], node["operands"]
        if op == "constant":
            return node["value"] if isinstance(node["value"], int) else None
        if op == "extent":
            return self.exact(node["size"]) if exactly else self.most(node["size"])
        if op == "size" or op == "reshape":
            return self._number(block, of[0], exactly)
        if op in ("minimum", "maximum") and not exactly:
            found = [self._number(block, one) for one in of]
            known = [one for one in found if one is not None]
            if op == "minimum":
                return min(known, default=None)
            return max(known) if len(known) == 2 else None
        if op == "mul" and not exactly and "extent" in [nodes[one]["op"] for one in of]:
            found = [self._number(block, one) for one in of]  # a size is not negative
            return None if None in found else max(0, found[0]) * max(0, found[1])
        if node["form"] == "parameter" and owner is not None:
            place = _outer(nodes, value, owner[1])
            return None if place is None else self._number(owner[0], place, exactly)
        return None

    def trips(self, block: int, nodes: list[dict], loop: dict) -> int | None:
        """How often a loop runs, where the arguments' sizes say so."""
        start, stop, step = (self._number(block, v, True) for v in loop["operands"][:3])
        if start is None or stop is None or not step:
            return None
        return len(range(start, stop, step))


def _outer(nodes: list[dict], value: int, node: dict) -> int | None:
    """The operand of a node that an input of its body is, where no iteration changes it."""
    at = [v for v, one in enumerate(nodes) if one["form"] == "parameter"].index(value)
    outputs = len(node["bodies"][-1].outputs)
    first, ahead = {"loop": (1, 2), "repeat": (0, 0)}.get(node["op"], (0, 1))
    changes = node["op"] != "branch" and at < first + outputs
    return None if changes else node["operands"][at + ahead]


def symbols_of(size: Any) -> set[int]:
    """The numbers of the symbols of a size."""
    if isinstance(size, int) or size.op == _CONSTANT:
        return set()
    if size.op == _SYMBOL:
        return {size.value}
    return symbols_of(size.left) | symbols_of(size.right)
