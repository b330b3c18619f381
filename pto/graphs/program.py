# SPDX-License-Identifier: Apache-2.0
"""A group of nodes as one compiled program, called with the group's inputs.

    recipe = Recipe(("add", "layer_norm"), parameters, places, shapes, build)
    program = program_of(recipe)          # equal recipes share one
    program.compile_ahead()
    y, z = program(a, b, weight)          # torch in, torch out; one tensor if there is one result

A recipe is traced with a symbol for each size that the graph leaves open, never being 1; a call in
which one is 1 is traced for itself. Sizes that are numbers are fixed, and every call checks both.

Thread safety: programs may be made and called on several threads.
"""

import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pto import _core
from pto.config import config
from pto.errors import InvalidValue
from pto.language import arguments
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.locks import Lock

Size = Any  # int | _core.Dim
TENSORS_MAX = _core.MAX_TENSORS  # that a call takes
RESULTS_MAX = 16


@dataclass(frozen=True)
class Parameter:
    """An input: its element type, the class of its strides in the first call, 0 for one without
    gaps, and whether its elements stay as they are from call to call."""

    dtype: str
    strides: int = 0
    is_constant: bool = False


@dataclass(frozen=True)
class Recipe:
    """The computation of a program.

    `shapes(sizes)` gives the shape of each parameter and `build(tensors, sizes)` the results, both
    for values of the symbols: each is a _core.Dim, or 1. `places` has for each symbol the
    parameter and the axis whose size it is.
    """

    names: tuple[str, ...]  # of what it computes, for the name of the program
    parameters: tuple[Parameter, ...]
    places: tuple[tuple[int, int], ...]
    shapes: Callable[[Sequence[Size]], list[tuple]]
    build: Callable[[list[Tensor], Sequence[Size]], Sequence[Tensor]]

    def trace(self, ones: frozenset[int] = frozenset()) -> _core.Graph:
        """The graph in which these symbols are 1. Raises what a node's formula raises."""
        sizes: list[Size] = []
        for symbol in range(len(self.places)):
            sizes.append(1 if symbol in ones else _core.Dim.symbol(symbol))
        trace = Trace("_".join(self.names) or "graph")
        shapes = self.shapes(sizes)
        tensors = [
            trace.input(f"x{place}", about.dtype, shape, about.is_constant)
            for place, (about, shape) in enumerate(zip(self.parameters, shapes, strict=True))
        ]
        trace.symbols = max(trace.symbols, len(self.places))
        with trace.active():
            results = tuple(self.build(tensors, sizes))
        return trace.finish(results)[0]


class GroupProgram(_core.Callable):
    """A compiled recipe; see this module's text."""

    def __init__(self, recipe: Recipe, graph: _core.Graph):
        self.recipe, self.graph = recipe, graph
        self.results = len(graph.outputs)
        self._lock = Lock()
        self._made: dict[tuple, _core.Program] = {}
        names = tuple(f"x{place}" for place in range(len(recipe.parameters)))
        self.bind_function(graph.name, names, (), arguments, False, True)
        if any(one.is_constant for one in recipe.parameters):
            arguments.load_weight_owner()

    def compile_ahead(self) -> None:
        """Compiles for the strides that the recipe expects. Raises Error where nothing can."""
        self._compiled(self.graph, tuple(one.strides for one in self.recipe.parameters))

    def _compiled(self, graph: _core.Graph, strides: tuple[int, ...]) -> _core.Program:
        with self._lock:
            key = (str(graph), strides, config.target)
            if key not in self._made:
                self._made[key] = _core.compile(graph, strides, target=config.target)
            return self._made[key]

    def specialise(self, tensors: list, constants: list, numbers: list) -> tuple:
        """The program for such tensors, at their first call: for _core.Callable."""
        given = [shape for _, shape, *_ in tensors]
        ones = frozenset(
            symbol
            for symbol, (place, axis) in enumerate(self.recipe.places)
            if isinstance(given[place][axis], int)
        )
        graph = self.recipe.trace(ones) if ones else self.graph
        made = self._compiled(graph, tuple(strides for _, _, strides, *_ in tensors))
        return made, None if self.results == 1 else tuple, 0

    def captured(self) -> tuple:
        """No value outside of its parameters is part of it."""
        return (), ()

    def call_in_library(self, *tensors: Any) -> Any:
        """Makes a call on tensors of PyTorch that do not simply lie in memory."""
        return self(*as_they_lie(self.graph.name, tensors))


def as_they_lie(name: str, tensors: Sequence[Any]) -> list[Any]:
    """Tensors of PyTorch as plain ones: of no class of a user's, without gradients, negated where a
    sign waits for it, and at multiples of their element sizes.

    Raises InvalidValue where one is more than its values, or where all are plain already.
    """
    with sys.modules["torch"]._C.DisableTorchFunctionSubclass():
        plain = [_as_it_lies(x) for x in tensors]
        has_tangents = any(map(arguments.has_tangent, tensors))
    if has_tangents or all(a is b for a, b in zip(plain, tensors, strict=True)):
        raise InvalidValue(
            f"{name}: an argument has a derivative in forward mode, or no memory on the CPU",
            "a compiled graph computes values, of tensors that lie in the CPU's memory",
            "call the model that is not compiled there, or pass plain tensors",
        )
    return plain


def _as_it_lies(x: Any) -> Any:
    torch, kind = sys.modules["torch"], type(x)
    is_wrapper = kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl
    is_wrapper = is_wrapper or torch._C._functorch.is_functorch_wrapped_tensor(x)
    if is_wrapper or x.device.type != "cpu" or x.layout is not torch.strided:
        return x
    plain = x if kind in (torch.Tensor, torch.nn.Parameter) else x.as_subclass(torch.Tensor)
    plain = (plain.detach() if plain.requires_grad else plain).resolve_neg()
    return plain.clone() if plain.data_ptr() % plain.element_size() else plain


_programs: weakref.WeakValueDictionary[tuple, GroupProgram] = weakref.WeakValueDictionary()
_lock = Lock()


def program_of(recipe: Recipe) -> GroupProgram:
    """The program of a recipe; those with equal graphs share it. Raises what tracing raises."""
    graph = recipe.trace()
    key = (str(graph), tuple(one.strides for one in recipe.parameters))
    with _lock:
        found = _programs.get(key)
        if found is None:
            found = _programs[key] = GroupProgram(recipe, graph)
        return found
