# SPDX-License-Identifier: Apache-2.0
"""The calls of our operators in a run of a plan with the example of its export.

    examples = calls_of_operators(made, exported, inputs, weights)   # {operator: [its calls]}

A file has code for these alone. A constant weight comes packed, where an operator takes it so; then
the operator that packs is among those that are called. Thread safety: one thread packages a model.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from pto.adapters.torch.compile.compiled import CompiledGraph
from pto.adapters.torch.compile.rows import operator_of
from pto.adapters.torch.graph_function import function_of
from pto.adapters.torch.packaged_model import free_sizes
from pto.adapters.torch.packing_function import is_packed
from pto.errors import InvalidValue
from pto.language.free_sizes import choices
from pto.language.op import Operator
from pto.language.package import call_text, described
from pto.language.packaged_operator import as_function
from pto.language.redefinition import newest
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Packing:
    """Which argument of an operator may be given packed, which one takes it so, and who packs."""

    weight: str
    packed: str
    packer: Operator
    place: int  # of the weight

    @staticmethod
    def of(operator: Operator) -> "Packing | None":
        if (names := operator.member("packing")) is None:
            return None
        weight, packed, packer = names
        place = [one.name for one in operator.arguments].index(weight)
        return Packing(weight, packed, newest[packer], place)

    @property
    def places(self) -> list[Any]:
        return [self.place, self.weight, self.packed]


def used(made: CompiledGraph) -> Iterator[tuple[str, Any]]:
    """The constants of the function, by name."""
    names = set(made.replay.constants.values())
    return ((name, value) for name, value in made.replay.space.items() if name in names)


def ours(value: Any) -> Operator | None:
    """Our operator that PyTorch calls by an overload or a packet."""
    if isinstance(value, torch._ops.OpOverloadPacket):
        value = value.default
    return operator_of(value.name()) if isinstance(value, torch._ops.OpOverload) else None


def calls_of_operators(
    made: CompiledGraph, exported: ExportedProgram, inputs: list[dict], weights: list[torch.Tensor]
) -> dict[Operator, list[tuple]]:
    """The calls of our operators in a run with the example of the export, one of each kind."""
    space, found, constants = dict(made.replay.space), {}, set()

    def note(operator: Operator, values: dict[str, Any]) -> None:
        call = described(as_function(operator), (), values)
        found.setdefault(operator, {}).setdefault(call_text(operator.name, call), values)

    def recorded(operator: Operator, call: Callable[..., Any]) -> Callable[..., Any]:
        found[operator], packing = {}, Packing.of(operator)

        def run(*args: Any, **kwargs: Any) -> Any:
            values = operator.bind(args, kwargs)
            if packing and id(weight := values[packing.weight]) in constants:
                note(packing.packer, packing.packer.bind((weight,), {}))
                values = values | {packing.packed: torch.zeros(2)}  # of that type
            note(operator, values)
            return call(*args, **kwargs)

        return run

    for name, value in used(made):
        if (operator := ours(value)) is not None:
            space[name] = recorded(operator, value)
    if not found:
        return {}
    if exported.example_inputs is None:
        raise InvalidValue(
            "package: the model was exported without an example of its arguments",
            "operators of ours are compiled for the strides of an example's tensors",
            "pass the result of torch.export.export() as it is",
        )
    function = function_of(made.replay.source, space)
    asked = [one for one in inputs if "weight" not in one]

    def run_with(example: list[Any]) -> None:
        flat = iter(example)
        own = [weights[one["weight"]].clone() if "weight" in one else None for one in inputs]
        constants.clear()
        constants.update(id(w) for w, one in zip(own, inputs, strict=True) if is_packed(one, w))
        function([next(flat) if one is None else one for one in own])

    example = pytree.tree_leaves(exported.example_inputs)
    with torch.no_grad():
        run_with(example)
        for smaller in _with_ones(example, asked):
            with contextlib.suppress(Exception):  # elements that are positions beyond such a size
                run_with(smaller)
    return {operator: list(seen.values()) for operator, seen in found.items()}


def _with_ones(example: list[Any], asked: list[dict]) -> Iterator[list[Any]]:
    """The example of the export with free sizes of 1, for which operators have other code."""
    given, ones = {}, []
    for about, value in zip(asked, example, strict=True):
        is_tensor = isinstance(value, torch.Tensor)
        sizes = zip(about["shape"], about["ranges"], value.shape, strict=True) if is_tensor else [
            (about.get("number"), about.get("range"), value)]  # fmt: skip
        tells = {axis: rest for axis, *rest in about.get("tells", ())}
        for axis, (size, range_, own) in enumerate(sizes):
            if axis in tells or (range_ is not None and size.isidentifier()):
                symbol, factor, offset = tells.get(axis, (size, 1, 0))
                given[symbol] = (own - offset) // factor
                values = {1, (1 - offset) // factor}  # by which one of the two is 1
                ones += [{(symbol, one)} for one in values if one * factor + offset >= range_[0]]
    symbols, sizes_of = free_sizes(asked)
    for chosen in choices(ones):
        each = sizes_of([(given | dict(chosen))[one] for one in symbols])
        yield [_cut(value, sizes) for value, sizes in zip(example, each, strict=True)]


def _cut(value: Any, sizes: list[int]) -> Any:
    """The front of an input of the example; a number that is a size as that."""
    if isinstance(value, torch.Tensor):
        return value[tuple(map(slice, sizes))].contiguous()
    return sizes[0] if sizes else value
