# SPDX-License-Identifier: Apache-2.0
"""The sizes of results before a call: an `out` of another size is refused, not resized.

    if misfit(record, {"self": x, "other": y, "out": z}): ...

Sizes come from PyTorch's Meta kernels, which compute no elements. They are kept for the sizes,
types and strides that a call had; the table is bounded.
"""

from collections.abc import Mapping
from typing import Any

import torch
from pto.aten.records import Record
from pto.errors import InvalidValue

_KEPT = 1024
# Kernels that give their output the size of the input for a while, which only PyTorch's can take.
_RESIZE_FIRST = frozenset(
    {"huber_loss.out", "mse_loss.out", "smooth_l1_loss.out", "soft_margin_loss.out"}
)
_known: dict[tuple, tuple | None] = {}  # key of a call: sizes of its outputs; None: not known


def misfit(record: Record, values: Mapping[str, Any], unknown: bool = True) -> bool:
    """Whether an output may have another size than the result: no Meta kernel says that it fits.

    Some Meta kernels are wrong, some are missing, where `unknown` is the answer: the sizes that the
    kernel itself makes decide. Lists of outputs are not looked at.
    """
    given = [values[argument.name] for argument in record.outputs]
    if not all(isinstance(one, torch.Tensor) for one in given):
        return False
    is_lent = any(not one.untyped_storage().resizable() for one in given)
    if is_lent and record.full_name in _RESIZE_FIRST:
        return True
    wanted = expected(record, values)
    return unknown if wanted is None else not all(map(_fits, given, wanted))


def fits(record: Record, values: Mapping[str, Any]) -> bool:
    """Whether the Meta kernel takes a call, and its outputs have the sizes of the results."""
    given = tuple(values[argument.name].shape for argument in record.outputs)
    return given == expected(record, values)


def check(record: Record, name: str, given: torch.Tensor, sizes: torch.Size) -> None:
    """Raises InvalidValue where an output of a call has not the size of its result."""
    if not _fits(given, sizes):
        raise InvalidValue(
            f"{record.full_name}: {name} has sizes {list(given.shape)}, the result has"
            f" {list(sizes)}",
            "an output of another size would be resized, and who else holds it is not told",
            "pass one of these sizes, or an empty tensor of PyTorch",
        )


def _fits(given: torch.Tensor, sizes: torch.Size) -> bool:
    return given.shape == sizes or (not given.numel() and given.untyped_storage().resizable())


def expected(record: Record, values: Mapping[str, Any]) -> tuple | None:
    """The sizes of the outputs of an `out` overload; None where no Meta kernel tells."""
    key = (record.full_name, *((name, _key(value)) for name, value in values.items()))
    try:
        if key in _known:
            return _known[key]
    except TypeError:  # a value that is no key, as a generator
        return _computed(record, values)
    found = _computed(record, values)
    if len(_known) >= _KEPT:
        _known.pop(next(iter(_known)), None)
    _known[key] = found
    return found


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.device.type
    if isinstance(value, list):
        return tuple(map(_key, value))
    return type(value), value


def _computed(record: Record, values: Mapping[str, Any]) -> tuple | None:
    if (
        record.full_name == "_compute_linear_combination.out"
    ):  # no Meta kernel, and it never resizes
        return ((*values["coefficients"].shape[:1], *values["input"].shape[1:]),)
    given = {name: _meta(value) for name, value in values.items()}
    names = [argument.name for argument in record.outputs]
    for name in names:
        given[name] = values[name].new_empty(0, device="meta")
    try:
        record.handle(**given)
    except Exception:  # there is none, it reads elements, or the call is wrong, which it will tell
        return None
    return tuple(given[name].shape for name in names)


def _meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return [_meta(one) for one in value] if isinstance(value, list) else value
