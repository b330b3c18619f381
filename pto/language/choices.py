# SPDX-License-Identifier: Apache-2.0
"""Choices: what was chosen for a program, who chose it, and what of it the code follows.

    for one in f.explain(x).choices:
        one.what, one.value, one.by        # "merge", "4", "user"

The user asks by hints, the tuner by what it measured, and the model, the rules of the compiler,
chooses what nobody asks for.

Thread safety: plain values.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pto import _core
from pto.language.plan import Plan, Step

_MADE_BY_PASSES = ("takes_product", "tuned")
_NUMBERS_OF_CALLS = ("leaf_call",)  # count uses of a name
_TOLD_APART = ("constant",)  # by what explain says of constants
_FREE = ("constant", "moved", "parameter", "position")  # forms of nodes that belong to each reader


@dataclass(frozen=True)
class Choice:
    """Something that was chosen: `by` the "user", at `line`, the "tuner" or the "model"; `used`
    says what of it the code follows."""

    what: str
    value: str
    by: str
    line: str
    used: str

    def __str__(self) -> str:
        line = f" @ {self.line}" if self.line else ""
        used = "" if self.used == "yes" else f"; used: {self.used}"
        return f"{self.what} = {self.value}, by {self.by}{used}{line}"


def choices_of(plan: Plan) -> Iterator[Choice]:
    """Lists what hints ask for, then choices of the model."""
    use = _Use(plan)
    asked: dict[tuple, tuple[str, list]] = {}
    for nodes in _all_nodes(plan):
        for node in nodes:
            tuned = next((text for name, _, text in node["hints"] if name == "tuned"), "").split()
            for name, numbers, text in node["hints"]:
                if name in _MADE_BY_PASSES + _NUMBERS_OF_CALLS + _TOLD_APART:
                    continue
                key = name, text or tuple(numbers), "tuner" if name in tuned else "user"
                found = asked.setdefault(key, (node["lines"][0] if node["lines"] else "", []))
                found[1].append(node)
    for (name, value, by), (line, nodes) in asked.items():
        if isinstance(value, tuple):
            value = value[0] if len(value) == 1 and name not in _SHAPES else list(value)
        used = use.of(name, value, nodes)
        yield Choice(name, str(value), by, line if by == "user" else "", used)
    yield from _of_model(plan)


def _of_model(plan: Plan) -> Iterator[Choice]:
    for step in (inner for one in plan.steps for inner in one.all()):
        line = step.lines[0] if step.lines else ""
        if step.kind == "kernel":
            is_row = bool(step.axes) and step.axes[-1].endswith("reduced")
            value = "whole rows" if is_row else "pieces of the last axis"
            yield Choice(f"tiles of {step.name}", value + ", in micro-tiles of 4 vectors",
                         "model", line, "yes")  # fmt: skip
        elif step.kind == "product":
            yield Choice(f"blocks of a product {step.type}", "by its sizes, at the call", "model",
                         line, "yes")  # fmt: skip


def _all_nodes(plan: Plan) -> Iterator[list[dict]]:
    for nodes in plan.graphs:
        yield nodes
        yield from (_core.nodes_of(n["bodies"][0]) for n in nodes if n["op"] == "fused")


def number_of(node: dict, hint: str) -> int:
    """The number of a node's hint, 0 without it."""
    return next((numbers[0] for name, numbers, _ in node["hints"] if name == hint), 0)


class _Use:
    """Finds in the kernels of a plan what hints ask for."""

    def __init__(self, plan: Plan):
        self.kernels = [(step, list(_operations_of(plan, step))) for top in plan.steps
                        for step in top.all() if step.kind == "kernel"]  # fmt: skip
        self.steps = [step for top in plan.steps for step in top.all()]
        self.products = [(plan.graphs[step.block][step.value], plan.graphs[step.block][0])
                         for step in self.steps if step.kind == "product"]  # fmt: skip

    def of(self, name: str, value: Any, nodes: list) -> str:
        return _USED.get(name, _not_yet)(self, value, nodes)

    def leaf(self, value: str, _: list) -> str:
        """Says in which kernels a leaf stands, and whether it is alone there."""
        calls, mixed = defaultdict(set), set()
        for step, nodes in self.kernels:
            here = {number_of(n, "leaf_call") for n in nodes if ("leaf", value) in _names(n)}
            for call in here:
                calls[call].add(step.name)
            if here and len({number_of(n, "leaf_call") for n in nodes}) > 1:
                mixed.add(step.name)
        names = ", ".join(sorted(set().union(*calls.values()))) or "no operation of it is left"
        return f"not: it shares {names}" if mixed else f"yes: {names}"

    def cut(self, _: int, __: list) -> str:
        for step, nodes in self.kernels:
            if len({number_of(n, "cut") for n in nodes}) > 1:
                return f"not: {step.name} holds operations of both sides"
        return "yes"

    def tile_of_elements(self, value: list) -> str:
        """Says which kernels are cut in tiles of the hint: those without a reduction."""
        found = [(step.name, any(axis.endswith("reduced") for axis in step.axes))
                 for step, nodes in self.kernels
                 if any(name == "vec_tile" and numbers == value
                        for node in nodes for name, numbers, _ in node["hints"])]  # fmt: skip
        cut = [name for name, reduces in found if not reduces]
        if not cut:
            return "not: kernels with a reduction take whole rows" if found else "not: no kernel"
        return f"yes: {', '.join(dict.fromkeys(cut))} in pieces of whole tiles"

    def tile_of_product(self, name: str, value: list) -> str:
        """Says whether products with the hint run in tiles: passes/tile_products.hpp."""
        own = [
            first["name"].startswith("tile")
            for node, first in self.products
            if any(hint == name and numbers == value for hint, numbers, _ in node["hints"])
        ]
        if not any(own):
            return "not: no kernel follows tiles of a product, whose own loops cut it"
        return f"yes: {sum(own)} of {len(own)} products in tiles of whole units"

    def merge(self, value: int, _: list) -> str:
        sizes = [sum(number_of(n, "merge") == value for n in nodes) for _, nodes in self.kernels]
        most = max(sizes, default=0)
        return f"yes: at most {most} in a kernel" if most <= value else f"not: {most} in a kernel"

    def limit(self, name: str, value: int) -> str:
        found = [step.name for step in self.steps if getattr(step, name) == value
                 and not step.inside]  # fmt: skip
        if not found:
            return "not: its lines run on the thread of an iteration, or in order"
        return f"yes: {', '.join(dict.fromkeys(found))}"


def _names(node: dict) -> list[tuple[str, str]]:
    return [(name, text) for name, _, text in node["hints"]]


def _operations_of(plan: Plan, step: Step) -> Iterator[dict]:
    """The nodes of a kernel that are operations of their own."""
    body = _core.nodes_of(plan.graphs[step.block][step.value]["bodies"][0])
    taken = {node["operands"][number_of(node, "takes_product")] for node in body
             if any(name == "takes_product" for name, _, _ in node["hints"])}  # fmt: skip
    for value, node in enumerate(body):
        is_count = node["op"] == "sum" and _is_constant(body, node["operands"][0])
        if node["form"] not in _FREE and value not in taken and not is_count:
            yield node


def _is_constant(body: list[dict], value: int) -> bool:
    while body[value]["form"] == "moved":
        value = body[value]["operands"][0]
    return body[value]["op"] == "constant"


def _not_yet(*_: Any) -> str:
    return "not: the code does not follow it"


def _in_texts(*_: Any) -> str:
    return "in texts"


_SHAPES = ("vec_tile", "cube_m", "cube_k", "cube_n")
_USED: dict[str, Callable[[_Use, Any, list], str]] = {
    "label": _in_texts,
    "leaf": _Use.leaf,
    "cut": _Use.cut,
    "merge": _Use.merge,
    "order": lambda use, *_: (
        f"yes: {len(use.kernels)} kernels" if use.kernels else "not: no kernel"
    ),
    "prefetch_bytes": lambda use, *_: "yes: in loops over memory beyond the first cache",
    "workers": lambda use, value, _: use.limit("workers", value),
    "vec_tile": lambda use, value, _: use.tile_of_elements(value),
    "cube_m": lambda use, value, _: use.tile_of_product("cube_m", value),
    "cube_k": lambda *_: "not: sums along k are not cut, so that no bit depends on tiles",
    "cube_n": lambda use, value, _: use.tile_of_product("cube_n", value),
    "tiles_per_task": lambda use, value, _: use.limit("tiles_per_task", value),
}
