# SPDX-License-Identifier: Apache-2.0
"""Where the arrays of a call lie, and which share memory with one that is written.

    overlap(x[::2], x[1::2])             # False: no byte belongs to both
    repeats(numpy.broadcast_to(x, s))    # True: several elements lie at one place
    check_apart(record, x, values)       # InvalidValue where another array has a part of x
    needs_own_outputs(record, values)    # whether an output is also an input that it would spoil

PyTorch compares tensors of one storage alone. A tensor without memory of its own, as a sparse one
or one that a transform wraps, shares nothing here. Thread safety: pure functions.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import torch
from pto.adapters.torch.aten import arrays
from pto.adapters.torch.aten.values import describe
from pto.aten.records import Record
from pto.errors import InvalidValue
from pto.language.shared_memory import as_bytes, bytes_meet


def place(value: Any) -> np.ndarray | None:
    """The bytes of any array where they lie; None for a value that has no place."""
    if arrays.kind(value) is None:
        return None
    if not isinstance(value, np.ndarray):
        value = arrays.tensor(value)
        if not arrays.is_strided(value) or not value.numel():
            return None
    try:
        return as_bytes(value)
    except (RuntimeError, ValueError):  # a tensor without memory, or of more axes than NumPy has
        return None


def overlap(one: Any, other: Any) -> bool:
    """Whether two values are arrays that may have a byte in common."""
    first, second = place(one), place(other)
    return first is not None and second is not None and bytes_meet(first, second)


def is_same(one: Any, other: Any) -> bool:
    """Whether two arrays that overlap have the same elements at the same places."""
    a, b = arrays.tensor(one), arrays.tensor(other)
    return (a.data_ptr(), a.shape, a.stride(), a.dtype) == (
        b.data_ptr(), b.shape, b.stride(), b.dtype
    )  # fmt: skip


def repeats(value: Any) -> bool:
    """Whether several elements of an array lie at one place."""
    found = place(value)
    if found is None or not found.size:
        return False
    item, axes = found.shape[-1], zip(found.strides[:-1], found.shape[:-1], strict=True)
    steps = sorted((abs(step), size) for step, size in axes if size > 1)
    end, is_nested = 0, True
    for step, size in steps:
        is_nested = is_nested and step >= end + item
        end += (size - 1) * step
    if is_nested:
        return False
    if found.size > end + item:
        return True
    starts = np.zeros(1, np.int64)
    for step, size in steps:
        starts = (starts[:, None] + step * np.arange(size)).ravel()
    return bool((np.diff(np.sort(starts)) < item).any())


def flat(values: Mapping[str, Any]) -> Iterator[Any]:
    """Every array of a call and every array of its lists, in order."""
    for value in values.values():
        yield from value if isinstance(value, list) else (value,)


def check_apart(record: Record, written: Any, values: Mapping[str, Any]) -> None:
    """Raises InvalidValue where another array of a call has a part of one that is written."""
    for other in flat(values):
        if other is not written and overlap(written, other) and not is_same(written, other):
            raise _shared(record, written, other, "pass memory of its own, or the same elements")


def needs_own_outputs(record: Record, values: Mapping[str, Any]) -> bool:
    """Whether an output is also an input that the kernel reads after it has begun to write.

    A kernel that goes element by element does not, nor one for `self` whose name has a form in
    place. Raises InvalidValue for an output with several elements at one place, or one that shares
    a part of another array.
    """
    given = {argument.name: values[argument.name] for argument in record.outputs}
    outputs, is_shared = list(flat(given)), False
    safe = _safe_inputs(record) if outputs else frozenset()
    for i, one in enumerate(outputs):
        if repeats(one):
            raise InvalidValue(
                f"{record.full_name} writes {describe(one)}, of which several elements lie at one"
                " place",
                "an element would get the values of several",
                "pass memory of its own",
            )
        for other in outputs[:i]:
            if overlap(one, other):
                raise _shared(record, one, other, "pass memory of its own")
        check_apart(record, one, values)
        inputs = flat({n: v for n, v in values.items() if n not in given and n not in safe})
        is_shared = is_shared or any(overlap(one, other) for other in inputs)
    return is_shared


def _safe_inputs(record: Record) -> frozenset[str]:
    """The inputs that may be an output, too."""
    if "pointwise" in record.tags:
        return frozenset(argument.name for argument in record.arguments)
    has_place = hasattr(torch.ops.aten, f"{record.name}_")
    return frozenset(["self"] if has_place else [])


def _shared(record: Record, written: Any, other: Any, fix: str) -> InvalidValue:
    return InvalidValue(
        f"{record.full_name} writes {describe(written)}, of which {describe(other)} shares a part",
        "elements might be overwritten before they are read",
        fix,
    )
