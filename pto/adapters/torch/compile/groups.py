# SPDX-License-Identifier: Apache-2.0
"""A group of FX nodes as the recipe of a program: parameters, symbols of sizes, formula.

Values pass between steps as they lie in memory: a tensor whose axes stand in another order there is
a parameter, or a result, with its axes in that order, and is put right inside, where it costs
nothing. A size that no parameter has comes as that of a tensor without elements of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from pto.adapters.torch.compile.rows import Kind
from pto.adapters.torch.compile.sizes import dim_of, expression, lift_of, symbols_of
from pto.adapters.torch.compile.translate import (
    Building,
    Translation,
    arranged,
    inverse,
    is_symbolic,
    overload_of,
    tensors_of,
)
from pto.adapters.torch.compile.values import Promise
from pto.graphs.program import Parameter, Recipe
from pto.language.tensor import Tensor
from torch import fx

_SHOWN = (Kind.PRODUCT, Kind.NORM, Kind.GATHER, Kind.REDUCE, Kind.OPERATOR)


@dataclass(frozen=True)
class Group:
    """Nodes in order, the values that they read and those that others read.

    `sizes` are the symbols that come beside the values, each as the size of a tensor, lifted where
    it may be negative.
    """

    nodes: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    sizes: tuple[sympy.Symbol, ...]
    recipe: Recipe


def made_by(node: fx.Node) -> list[fx.Node]:
    """The nodes that stand for what a node makes: itself, or its parts."""
    if isinstance(node.meta.get("val"), list | tuple):
        return list(node.users)
    return [node]


def inputs_of(nodes: Sequence[fx.Node], of: Translation) -> list[fx.Node]:
    """The values that the nodes read from outside of the group, views looked through."""
    inside = {value for node in nodes for value in made_by(node)}
    read = dict.fromkeys(value for node in nodes for value in of.reads(node))
    return [value for value in read if value not in inside]


def leaving(nodes: Sequence[fx.Node], of: Translation) -> list[fx.Node]:
    """The values that are read outside of the group, through views or not."""
    inside = set(nodes)
    return [value for node in nodes for value in made_by(node) if _leaves(value, inside, of)]


def _leaves(value: fx.Node, inside: set[fx.Node], of: Translation) -> bool:
    return any(_reads(user, inside, of) for user in value.users)


def _reads(user: fx.Node, inside: set[fx.Node], of: Translation) -> bool:
    """Says whether the user of a value lies outside of the group, or a user of its view does."""
    if of.is_made(user):
        return False
    return _leaves(user, inside, of) if of.is_lazy(user) else user not in inside


def _results_of(nodes: Sequence[fx.Node], of: Translation) -> list[fx.Node]:
    """The values that leave; in the place of one that steps without a program read through a
    single reshape or slice without gaps, that view."""
    inside = set(nodes)
    return [_as_read(value, inside, of) for value in leaving(nodes, of)]


def _readers(value: fx.Node, inside: set[fx.Node], of: Translation) -> list[fx.Node]:
    return [user for user in value.users if _reads(user, inside, of)]


def _as_read(value: fx.Node, inside: set[fx.Node], of: Translation) -> fx.Node:
    """The last of a chain of views without gaps, each the only reader of the one before; the value
    itself where there is none."""
    found = value
    while True:
        readers = _readers(found, inside, of)
        if len(readers) != 1 or not of.is_dense_view(readers[0]):
            break
        (found,) = readers
    waiting = [found]
    while waiting and found is not value:
        for user in _readers(waiting.pop(), inside, of):
            if of.is_lazy(user):
                waiting.append(user)
            elif of.fuses(user):  # which reads the value as it was made
                return value
    return found


def _needed(nodes: Sequence[fx.Node], of: Translation) -> list[Any]:
    """The sizes that building these nodes asks for."""
    found, waiting, seen = [], list(nodes), set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if is_symbolic(node):
            found.append(expression(node.meta["val"]))
            continue
        found += [size for one in tensors_of(node.meta["val"]) for size in Promise(one).shape]
        waiting += [one for one in node.all_input_nodes if is_symbolic(one) or of.is_lazy(one)]
    return found


def raw_shape(promise: Promise) -> tuple:
    """The sizes of a value as programs read it."""
    return tuple(promise.shape[axis] for axis in promise.reading)


def group_of(nodes: Sequence[fx.Node], of: Translation, constants: set[fx.Node]) -> Group:
    """The group of these nodes; weights among `constants` are packed where products read them."""
    inputs, results = inputs_of(nodes, of), _results_of(nodes, of)
    promises = [of.promise(value) for value in inputs]
    shapes = [raw_shape(promise) for promise in promises]
    places: dict[sympy.Symbol, tuple[int, int]] = {}
    for place, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            if not isinstance(size, int) and size.is_Symbol:
                places.setdefault(size, (place, axis))
    needed = symbols_of([*_needed([*nodes, *results], of), *(s for shape in shapes for s in shape)])
    missing = tuple(sorted(needed - set(places), key=str))
    packed = _packed(nodes, of) & constants
    parameters = [
        Parameter(p.dtype, p.stride_class_of(p.reading), value in packed)
        for value, p in zip(inputs, promises, strict=True)
    ]
    for symbol in missing:
        places[symbol] = (len(parameters), 0)
        shapes.append((symbol + lift_of(symbol),))
        parameters.append(Parameter("u8", 2))
    symbols = list(places)
    lifts = [lift_of(symbol) if symbol in missing else 0 for symbol in symbols]
    if not parameters:  # a call needs a tensor
        missing = (sympy.Integer(1),)
        shapes.append((1,))
        parameters.append(Parameter("u8"))

    def known_of(sizes: Sequence[Any]) -> dict[sympy.Symbol, Any]:
        lowered = [size - lift if lift else size for size, lift in zip(sizes, lifts, strict=True)]
        return dict(zip(symbols, lowered, strict=True))

    def shapes_for(sizes: Sequence[Any]) -> list[tuple]:
        known = known_of(sizes)
        return [tuple(dim_of(size, known) for size in shape) for shape in shapes]

    def build(tensors: list[Tensor], sizes: Sequence[Any]) -> list[Tensor]:
        known = known_of(sizes)
        given = zip(inputs, promises, tensors, strict=False)
        values = {value: arranged(x, inverse(p.reading)) for value, p, x in given}
        building = Building(of, values, known)
        for node in nodes:
            building.value(node)
        found = [(building.value(value), of.promise(value).order) for value in results]
        return [arranged(x, order or range(x.ndim)) for x, order in found]

    recipe = Recipe(_names(nodes, of), tuple(parameters), tuple(places.values()), shapes_for, build)
    return Group(tuple(nodes), tuple(inputs), tuple(results), missing, recipe)


def _packed(nodes: Sequence[fx.Node], of: Translation) -> set[fx.Node]:
    """The values that products of these nodes read on their right, through views."""
    found = set()
    for node in nodes:
        for place in of.row(node).constants:
            if place < len(node.args) and isinstance(node.args[place], fx.Node):
                found.update(of.bases(node.args[place]))
    return found


def _names(nodes: Sequence[fx.Node], of: Translation) -> tuple[str, ...]:
    """At most three operations by which a person knows the program."""
    shown = [node for node in nodes if of.row(node).kind in _SHOWN] or list(nodes)
    names = [overload_of(node).partition(".")[0].strip("_") for node in shown]
    return ("graph", *list(dict.fromkeys(names))[:3])
