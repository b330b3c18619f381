# SPDX-License-Identifier: Apache-2.0
"""Calls of ATen's kernels on arrays of any kind, through PyTorch's own Python.

    call(record, {"self": x, "other": y, "alpha": 2}, like=None)

call() checks what is written before the kernel runs: it refuses an array that is read-only or that
PyTorch would have to copy, and an `out` of another size than the result, and writes nothing then.
Thread safety: pure functions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import torch
from pto.adapters.torch.aten import arrays, places, shapes
from pto.adapters.torch.aten.places import flat
from pto.adapters.torch.aten.values import describe
from pto.aten.records import Record
from pto.errors import Error, Failure, InvalidIndex, InvalidType, InvalidValue
from torch.utils import _pytree


class NotServed(Failure, NotImplementedError):
    """PyTorch has the operator, but not for these arguments."""


class TooLarge(InvalidValue, OverflowError):
    """PyTorch has no room for a number."""


def call(record: Record, values: Mapping[str, Any], like: Any) -> Any:
    """Runs the kernel; results are of the kind of the call's arrays, or of `like`.

    Raises InvalidType where arrays are of two kinds, InvalidValue for an array that cannot be
    written, and PyTorch's refusal as an error of ours that has its built-in class.
    """
    kind = _kind(record, values, like)
    if kind == "torch":
        tensors = values
    else:
        _check_written(record, values)
        tensors = {name: as_tensors(value) for name, value in values.items()}
    has_own = places.needs_own_outputs(record, values)
    try:
        if kind == "torch":
            made = _run(record, tensors, has_own)
        else:
            with torch._C._AutoDispatchBelowAutograd():
                made = _run(record, tensors, has_own)
    except Error:
        raise
    except Exception as error:
        raise refused(record, values, error) from error
    given = dict(zip(map(id, flat(tensors)), flat(values), strict=True))
    results = _results(made, kind, given)
    _keep_read_only(results, list(flat(values)))
    return results


def _run(record: Record, tensors: Mapping[str, Any], has_own: bool) -> Any:
    """Runs the kernel; for outputs that may not fit, and where the call has outputs of its own, it
    writes new ones, checks them and copies."""
    given = {a.name: tensors[a.name] for a in record.outputs}
    has_own = has_own and all(isinstance(one, torch.Tensor) for one in given.values())
    if not has_own and shapes.settles(record, tensors):
        return record.handle(**tensors)
    fresh = {name: one.new_empty(0) for name, one in given.items()}
    record.handle(**{**tensors, **fresh})
    for name, one in given.items():
        shapes.check(record, name, one, fresh[name].shape)
    for name, one in given.items():
        if one.shape != fresh[name].shape:
            one.resize_(fresh[name].shape)
        one.copy_(fresh[name])
    return tuple(given.values()) if len(given) > 1 else next(iter(given.values()))


def _kind(record: Record, values: Mapping[str, Any], like: Any) -> str:
    """The kind of the first array; all have to be of it."""
    found = [(value, arrays.kind(value)) for value in flat(values)]
    found = [(value, kind) for value, kind in found if kind]
    if like is not None and not found:
        kind = like if isinstance(like, str) else arrays.kind(like)
        if kind not in arrays.KINDS:
            known = ", ".join(arrays.KINDS)
            raise InvalidType(
                f"{record.full_name}: like is {describe(like)}",
                f"it says of which kind results are: {known}, or an array of that kind",
                'pass like="numpy"',
            )
        return kind
    for value, kind in found:
        if kind != found[0][1]:
            first, other = arrays.KINDS[found[0][1]], arrays.KINDS[kind]
            raise InvalidType(
                f"{record.full_name} gets {describe(found[0][0])} of {first}"
                f" and {describe(value)} of {other}",
                "results have the kind of the arguments, which have to be of one",
                "convert one of them: torch.from_numpy(x), or t.numpy()",
            )
    return found[0][1] if found else "torch"


def _check_written(record: Record, values: Mapping[str, Any]) -> None:
    if "inplace_view" in record.tags:
        raise InvalidType(
            f"{record.full_name} gives its tensor other sizes or strides",
            "arrays of NumPy and DLPack keep theirs",
            f"call {record.name.rstrip('_')}, or pass a tensor of PyTorch",
        )
    for argument in record.arguments:
        if argument.is_written and argument.name in values:
            value = values[argument.name]
            for one in value if isinstance(value, list) else (value,):
                reason = arrays.why_not_written(one)
                if reason:
                    raise InvalidValue(
                        f"{record.full_name} writes {argument.name}, {describe(one)}: {reason}",
                        "a copy would be written in its place",
                        "pass an array that can be written where it lies",
                    )
                places.check_apart(record, one, values)


def as_tensors(value: Any) -> Any:
    """Arrays as tensors over their memory; other values as they are."""
    if isinstance(value, list):
        return [as_tensors(one) for one in value]
    return arrays.tensor(value) if arrays.kind(value) else value


def _results(made: Any, kind: str, given: Mapping[int, Any]) -> Any:
    """The results as arrays of a kind; a written argument comes back as the caller's array."""
    if isinstance(made, torch.Tensor):
        return given[id(made)] if id(made) in given else arrays.array(made, kind)
    if isinstance(made, tuple | list):
        return type(made)(_results(one, kind, given) for one in made)
    return made


def _keep_read_only(results: Any, given: list[Any]) -> None:
    """Marks NumPy's results read-only that are views of an argument which is."""
    frozen = [one for one in given if isinstance(one, np.ndarray) and not one.flags.writeable]
    for result in _pytree.tree_leaves(results) if frozen else ():
        is_made = isinstance(result, np.ndarray) and not any(result is one for one in given)
        if is_made and any(places.overlap(result, one) for one in frozen):
            result.flags.writeable = False


_CLASSES: dict[type[Exception], type[Error]] = {
    NotImplementedError: NotServed,
    OverflowError: TooLarge,
    IndexError: InvalidIndex,
    TypeError: InvalidType,
    ValueError: InvalidValue,
    RuntimeError: Failure,
}


def refused(record: Record, values: Mapping[str, Any], error: Exception) -> Error:
    """PyTorch's refusal as an error of ours, which is of the same built-in class, or a Failure."""
    if isinstance(error, Error):
        return error
    known = (kind for theirs, kind in _CLASSES.items() if isinstance(error, theirs))
    ours = next(known, Failure)
    text = str(error).partition("\nException raised from")[0].strip()
    given = ", ".join(f"{name}={describe(value)}" for name, value in values.items())
    return ours(
        f"{record.full_name}({given}): PyTorch refuses the call: {text}",
        f"the schema is {record.schema}",
        "give arguments that its kernel takes",
    )
