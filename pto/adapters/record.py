# SPDX-License-Identifier: Apache-2.0
"""Record: what the registry says of an operator, and its arguments sorted for an adapter.

    def declare(index): ...Record(index)...
    on_operator(declare)                       # every operator, those to come included

A language.op.Operator is a definition in Python, which can be called; a Record describes any
operator, also one that a C++ library defined.

It imports no framework. Thread safety: a Record is immutable; one thread at a time registers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pto import _core
from pto.schema import Argument, Output, Signature, bound, checked

__all__ = ["Argument", "Output", "Record", "grouped", "on_operator", "operator_names"]


class Record(Signature):
    """One operator of the registry; see abi/operator.h for the meaning of its members."""

    def __init__(self, index: int):
        facts = _core.operator_record(index)
        super().__init__(facts)
        self.index = index
        self.document: str = facts["document"]
        self.gradient: int = facts["gradient"]
        self.gradient_of: int = facts["gradient_of"]
        self.autocast: int = facts["autocast"]
        self.saved: tuple[int, ...] = facts["saved"]
        self.wanted: tuple[int, ...] = facts["wanted"]
        self.names = [a.name for a in self.arguments]
        self.positional = [a.name for a in self.arguments if not a.keyword_only]
        self.is_tensor = [a.is_tensor for a in self.arguments]
        self.is_float = [a.kind == "float" for a in self.arguments]

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call in schema order, defaults filled in; raises InvalidType."""
        values = bound(self.name, self.schema, self.arguments, args, kwargs)
        return [
            checked(self.name, self.schema, a, value)
            for a, value in zip(self.arguments, values, strict=True)
        ]

    def call(self, values: Iterable[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Values in schema order as the positional and the keyword-only arguments of a call."""
        pairs = list(zip(self.arguments, values, strict=True))
        named = {a.name: value for a, value in pairs if a.keyword_only}
        return [value for a, value in pairs if not a.keyword_only], named

    def by_argument(self, counts: Iterable[int], flat: Iterable[Any]) -> list[Any]:
        """Tensors one after another, so many of each argument, as a call takes them: a list for a
        list, else the one or None."""
        return [
            group if a.kind == "Tensor[]" else group[0] if group else None
            for a, group in zip(self.tensors, grouped(counts, flat), strict=True)
        ]

    def suggested(self, argument: Argument) -> str:
        """An element type to convert a tensor argument to that has one which it does not take."""
        allowed = self.types[argument.type]
        return next(name for name in ("f32", "i32", *allowed) if name in allowed)

    def shapes(self, tensors: list, attributes: list) -> _core.OperatorShapes:
        """The shapes of the outputs for tensors of these (dtype, rank), None or lists of them."""
        return _core.operator_shapes(self.index, tensors, attributes)

    def sizes_among(self, attributes: Sequence[Any]) -> list[Any]:
        """The SymInt attributes, for OperatorShapes.evaluate(); an absent one counts, as 0."""
        pairs = zip(self.attributes, attributes, strict=True)
        return [0 if value is None else value for a, value in pairs if a.kind == "SymInt"]


def grouped(counts: Iterable[int], flat: Iterable[Any]) -> list[list]:
    """Tensors one after another in lists of these lengths."""
    rest = iter(flat)
    return [[next(rest) for _ in range(count)] for count in counts]


def on_operator(listener: Callable[[int], None], with_spaces: bool = False) -> None:
    """Calls listener(index) for every operator of the registry, now and when one is defined.

    `with_spaces` includes operators of other namespaces, "space::name".
    """
    _core.on_operator(listener, with_spaces)


def operator_names() -> set[str]:
    """All operators of the registry that an adapter shows as its own, by name."""
    names = (_core.operator_record(index)["name"] for index in range(_core.operator_count()))
    return {name for name in names if "::" not in name}
