# SPDX-License-Identifier: Apache-2.0
"""Samples of ATen's overloads, made from PyTorch's own: its table of operators with their inputs.

    for sample in samples(seed=7, share=10): sample.record, sample.values

A sample is one call below autograd: what runs under an entry of the table, its in-place form and
its gradient, seen by a dispatch mode; and the entry's own name and aliases, which PyTorch takes
apart before a mode sees them. Twins follow by rule: the `out` overload and the in-place name of a
functional call; a name with `special_` or an underscore before one that takes the same; and, for
overloads that nothing else reaches, a number for a tensor, a type, a generator. What is left stands
in aten_samples_by_hand.py, by name, and in aten_samples_by_overload.py.
"""

import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from aten_samples_by_hand import by_hand
from aten_samples_by_overload import by_overload
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pto.aten.binding import bind
from pto.aten.records import Record, library, record_of
from pto.errors import InvalidType

TYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)
MOST = 2  # samples of an overload; aten_samples_by_overload.py has more


@dataclass(frozen=True)
class Sample:
    record: Record
    values: dict[str, Any]

    def copies(self) -> dict[str, Any]:
        """The values, with tensors of their own, since a call may write them."""
        return {name: copied(value) for name, value in self.values.items()}


def copied(value: Any) -> Any:
    """Dense tensors with the same strides, generators of the same state; anything else as it is."""

    def one(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
            return tensor.clone()
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        has_holes = any(
            s == 0 and n > 1 for s, n in zip(tensor.stride(), tensor.shape, strict=True)
        )
        return tensor.detach().clone() if has_holes else made.copy_(tensor.detach())

    value = _pytree.tree_map_only(torch.Generator, torch.Generator.clone_state, value)
    return _pytree.tree_map_only(torch.Tensor, one, value)


class Seen(TorchDispatchMode):
    """Notes the calls of ATen that reach the dispatcher's kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[Any, list[tuple[tuple, dict]]] = defaultdict(list)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        calls = self.calls[function]
        if function.namespace == "aten" and len(calls) < MOST:
            calls.append(copied((args, kwargs or {})))
        return function(*args, **(kwargs or {}))


def entries(seed: int, share: int) -> list[Any]:
    """One of `share` entries of PyTorch's table, chosen by the seed."""
    from torch.testing._internal.common_methods_invocations import op_db

    chosen = list(op_db)
    random.Random(seed).shuffle(chosen)
    return chosen[: -(-len(chosen) // share)]


def inputs(entry: Any, most: int = MOST, until: int = 80) -> Iterator[Any]:
    """The first samples of each rank of an entry's input, in the first type that it takes."""
    kinds = entry.supported_dtypes("cpu")
    kind = next((one for one in TYPES if one in kinds), None)
    if kind is None:
        return
    has_gradient = entry.supports_autograd and kind.is_floating_point
    try:
        made = entry.sample_inputs("cpu", kind, requires_grad=has_gradient)
        seen: Counter[int] = Counter()
        for one, _ in zip(made, range(until), strict=False):
            rank = one.input.ndim if isinstance(one.input, torch.Tensor) else -1
            seen[rank] += 1
            if seen[rank] <= most:
                yield one
    except (RuntimeError, ValueError, NotImplementedError, ModuleNotFoundError, AttributeError):
        return  # an entry for another machine, or one that asks for a package


def run_with_gradient(entry: Any, sample: Any, seen: Seen) -> None:
    """Runs an entry, its gradient and its in-place form under the mode."""
    try:
        with seen:
            made = entry(sample.input, *sample.args, **sample.kwargs)
            parts = [t for t in _pytree.tree_leaves(made) if isinstance(t, torch.Tensor)]
            parts = [t for t in parts if t.requires_grad]
            if parts:
                torch.autograd.backward(parts, [torch.ones_like(t) for t in parts])
            if entry.inplace_variant is not None and isinstance(sample.input, torch.Tensor):
                entry.inplace_variant(sample.input.detach().clone(), *sample.args, **sample.kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError):
        return  # the sample is not for this form; the calls before stay


def direct(entry: Any, sample: Any) -> Iterator[tuple[Record, dict[str, Any]]]:
    """The entry's own name and its aliases, called by schema."""
    for name in {entry.name, entry.aten_name, *(alias.name for alias in entry.aliases)}:
        for spelled in {name.replace(".", "_"), name.rpartition(".")[2]}:
            records = library().records(spelled)
            if not records:
                continue
            args, kwargs = copied(((sample.input, *sample.args), sample.kwargs))
            try:
                bound = bind(records, args, kwargs)
            except InvalidType:
                continue
            yield bound.record, dict(bound.values)


def by_schema(record: Record, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [a.name for a in record.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def twins(sample: Sample) -> Iterator[Sample]:
    """The `out` overload of a functional call, and its in-place name."""
    record, names = sample.record, [(a.name, a.type) for a in sample.record.arguments]
    if any(a.is_written for a in record.arguments):
        return
    for other in library().records(record.name):
        outputs = other.outputs
        if [(a.name, a.type) for a in other.arguments if a not in outputs] == names and outputs:
            made = _run(record, sample.copies())
            if len(made) == len(outputs) and all(isinstance(one, torch.Tensor) for one in made):
                given = [torch.zeros(one.shape, dtype=one.dtype) for one in made]
                named = zip([a.name for a in outputs], given, strict=True)
                yield Sample(other, {**sample.values, **dict(named)})
    for other in library().records(record.name + "_"):
        if [(a.name, a.type) for a in other.arguments] == names:
            yield Sample(other, sample.values)


def namesakes(sample: Sample) -> Iterator[Sample]:
    """special_NAME and _NAME, where they take the same arguments."""
    names = [(a.name, a.type) for a in sample.record.arguments]
    for spelled in (f"special_{sample.record.name}", f"_{sample.record.name}"):
        for other in library().records(spelled):
            if [(a.name, a.type) for a in other.arguments] == names:
                yield Sample(other, sample.values)


def siblings(sample: Sample, unreached: set[Record]) -> Iterator[Sample]:
    """Overloads of the name that take the values but for a number, a type or a generator."""
    if any(a.is_written for a in sample.record.arguments):
        return
    for other in library().records(sample.record.name):
        if other in unreached and not any(a.is_written for a in other.arguments):
            values = _filled(other, sample.copies())
            if values is not None and _run(other, copied(values)):
                yield Sample(other, values)


def _filled(record: Record, given: dict[str, Any]) -> dict[str, Any] | None:
    """Values for all arguments of an overload; None: it needs what no rule makes."""
    values: dict[str, Any] = {}
    for argument in record.arguments:
        value = given.get(argument.name)
        if argument.name in given and library().convert(argument.type, value) is not None:
            values[argument.name] = value
        elif argument.type.startswith("Generator"):
            values[argument.name] = torch.Generator().manual_seed(3)
        elif argument.type == "ScalarType":
            values[argument.name] = torch.float64
        elif argument.type == "Scalar" and isinstance(value, torch.Tensor):
            values[argument.name] = 2
        elif argument.type == "Tensor" and isinstance(value, int | float | complex):
            values[argument.name] = torch.tensor(value)
        elif argument.is_required:
            return None
    return values


def _run(record: Record, values: dict[str, Any]) -> tuple:
    try:
        made = record.handle(**values)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return ()
    return made if isinstance(made, tuple) else (made,)


def samples(seed: int, share: int) -> list[Sample]:
    """At most two calls of each overload that a share of the table reaches, twins included.

    The overloads of by_overload that the share chooses have all their calls.
    """
    seen, found = Seen(), defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        for entry in entries(seed, share):
            for one in inputs(entry):
                run_with_gradient(entry, one, seen)
                for record, values in direct(entry, one):
                    found[record].append(Sample(record, values))
        known: dict[str, dict[Any, Record]] = {}
        for function, calls in seen.calls.items():
            name = function._schema.name.partition("::")[2]
            if name not in known:
                known[name] = {r.handle: r for r in library().records(name)}
            record = known[name].get(function)
            if function.namespace == "aten" and record is not None:
                for args, kwargs in calls:
                    found[record].append(Sample(record, by_schema(record, args, kwargs)))
        for name, args, kwargs in by_hand(seed, share):
            bound = bind(library().records(name), args, kwargs)
            found[bound.record].append(Sample(bound.record, dict(bound.values)))
        _add_relatives(found)
        every = [one for several in found.values() for one in several[:MOST]]
        for full_name, args, kwargs in by_overload(seed, share):
            record = record_of(full_name)
            sample = Sample(record, dict(bind([record], args, kwargs).values))
            every += [sample, *twins(sample)]
    return every


def _add_relatives(found: dict[Record, list[Sample]]) -> None:
    """Adds what follows by rule: namesakes, siblings of names that were reached, then twins."""

    def every() -> list[Sample]:
        return [one for record in list(found) for one in found[record][:MOST]]

    for sample in every():
        for other in namesakes(sample):
            found[other.record].append(other)
    unreached = {r for name in {r.name for r in found} for r in library().records(name)}
    unreached -= {record for record, several in found.items() if several}
    for sample in every():
        for other in siblings(sample, unreached):
            found[other.record].append(other)
    for sample in every():
        for twin in twins(sample):
            found[twin.record].append(twin)
