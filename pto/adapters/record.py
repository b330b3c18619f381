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
from pto.adapters.shapes import Shapes
from pto.errors import InvalidType
from pto.schema import Argument

__all__ = ["Argument", "Output", "Record", "on_operator"]


@dataclass(frozen=True)
class Output:
    """An output; `replaces`: the mutable argument whose elements it replaces, or -1.

    `type` is the variable of its element type, or -1 - the number of that type.
    """

    name: str
    is_list: bool
    type: int
    replaces: int


class Record:
    """One operator; see op/operator.h for the meaning of its members."""

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

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call in schema order, defaults filled in; raises InvalidType."""
        given = dict(zip(self.positional, args, strict=False))
        wrong = [name for name in kwargs if name in given or name not in self.names]
        given |= kwargs
        missing = [a.name for a in self.arguments if not a.has_default and a.name not in given]
        if wrong or missing or len(args) > len(self.positional):
            raise InvalidType(
                f"{self.name}: called with {len(args)} positional arguments"
                + "".join(f", {n}=" for n in kwargs)
                + (f"; missing: {', '.join(missing)}" if missing else ""),
                f"the signature is {self.schema}",
                "call it as the signature says",
            )
        return [self._checked(a, given.get(a.name, a.default)) for a in self.arguments]

    def _checked(self, a: Argument, value: Any) -> Any:
        """An attribute as its kind; tensors as they are, but for None and lists."""
        if value is None and a.optional:
            return None
        if a.kind == "Tensor" and value is not None:
            return value
        if a.kind == "int[]" and a.list_size and isinstance(value, int):
            return [value] * a.list_size
        is_whole = isinstance(value, int) or hasattr(value, "__index__")
        fits = {
            "Tensor": False,
            "Tensor[]": isinstance(value, list | tuple),
            "int": is_whole and not isinstance(value, bool),
            "SymInt": is_whole and not isinstance(value, bool),
            "float": hasattr(value, "__float__") and not isinstance(value, str),
            "bool": isinstance(value, bool) or type(value).__name__ == "bool",
            "str": isinstance(value, str),
            "int[]": isinstance(value, list | tuple)
            and all(hasattr(n, "__index__") for n in value)
            and len(value) == (a.list_size or len(value)),
        }[a.kind]
        if fits:
            return list(value) if a.kind.endswith("[]") else value
        raise InvalidType(
            f"{self.name}: {a.name} is {value!r:.60}, of type {type(value).__name__}",
            f"the signature says {a.text}: {self.schema}",
            f"pass a value of type {a.text}",
        )

    def shapes(self, tensors: list, attributes: list) -> Shapes:
        """The shapes of the outputs for tensors of these (dtype, rank), None or lists of them."""
        return Shapes(self, *_core.operator_shapes(self.index, tensors, attributes))


def on_operator(listener: Callable[[int], None]) -> None:
    """Calls listener(index) for every operator of the registry, now and when it is defined."""
    _core.on_operator(listener)
