# SPDX-License-Identifier: Apache-2.0
"""Finds the overload that a call means, and its values in the order of the schema.

    bound = bind(library().records("add"), (x, 2), {"alpha": 3})
    bound.record.full_name      # "add.Scalar": a number is nearer to Scalar than to Tensor
    bound.values                # {"self": x, "other": 2, "alpha": 3}

Library.convert() tells how far each value is from its argument's type; bind() chooses the overload
with the smallest sum, and among equal ones the dispatcher's first. Thread safety: pure functions.
"""

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pto.aten.records import Argument, Record, library
from pto.errors import InvalidType, nearest


@dataclass(frozen=True, slots=True)
class Bound:
    """A call of one overload: the given values, converted, by the names of their arguments.

    `distance` is how far they are from the types of the schema, 0 or more.
    """

    record: Record
    values: Mapping[str, Any]
    distance: int


def bind(records: Sequence[Record], args: tuple, kwargs: Mapping[str, Any]) -> Bound:
    """The nearest overload that takes a call, with its values.

    Raises InvalidType, with each schema and what does not fit it, where none takes it.
    """
    best, refusals = None, []
    for record in records:
        bound = _bind_one(record, args, kwargs)
        if isinstance(bound, str):
            refusals.append((record, bound))
        elif best is None or bound.distance < best.distance:
            best = bound
    if best is None:
        raise _refused(refusals, args, kwargs)
    return best


def _bind_one(record: Record, args: tuple, kwargs: Mapping[str, Any]) -> Bound | str:
    """The call of this overload, or the reason why it does not take the call."""
    given = _by_name(record, args, kwargs)
    if isinstance(given, str):
        return given
    values, distance = {}, 0
    for argument in record.arguments:
        if argument.name not in given:
            if argument.is_required:
                return f"{argument.name} is missing"
            continue
        value = given[argument.name]
        converted = library().convert(argument.type, value)
        is_number = argument.is_written and converted is not None and converted[0] == 2
        if converted is None or is_number:  # nobody would see what is written into a number
            return f"{argument.name} is {library().describe(value)}, not {argument.type}"
        distance += converted[0]
        values[argument.name] = _repeated(argument.type, converted[1])
    return Bound(record, values, distance)


def _repeated(type_: str, value: Any) -> Any:
    """A number for a list of one length ("int[2]") as that list: PyTorch takes it only for some."""
    length = type_.rstrip("]?").rpartition("[")[2]
    is_one = length.isdigit() and value is not None and not isinstance(value, list)
    return [value] * int(length) if is_one else value


def _by_name(record: Record, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any] | str:
    positional = [a.name for a in record.arguments if not a.is_keyword_only]
    if len(args) > len(positional):
        return f"it takes {len(positional)} positional arguments, {len(args)} are given"
    given = dict(zip(positional, args, strict=False))
    for spelled, value in _outputs_by_name(record, kwargs).items():
        bare = spelled.removesuffix("_")
        name = bare if keyword.iskeyword(bare) else spelled  # from_ is "from"
        if name in given:
            return f"{name} is given twice"
        if not any(a.name == name for a in record.arguments):
            return f"it has no {name}; {nearest(name, [a.name for a in record.arguments])}"
        given[name] = value
    return given


def _outputs_by_name(record: Record, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """`out=(values, indices)` for an overload whose outputs have names of their own."""
    outputs: Sequence[Argument] = record.outputs
    if "out" not in kwargs or not outputs or any(a.name == "out" for a in record.arguments):
        return kwargs
    given = kwargs["out"]
    several = given if isinstance(given, tuple | list) else (given,)
    if len(several) != len(outputs):
        return kwargs
    rest = {name: value for name, value in kwargs.items() if name != "out"}
    return {**rest, **{a.name: value for a, value in zip(outputs, several, strict=True)}}


def _refused(
    refusals: list[tuple[Record, str]], args: tuple, kwargs: Mapping[str, Any]
) -> InvalidType:
    describe = library().describe
    given = [describe(a) for a in args] + [f"{n}={describe(v)}" for n, v in kwargs.items()]
    name = refusals[0][0].name if len(refusals) > 1 else refusals[0][0].full_name
    lines = [f"\n    {record.schema}: {reason}" for record, reason in refusals[:12]]
    if len(refusals) > 12:
        lines.append(f"\n    and {len(refusals) - 12} more: pto.aten.{name}.overloads")
    return InvalidType(
        f"{name}({', '.join(given)}) fits no overload",
        "each takes:" + "".join(lines),
        "give the arguments of one of them",
    )
