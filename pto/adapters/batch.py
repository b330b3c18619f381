# SPDX-License-Identifier: Apache-2.0
"""Proves that an operator on tensors with one more leading axis does the same for each row.

    batched_outputs(record, (1, 1), [("f32", (4, 3), True), ("f32", (3,), False)], [])   # [True]

It traces the operator with and without the batch (pto/ir/batch.hpp) and compares the graphs; where
they prove nothing, or the operator has no trace, the answer is None. It imports no framework.
Thread safety: any thread may call.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from pto import _core
from pto.adapters.record import Record
from pto.errors import Error


def batched_outputs(
    record: Record, counts: Sequence[int], tensors: Sequence[tuple], attributes: Sequence[Any]
) -> list[bool] | None:
    """Says for each output, those of lists one after another, whether it has the batch in front.

    None: one call with the batch is not proved to compute what each row asks for. `tensors` are
    (dtype, shape without the batch, whether it has one) of the given tensors, `counts` as in
    abi/operator.h, `attributes` in schema order. Of the sizes only those that are 1 matter.
    """
    found = _mapped(record, counts, tensors, attributes)
    return found and [batched for batched, _ in found]


def padded_outputs(
    record: Record, counts: Sequence[int], tensors: Sequence[tuple], attributes: Sequence[Any]
) -> tuple[list[int | None], list[Any]] | None:
    """batched_outputs() for tensors that get axes of 1 behind the batch, up to the highest rank.

    Returns for each output its rank without the batch, None where it has no batch; an output has
    such axes of 1 too. Returns also the attributes of the call with the batch: where the given ones
    do not serve, one that counts an axis from the front counts it from the back instead.
    """
    highest = max(len(shape) for _, shape, _ in tensors)
    for chosen in _counted_from_the_back(record, attributes, highest):
        found = _mapped(record, counts, tensors, attributes, chosen)
        if found is not None:
            return [rank if batched else None for batched, rank in found], chosen
    return None


def _counted_from_the_back(
    record: Record, attributes: Sequence[Any], rank: int
) -> Iterator[list[Any]]:
    """The attributes, then with each in turn that may number axes, of a tensor of this rank."""
    yield list(attributes)
    for place, (a, value) in enumerate(zip(record.attributes, attributes, strict=True)):
        axes = value if isinstance(value, list) else [value]
        if a.kind in ("int", "int[]") and any(n is not None and 0 <= n < rank for n in axes):
            moved = [n - rank if 0 <= n < rank else n for n in axes]
            changed = moved if isinstance(value, list) else moved[0]
            yield [*attributes[:place], changed, *attributes[place + 1 :]]


def _mapped(
    record: Record, counts: Sequence[int], tensors: Sequence[tuple], attributes: Sequence[Any],
    padded_attributes: Sequence[Any] | None = None,
) -> list[tuple[bool, int]] | None:  # fmt: skip
    """For each output whether it has the batch, and its rank without; `padded_attributes` pads."""
    symbols = map(_core.Dim.symbol, itertools.count())
    shapes = [
        tuple(1 if isinstance(n, int) and n == 1 else next(symbols) for n in shape)
        for _, shape, _ in tensors
    ]
    sizes = [next(symbols) if a.kind == "SymInt" else None for a in record.attributes]

    def traced_with(tensors: list[tuple], attributes: Sequence[Any]) -> _core.Graph:
        values = [
            v if size is None or v is None else size
            for v, size in zip(attributes, sizes, strict=True)
        ]
        return _core.trace_operator(record.index, record.by_argument(counts, tensors), values)

    batch = next(symbols)
    highest = 0 if padded_attributes is None else max(map(len, shapes))
    has_batch = [b for _, _, b in tensors]
    one = [(dtype, shape) for (dtype, _, _), shape in zip(tensors, shapes, strict=True)]
    many = [
        (d, (batch, *[1] * (highest - len(s)), *s) if b else s)
        for (d, s), b in zip(one, has_batch, strict=True)
    ]
    try:
        single = traced_with(one, attributes)
        mapped = traced_with(many, attributes if padded_attributes is None else padded_attributes)
    except Error:
        return None
    others = len(single.inputs) - len(has_batch)  # sizes and numbers of the call
    found = mapped.map_batch(single, has_batch + [False] * others, batch)
    ranks = [len(shape) for _, shape in single.outputs]
    return found if found is None else list(zip(found, ranks, strict=True))
