# SPDX-License-Identifier: Apache-2.0
"""Whether an operator on tensors with one more axis in front does the same for each of its rows.

    batched_outputs(record, (1, 1), [("f32", (4, 3), True), ("f32", (3,), False)], [])   # [True]

Only traced operators are looked into, by tracing them both ways (pto/ir/batch.hpp): the answer is
a proof, and "no" where there is none. Free of frameworks. Thread safety: any thread may call.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from pto import _core
from pto.adapters.record import Record
from pto.errors import Error


def batched_outputs(
    record: Record, counts: Sequence[int], tensors: Sequence[tuple], attributes: Sequence[Any]
) -> list[bool] | None:
    """Which outputs, those of lists one after another, have the batch axis in front.

    None: the call with the batch is another one. `tensors`: (dtype, shape without the batch,
    whether it has one) of those that are given, `counts` as in op/operator.h; of a size counts only
    whether it is 1. `attributes` stand in schema order.
    """
    symbols = map(_core.Dim.symbol, itertools.count())
    shapes = [
        tuple(1 if isinstance(n, int) and n == 1 else next(symbols) for n in shape)
        for _, shape, _ in tensors
    ]
    values = [
        next(symbols) if a.kind == "SymInt" and v is not None else v
        for a, v in zip(record.attributes, attributes, strict=True)
    ]
    batch = next(symbols)
    has_batch = [b for _, _, b in tensors]
    one = [(dtype, shape) for (dtype, _, _), shape in zip(tensors, shapes, strict=True)]
    many = [(d, (batch, *s) if b else s) for (d, s), b in zip(one, has_batch, strict=True)]
    try:
        single = _core.trace_operator(record.index, _by_argument(record, counts, one), values)
        mapped = _core.trace_operator(record.index, _by_argument(record, counts, many), values)
    except Error:
        return None
    others = len(single.inputs) - len(has_batch)  # sizes and numbers of the call
    return mapped.map_batch(single, has_batch + [False] * others, batch)


def _by_argument(record: Record, counts: Sequence[int], tensors: list[tuple]) -> list[Any]:
    """The tensors of each argument: one, None, or a list."""
    rest = iter(tensors)
    groups = [[next(rest) for _ in range(n)] for n in counts]
    return [
        group if a.kind == "Tensor[]" else group[0] if group else None
        for a, group in zip(record.tensors, groups, strict=True)
    ]
