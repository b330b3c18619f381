# SPDX-License-Identifier: Apache-2.0
"""Record: what the registry says of an operator, and its arguments sorted for an adapter.

    def declare(index): ...Record(index)...
    on_operator(declare)                       # every operator, those to come included

Free of frameworks. Thread safety: a Record is immutable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pto import _core
from pto.schema import Argument, bound, checked

__all__ = ["Argument", "Output", "Record", "on_operator"]


@dataclass(frozen=True)
class Output:
    """An output; `replaces`: the mutable argument whose elements it replaces, or -1.

    `type` is the variable of its element type, or -1 - the number of that type. A gradient operator
    takes the gradients of those that are differentiable. Of one that is bounded the first size of
    its shape is the most that it can be.
    """

    name: str
    is_list: bool
    type: int
    replaces: int
    is_differentiable: bool
    is_bounded: bool


class Record:
    """One operator; see abi/operator.h for the meaning of its members."""

    def __init__(self, index: int):
        facts = _core.operator_record(index)
        self.index = index
        self.name: str = facts["name"]
        self.schema: str = facts["schema"]
        self.document: str = facts["document"]
        self.arguments = tuple(Argument(**a) for a in facts["arguments"])
        self.outputs = tuple(Output(**o) for o in facts["outputs"])
        self.n_returns: int = facts["n_returns"]
        self.types = tuple(frozenset(names) for names in facts["types"])
        self.gradient: int = facts["gradient"]
        self.gradient_of: int = facts["gradient_of"]
        self.autocast: int = facts["autocast"]
        self.saved: list[int] = facts["saved"]
        self.wanted: list[int] = facts["wanted"]
        self.names = [a.name for a in self.arguments]
        self.positional = [a.name for a in self.arguments if not a.keyword_only]
        self.is_tensor = [a.is_tensor for a in self.arguments]
        self.is_float = [a.kind == "float" for a in self.arguments]

    @property
    def tensors(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.is_tensor)

    @property
    def attributes(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.is_tensor)

    @property
    def mutates(self) -> bool:
        return any(a.mutable for a in self.arguments)

    @property
    def is_bounded(self) -> bool:
        """Says whether a result has a size that is known only after the kernel ran."""
        return any(output.is_bounded for output in self.outputs)

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call in schema order, defaults filled in; raises InvalidType."""
        values = bound(self.name, self.schema, self.arguments, args, kwargs)
        return [
            checked(self.name, self.schema, a, value)
            for a, value in zip(self.arguments, values, strict=True)
        ]

    def shapes(self, tensors: list, attributes: list) -> _core.OperatorShapes:
        """The shapes of the outputs for tensors of these (dtype, rank), None or lists of them."""
        return _core.operator_shapes(self.index, tensors, attributes)


def on_operator(listener: Callable[[int], None], with_spaces: bool = False) -> None:
    """Calls listener(index) for every operator of the registry, now and when it is defined; for
    those called "space::name" only where asked for."""
    _core.on_operator(listener, with_spaces)
