# SPDX-License-Identifier: Apache-2.0
"""ATen's operators in the order of the public vendor-neutral library: inputs, attributes, outputs.

    operators()["linalg_qr"].class_name            # ("linalg",), "Qr"
    gather = operators()["gather"].signatures[0]
    gather.names                                    # ("input", "index", "dim", "sparse_grad")
    gather.out.full_name, gather.outputs            # "gather.out", ("out",)

An operator joins the names that differ in a last underscore: `add` and `add_` are add; `_add` is
internal_add. Its signatures come from the overloads that write outputs, from those that return
tensors, whose results can be copied to outputs, and, where a name has nothing else, from those in
place. Attributes that the library hides, as a generator or a layout, stand last. Thread safety:
pure functions.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from pto.aten.records import Argument, Record, library
from pto.kept import kept

# Types of schemas and their letters in compat/infini/signature.h; a small letter: optional.
_LETTERS = {"Tensor": "T", "Tensor[]": "L", "Tensor?[]": "P", "Scalar": "S", "Scalar[]": "Z",
            "int": "I", "int[]": "A", "bool": "B", "bool[]": "M", "float": "F", "float[]": "D",
            "str": "X", "ScalarType": "Y", "Device": "N", "Layout": "N", "MemoryFormat": "N",
            "Generator": "G"}  # fmt: skip
_HIDDEN = "NG"  # letters that stand last
_NAMESPACES = ("special", "linalg", "fft")
# Operators whose arguments the library has in another order than the rule gives, or in several.
_ORDERS = {
    "argsort": ("input stable dim descending", "input dim descending stable"),
    "histogram": ("input bins weight range density",),
    "multi_margin_loss": (
        "input target weight p margin reduction",
        "input target p margin weight reduction",
    ),
    "scatter": ("input index src value dim reduce",),
    "searchsorted": (
        "sorted_sequence input out_int32 right side sorter",
        "sorted_sequence input sorter out_int32 right side",
    ),
}


def letter(type_: str) -> str | None:
    """The letter of a schema's type; None: the library has no argument of this type."""
    bare = type_.removesuffix("?")
    stem, _, length = bare.partition("[")
    if length not in ("", "]"):  # int[2]: ints, or one for all; bool[3]: bools
        found = "V" if stem == "int" else _LETTERS.get(f"{stem}[]")
    else:
        found = _LETTERS.get(bare)
    return found.lower() if found and type_.endswith("?") else found


@dataclass(frozen=True)
class Signature:
    """Inputs and attributes of a call, in the library's order, and the overloads that serve it."""

    arguments: tuple[Argument, ...]
    outputs: tuple[str, ...]
    output_letters: str
    out: Record | None  # it writes outputs
    functional: Record | None  # it returns results

    @kept
    def names(self) -> tuple[str, ...]:
        return tuple(spelled(one.name) for one in self.arguments)

    @kept
    def letters(self) -> str:
        return "".join(letter(one.type) or "?" for one in self.arguments)

    @kept
    def required(self) -> int:
        """Arguments up to the last one without a default."""
        needed = [i for i, one in enumerate(self.arguments) if one.is_required]
        return needed[-1] + 1 if needed else 0

    @property
    def record(self) -> Record:
        found = self.out or self.functional
        assert found is not None, "a signature has an overload"
        return found

    def __str__(self) -> str:
        given = [
            f"{one.type} {name}" + ("" if one.is_required else f"={one.default!r}")
            for one, name in zip(self.arguments, self.names, strict=True)
        ]
        kinds = ["Tensor[]" if one == "L" else "Tensor" for one in self.output_letters]
        return ", ".join([*given, *map(" ".join, zip(kinds, self.outputs, strict=True))])


@dataclass(frozen=True)
class Operator:
    """All signatures of a name of the library."""

    name: str
    signatures: tuple[Signature, ...]

    @property
    def class_name(self) -> tuple[tuple[str, ...], str]:
        """The namespaces inside `infini::ops`, and the class."""
        parts, spaces = self.name.split("_"), []
        if parts[0] == "internal":
            spaces.append(parts.pop(0))
        if parts[0] in _NAMESPACES and len(parts) > 1:
            spaces.append(parts.pop(0))
        return tuple(spaces), "".join(one.capitalize() for one in parts)


def spelled(argument: str) -> str:
    return "input" if argument == "self" else argument


def public_name(name: str) -> str:
    """The library's name of an operator of ATen: "internal_softmax" of _softmax, "add" of add_."""
    bare = name.lstrip("_")
    if bare.endswith("_") and not bare.endswith("__"):
        bare = bare[:-1]
    return f"internal_{bare}" if name.startswith("_") else bare


def families() -> Mapping[str, Sequence[str]]:
    """The names of ATen behind each name of the library."""
    found: dict[str, list[str]] = {}
    for name in sorted(library().names()):
        found.setdefault(public_name(name), []).append(name)
    return found


def operators() -> Mapping[str, Operator]:
    """Every operator that has a signature, by its name."""
    made = {name: operator(name, family) for name, family in families().items()}
    return {name: one for name, one in sorted(made.items()) if one.signatures}


def operator(name: str, family: Sequence[str]) -> Operator:
    """The operator of this name, from the overloads of a family of names of ATen."""
    found: dict[tuple, Signature] = {}
    records = [record for one in family for record in library().records(one)]
    tensors = {one.name for record in records for one in record.arguments if _is_tensor(one)}
    for record in sorted(records, key=_is_in_place):
        made = _signature(record, tensors)
        if made is None:
            continue
        given = [one for one in record.arguments if one in made.arguments]
        key = tuple((one.name, one.type) for one in given)
        before = found.get(key)
        if before is None:
            found[key] = made
        elif not _is_in_place(record) and len(before.outputs) == len(made.outputs):
            with_out = made if made.out else before
            found[key] = Signature(
                with_out.arguments, with_out.outputs, with_out.output_letters,
                before.out or made.out, before.functional or made.functional,
            )  # fmt: skip
    every = [one for signature in found.values() for one in _in_all_orders(name, signature)]
    return Operator(name, tuple(sorted(every, key=lambda one: one.out is None)))


def _is_in_place(record: Record) -> bool:
    is_named_so = record.name.endswith("_") and not record.name.endswith("__")
    return is_named_so and not record.outputs


def _is_tensor(one: Argument) -> bool:
    return (letter(one.type) or "?").upper() in "TLP"


def _signature(record: Record, tensors: Set[str]) -> Signature | None:
    """The signature of one overload; None: the library cannot have it."""
    outputs = record.outputs
    given = [one for one in record.arguments if one not in outputs]
    if any(letter(one.type) is None for one in given):
        return None
    arguments = _ordered(given, tensors)
    if outputs:
        letters = [letter(one.type) for one in outputs]
        names = tuple(one.name for one in outputs)
        kept = all(one in ("T", "L") for one in letters)
        return (
            Signature(arguments, names, "".join(map(str, letters)), record, None) if kept else None
        )
    if _is_in_place(record) or not record.returns:
        is_written = any(one.is_written for one in given)
        return Signature(arguments, (), "", record, None) if is_written else None
    returned = [letter(one) for one in record.returns]
    if any(one not in ("T", "L") for one in returned):
        return None
    names = tuple(f"out{i}" for i in range(len(returned))) if returned[1:] else ("out",)
    return Signature(arguments, names, "".join(map(str, returned)), None, record)


def _ordered(given: Sequence[Argument], tensors: Set[str]) -> tuple[Argument, ...]:
    """Inputs first: the first argument, and what is a tensor in some overload of the name."""

    def rank(one: Argument) -> int:
        if (letter(one.type) or "?").upper() in _HIDDEN:
            return 2
        return 0 if one is given[0] or one.name in tensors else 1

    return tuple(sorted(given, key=rank))


def _in_all_orders(name: str, one: Signature) -> Iterator[Signature]:
    """The signature in each order that the library has for it."""
    orders = [order.split() for order in _ORDERS.get(name, ())]
    orders = [order for order in orders if {*one.names} <= {*order}]
    if not orders:
        yield one
    for order in orders:
        ranked = sorted(one.arguments, key=lambda argument: order.index(spelled(argument.name)))
        yield replace(one, arguments=tuple(ranked))
