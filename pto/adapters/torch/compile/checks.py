# SPDX-License-Identifier: Apache-2.0
"""The checks of a compiled graph, torch._check and its like: which values one saw that are wrong.

    operands(node, is_known)      # values to keep until the check has run
    seen(graph, node, names)      # "6 <= 4 is false at [1]"; `names` as those of Values

A check gets the truth alone. Where it fails, both sides of the comparisons behind it are computed
again, from what the run still has. Thread safety: pure functions.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from pto.adapters.torch.compile.in_aten import Values
from torch import fx

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_NOT = ("logical_not", "bitwise_not", "sym_not")
_OF_ALL = {True: ("all", "_is_all_true", "logical_and", "bitwise_and", "and_"),
           False: ("any", "_is_any_true", "logical_or", "bitwise_or", "or_")}  # fmt: skip
_MOVES = ("_local_scalar_dense", "_to_copy", "alias", "clone", "expand", "squeeze", "unsqueeze",
          "view")  # fmt: skip
_CHECKS = ("_assert_scalar", "_assert_async")


def _name(node: Any) -> str:
    target = node.target if isinstance(node, fx.Node) and node.op == "call_function" else None
    packet = getattr(target, "overloadpacket", target)
    return getattr(packet, "__name__", "")


def is_check(node: fx.Node) -> bool:
    return _name(node) in _CHECKS


def _comparisons(condition: Any, truth: bool = True) -> Iterator[tuple[fx.Node, bool]]:
    """The comparisons of which all elements have a truth where those of a condition have this."""
    name = _name(condition)
    if name in _SIGNS:
        yield condition, truth
    elif name in _NOT:
        yield from _comparisons(condition.args[0], not truth)
    elif name in _MOVES:
        yield from _comparisons(condition.args[0], truth)
    elif name in _OF_ALL[truth]:
        for one in condition.args:
            yield from _comparisons(one, truth)


def operands(node: fx.Node, is_known: Callable[[fx.Node], bool]) -> list[fx.Node]:
    """The values with a name from which the sides of a check's comparisons follow."""
    found: dict[fx.Node, None] = {}
    rest = [side for one, _ in _comparisons(node.args[0]) for side in one.all_input_nodes]
    while rest:
        side = rest.pop()
        if is_known(side):
            found[side] = None
        else:
            rest += side.all_input_nodes
    return list(found)


class _Kept(Values):
    """Values, also those inside of programs, from what has a name."""

    def number(self, node: fx.Node) -> Any:
        name = f"v{self.graph.replay.numbers[node]}"
        return self.names[name] if name in self.names else super().number(node)

    def of_run(self, node: fx.Node) -> torch.Tensor:
        try:
            return super().of_run(node)
        except KeyError:
            return self.compute(node)


def _text(x: Any) -> str:
    is_narrow = isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64
    return str(x.float().numpy() if is_narrow else x.item() if isinstance(x, torch.Tensor) else x)


def seen(graph: Any, node: fx.Node, names: dict[str, Any]) -> str:
    """The first elements of which a comparison is wrong; "" where that cannot be told."""
    values = _Kept(graph, names, wide=False)
    for one, truth in _comparisons(node.args[0]):
        sides = [values.value(side) if isinstance(side, fx.Node) else side for side in one.args]
        place: list[int] = []
        if any(isinstance(side, torch.Tensor) for side in sides):
            holds = getattr(torch, _name(one))(*sides)
            wrong = (holds != truth).nonzero().tolist()
            if not wrong:
                continue
            place = wrong[0]
            sides = [side.expand(holds.shape)[tuple(place)] if isinstance(side, torch.Tensor)
                     else side for side in sides]  # fmt: skip
        elif getattr(operator, _name(one))(*sides) == truth:
            continue
        a, b = map(_text, sides)
        at = f" at {place}" if place else ""
        return f"{a} {_SIGNS[_name(one)]} {b} is {str(not truth).lower()}{at}"
    return ""
