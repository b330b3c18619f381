# SPDX-License-Identifier: Apache-2.0
"""Runs nodes of a compiled graph in ATen, on the values that the graph had in a run.

    values = Values(graph, names, wide=False)    # `names`: the local names of the graph's function
    for node in step.nodes:
        y = values.compute(node)

Thread safety: belongs to one thread.
"""

from typing import TYPE_CHECKING, Any

import torch
from pto.adapters.torch.compile.sizes import expression, text_of
from pto.adapters.torch.compile.translate import inverse, is_part, is_symbolic
from torch import fx

if TYPE_CHECKING:
    from pto.adapters.torch.compile.compiled import CompiledGraph


class Values:
    """The values of a graph at a step: those of the run, and what follows from them in ATen; `wide`
    computes floats in 64 bits."""

    def __init__(self, graph: "CompiledGraph", names: dict, wide: bool):
        self.graph, self.names, self.wide = graph, names, wide
        self.made: dict[fx.Node, Any] = {}

    def of_run(self, node: fx.Node) -> torch.Tensor:
        number = self.graph.replay.numbers[node]
        space = self.graph.replay.space
        if f"v{number}" in self.names or f"v{number}" in space:
            return self.names.get(f"v{number}", space.get(f"v{number}"))
        order = self.graph.of.promise(node).order
        return self.names[f"m{number}"].permute(inverse(order))

    def number(self, node: fx.Node) -> Any:
        space = {**self.graph.replay.space, **self.names}
        return eval(text_of(expression(node.meta["val"])), space)  # noqa: S307 our own text

    def value(self, node: fx.Node) -> Any:
        if is_symbolic(node):
            return self.number(node)
        if node not in self.made:
            self.made[node] = self._value(node)
        return self.made[node]

    def _value(self, node: fx.Node) -> Any:
        if is_part(node) and (node.args[0] in self.made or self.graph.of.is_lazy(node)):
            return self.value(node.args[0])[node.args[1]]
        if not self.graph.of.is_lazy(node) or self._is_shown(node):
            found = self.of_run(node)
            return found.double() if self.wide and found.is_floating_point() else found
        return self.compute(node)

    def _is_shown(self, node: fx.Node) -> bool:
        """Says whether an earlier step made this view in the place of its value."""
        shown = self.graph.replay.shown
        return node in shown.values() and not any(
            base in self.made for base in self.graph.of.bases(node)
        )

    def _of_size(self, node: fx.Node) -> Any:
        """A tensor as large as the value of a node, which perhaps no step makes."""
        if is_symbolic(node):
            return self.number(node)
        space, promise = {**self.graph.replay.space, **self.names}, self.graph.of.promise(node)
        sizes = [eval(text_of(size), space) for size in promise.shape]  # noqa: S307 our own text
        return torch.empty(sizes, dtype=promise.fake.dtype)

    def arguments(self, node: fx.Node) -> tuple[tuple, dict]:
        argument = self._of_size if self.graph.of.is_made(node) else self.value
        return fx.node.map_arg((node.args, node.kwargs), argument)

    def compute(self, node: fx.Node) -> Any:
        """Runs a node in ATen."""
        args, kwargs = self.arguments(node)
        if self.wide and isinstance(kwargs.get("dtype"), torch.dtype):
            is_float = kwargs["dtype"].is_floating_point
            kwargs = {**kwargs, "dtype": torch.float64 if is_float else kwargs["dtype"]}
        self.made[node] = node.target(*args, **kwargs)
        return self.made[node]
