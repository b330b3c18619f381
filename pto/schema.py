# SPDX-License-Identifier: Apache-2.0
"""Signatures of operators, as the definition and the adapters see them, and the values of a call.

In use:

    values = bound("add", "add(Tensor x, Tensor y) -> Tensor", arguments, (x,), {"y": y})
    [checked("add", schema, a, v) for a, v in zip(arguments, values)]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pto.errors import InvalidType, InvalidValue

if TYPE_CHECKING:
    import inspect


@dataclass(frozen=True)
class Argument:
    """One argument of a schema; `kind` is Tensor, Tensor[], int, SymInt, float, bool, str, int[].

    `text` is the type as the schema spells it, `type` the variable of a tensor's element type.
    """

    name: str
    kind: str
    optional: bool
    mutable: bool
    keyword_only: bool
    list_size: int
    has_default: bool
    default: Any
    type: int
    text: str

    @property
    def is_tensor(self) -> bool:
        return self.kind.startswith("Tensor")


@dataclass(frozen=True)
class Output:
    """An output; `replaces`: the mutable argument whose elements it replaces, or -1.

    `type` is the variable of its element type, or -1 - the number of that type. A gradient operator
    takes the gradients of those that are differentiable. The first size
    of a bounded one is the most that it can be.
    """

    name: str
    is_list: bool
    type: int
    replaces: int
    is_differentiable: bool
    is_bounded: bool


class Signature:
    """The schema of an operator in its parts; see abi/operator.h for the meaning of its members."""

    def __init__(self, facts: dict[str, Any]):
        self.name: str = facts["name"]
        self.schema: str = facts["schema"]
        self.signature: str = facts["signature"]  # the schema with names of outputs
        self.arguments = tuple(Argument(**a) for a in facts["arguments"])
        self.outputs = tuple(Output(**o) for o in facts["outputs"])
        self.n_returns: int = facts["n_returns"]
        self.type_names: list[str] = facts["type_names"]
        self.types: list[list[str]] = facts["types"]  # of each variable
        self.tensors = tuple(a for a in self.arguments if a.is_tensor)
        self.attributes = tuple(a for a in self.arguments if not a.is_tensor)

    @property
    def mutates(self) -> bool:
        return any(a.mutable for a in self.arguments)

    @property
    def is_bounded(self) -> bool:
        """Says whether a result has a size that is known only after the kernel ran."""
        return any(output.is_bounded for output in self.outputs)


_PYTHON_TYPES = {"int": int, "SymInt": int, "float": float, "bool": bool, "str": str,
                 "int[]": Sequence[int], "Tensor[]": Sequence[Any]}  # fmt: skip


def signature_of(arguments: Sequence[Argument]) -> "inspect.Signature":
    """The signature of a call as Python has it, for help() and completion; arrays are Any."""
    import inspect  # costs more than all of this file

    def parameter(a: Argument) -> inspect.Parameter:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        kind = inspect.Parameter.KEYWORD_ONLY if a.keyword_only else kind
        default = a.default if a.has_default else inspect.Parameter.empty
        found: Any = _PYTHON_TYPES.get(a.kind, Any)
        found = found | None if a.optional and found is not Any else found
        return inspect.Parameter(a.name, kind, default=default, annotation=found)

    parameters = [*map(parameter, arguments)]
    if all(a.name != "out" for a in arguments):
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter("out", kind, default=None, annotation=Any))
    return inspect.Signature(parameters, return_annotation=Any)


def bound(
    name: str, schema: str, arguments: Sequence[Argument], args: tuple, kwargs: dict[str, Any]
) -> list[Any]:
    """The values of a call in schema order, defaults filled in; raises InvalidType."""
    positional = [a.name for a in arguments if not a.keyword_only]
    given = dict(zip(positional, args, strict=False))
    names = {a.name for a in arguments}
    wrong = [name for name in kwargs if name in given or name not in names]
    given |= kwargs
    missing = [a.name for a in arguments if not a.has_default and a.name not in given]
    if wrong or missing or len(args) > len(positional):
        raise InvalidType(
            f"{name}: called with {len(args)} positional arguments"
            + "".join(f", {n}=" for n in kwargs)
            + (f"; missing: {', '.join(missing)}" if missing else ""),
            f"the signature is {schema}",
            "call it as the signature says",
        )
    return [given.get(a.name, a.default) for a in arguments]


def checked(name: str, schema: str, a: Argument, value: Any) -> Any:
    """An attribute converted to its kind; checks tensors only for None and lists."""
    if value is None and a.optional:
        return None
    if a.kind == "Tensor" and value is not None:
        return value
    is_list = a.kind == "int[]" and isinstance(value, list | tuple)
    for number in value if is_list else [value]:
        if isinstance(number, int) and a.kind != "float" and not -(1 << 63) <= number < 1 << 63:
            verb = "holds" if is_list else "is"
            raise InvalidValue(
                f"{name}: {a.name} {verb} {number!r:.60}, which does not fit into 64 bits",
                f"the signature says {a.text}: {schema}",
                "pass a smaller number",
            )
    if a.kind == "int[]" and a.list_size and isinstance(value, int):
        return [value] * a.list_size
    is_array = type(value).__module__ == "numpy" and getattr(value, "size", 1) != 1
    is_one = not isinstance(value, type) and not is_array
    is_whole = is_one and hasattr(value, "__index__")
    is_size = is_whole or (hasattr(value, "__floordiv__") and not hasattr(value, "__float__"))
    fits = {
        "Tensor": False,
        "Tensor[]": isinstance(value, list | tuple),
        "int": is_whole and not isinstance(value, bool),
        "SymInt": is_size and not isinstance(value, bool),  # also a framework's symbol for one
        "float": is_one and hasattr(value, "__float__"),
        "bool": isinstance(value, bool) or type(value).__name__ == "bool",
        "str": isinstance(value, str),
        "int[]": isinstance(value, list | tuple)
        and all(hasattr(n, "__index__") for n in value)
        and len(value) == (a.list_size or len(value)),
    }[a.kind]
    if fits:
        return list(value) if a.kind.endswith("[]") else value
    raise InvalidType(
        f"{name}: {a.name} is {value!r:.60}, of type {type(value).__name__}",
        f"the signature says {a.text}: {schema}",
        f"pass a value of type {a.text}",
    )
