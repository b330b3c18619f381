# SPDX-License-Identifier: Apache-2.0
"""Scope: a graph that is being traced, the function's own or the body of a loop in it.

    body = trace.enter("body")
    x.value              # x of an outer scope becomes an input of the body
    graph, captured = trace.leave()

A tensor is a handle on a version of its value. A body that reads one of the scopes around it takes
it as an input; one that the body wrote (`out[i] = ...`) is carried from one iteration to the next.

Invariant: `captured` has an entry for each handle of an outer scope that the body used.
Thread safety: as a trace.
"""

from typing import TYPE_CHECKING, Any

from pto import _core
from pto.errors import InvalidType
from pto.language.location import fail

if TYPE_CHECKING:
    from pto.language.tensor import Tensor


class Captured:
    """A handle of an outer scope: its value there, and the input that stands for it here.

    `is_input` is False for a constant, which is repeated here.
    """

    __slots__ = ("handle", "inner", "is_input", "outer")

    def __init__(self, handle: "Tensor", outer: int, inner: int, is_input: bool):
        self.handle, self.outer, self.inner, self.is_input = handle, outer, inner, is_input


class Scope:
    """One graph under construction, and what it takes from the scopes around it."""

    def __init__(self, name: str, parent: "Scope | None" = None, first_symbol: int = 0):
        self.builder, self.parent = _core.GraphBuilder(name), parent
        if parent is not None and parent.builder.sizes_may_be_one:
            self.builder.let_sizes_be_one()
        self.captured: dict[int, Captured] = {}
        self.first_symbol = first_symbol  # of the sizes that this scope defines
        self.sizes: dict[int, Any] = {}  # value -> the size that it defines
        self.hints: list[tuple] = []  # that the builder gives its nodes
        self.checked = 0  # nodes that fit the hints in force: tile_hints.py
        self.has_checks = False  # so it stays, also where nothing uses what it computes
        self._names: set[str] = set()

    def keep_for_checks(self) -> None:
        """Notes a check here, in this scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            scope.has_checks, scope = True, scope.parent

    def parameter(self, name: str, dtype: str, shape: tuple) -> int:
        """A new input; another name where this one is taken."""
        unique, number = name, 0
        while unique in self._names:
            number += 1
            unique = f"{name}_{number}"
        self._names.add(unique)
        return self.builder.input(unique, dtype, shape)

    def is_inside(self, other: "Scope") -> bool:
        scope: Scope | None = self
        while scope is not None and scope is not other:
            scope = scope.parent
        return scope is other

    def value_of(self, x: "Tensor") -> int:
        """The value here of a tensor of an outer scope."""
        found = self.captured.get(id(x))
        if found is None:
            found = self.captured[id(x)] = self._capture(x)
        return found.inner

    def input_of(self, c: Captured) -> int:
        """The input that stands here for what this scope, or another beside it, captured."""
        own = self.captured.get(id(c.handle))
        if own is not None:
            return own.inner
        return self.parameter("outer", c.handle.dtype.name, c.handle.shape)

    def _capture(self, x: "Tensor") -> Captured:
        if self.parent is None or not self.is_inside(x.scope):
            fail(
                "a tensor that a loop or branch computed is used behind it",
                "what a body computes is lost at its end, unless a variable that has a value in "
                "front of the loop carries it",
                "give the variable its first value in front of the loop, as pto.zeros(...)",
                InvalidType,
            )
        outer = x.node if x.scope is self.parent else self.parent.value_of(x)
        op, _, _ = self.parent.builder.node(outer)
        if op == "constant" and not x.shape:
            number = self.parent.builder.number(outer)
            return Captured(x, outer, self.builder.constant(number, x.dtype.name), False)
        name = x.trace.input_names.get(id(x), "outer")
        return Captured(x, outer, self.parameter(name, x.dtype.name, x.shape), True)
