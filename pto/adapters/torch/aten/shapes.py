# SPDX-License-Identifier: Apache-2.0
"""The sizes of results before a call: an `out` of another size is refused, not resized.

    fit(record, {"self": x, "other": y, "out": z})     # True, False, or None: nobody knows

PyTorch's Meta kernels, which compute no elements, give the sizes. A bounded table keeps them for
the sizes, types, strides and numbers of earlier calls. Thread safety: any thread may ask.
"""

import warnings
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from pto.aten.records import Record
from pto.errors import InvalidValue
from torch.utils import _pytree

_KEPT = 1024
# Kernels that give their output the size of the input for a while, which only PyTorch's can take.
_RESIZE_FIRST = frozenset(
    {"huber_loss.out", "mse_loss.out", "smooth_l1_loss.out", "soft_margin_loss.out"}
)
_NEVER_RESIZES = "_compute_linear_combination.out"  # and has no Meta kernel
# By key of a call the sizes and strides of its results; None: not known.
_known: "OrderedDict[tuple, tuple | None]" = OrderedDict()
_UNKNOWN: Any = object()  # nobody has asked yet


def fit(record: Record, values: Mapping[str, Any]) -> bool | None:
    """Whether the outputs of a call have the sizes of its results; None: no Meta kernel tells.

    True for an empty output that may grow, for lists of outputs, which nobody checks, and for a
    call that writes nothing if the Meta kernel takes it.
    """
    written = [values[name] for name in _written(record)]
    if not all(isinstance(one, torch.Tensor) for one in written):
        return True
    wanted = expected(record, values)
    if wanted is None:
        return None
    grows = bool(record.outputs)
    pairs = zip(written, wanted, strict=False)  # of a call that writes nothing there are none
    return all(_fits(one, sizes, grows) for one, (sizes, _) in pairs)


def settles(record: Record, values: Mapping[str, Any]) -> bool:
    """Whether the kernel never changes the sizes of the outputs, not even for a while; of a sparse
    output there is no memory that somebody else could hold."""
    given = [values[argument.name] for argument in record.outputs]
    tensors = [one for one in given if isinstance(one, torch.Tensor)]
    if any(one.layout is not torch.strided for one in tensors):
        return True
    is_lent = any(not one.untyped_storage().resizable() for one in tensors)
    if is_lent and record.full_name in _RESIZE_FIRST:
        return False
    return not given or bool(fit(record, values))


def strides(record: Record, values: Mapping[str, Any]) -> list[tuple[int, ...]] | None:
    """The strides of a functional call's results; None where no Meta kernel tells."""
    wanted = expected(record, values)
    return None if wanted is None else [steps for _, steps in wanted]


def check(record: Record, name: str, given: torch.Tensor, sizes: torch.Size) -> None:
    """Raises InvalidValue where an output of a call has another size than its result."""
    if not _fits(given, sizes):
        raise InvalidValue(
            f"{record.full_name}: {name} has sizes {list(given.shape)}, the result has"
            f" {list(sizes)}",
            "an output of another size would be resized, and who else holds it is not told",
            "pass one of these sizes, or an empty tensor of PyTorch",
        )


def _fits(given: torch.Tensor, sizes: torch.Size, grows: bool = True) -> bool:
    is_free = grows and not given.numel() and given.untyped_storage().resizable()
    return given.shape == sizes or is_free


def _written(record: Record) -> tuple[str, ...]:
    """The names of the arguments that a call writes: its outputs, or `self` of a name in place."""
    is_in_place = record.name.endswith("_") and record.arguments[0].is_written
    first = (record.arguments[0].name,) if is_in_place else ()
    return record.output_names or first


def expected(record: Record, values: Mapping[str, Any]) -> tuple | None:
    """Sizes and strides of the results of a call; None where no Meta kernel tells."""
    key = (record.full_name, *((name, _key(value)) for name, value in values.items()))
    try:
        found = _known.get(key, _UNKNOWN)
    except TypeError:  # a value that is no key, as a generator
        return _computed(record, values)
    if found is not _UNKNOWN:
        return found
    found = _computed(record, values)
    if len(_known) >= _KEPT:
        _known.popitem(last=False)
    _known[key] = found
    return found


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.device.type
    if isinstance(value, list):
        return tuple(map(_key, value))
    return type(value), value


def _computed(record: Record, values: Mapping[str, Any]) -> tuple | None:
    if record.full_name == _NEVER_RESIZES:
        sizes = (*values["coefficients"].shape[:1], *values["input"].shape[1:])
        return ((sizes, ()),)
    given = {name: _meta(value) for name, value in values.items()}
    for argument in record.outputs:
        given[argument.name] = values[argument.name].new_empty(0, device="meta")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a tensor in place that grows, which is refused
            made = record.handle(**given)
    except Exception:  # there is none, it reads elements, or the call is wrong, which it will tell
        return None
    results = [given[name] for name in _written(record)] or _pytree.tree_leaves(made)
    tensors = [one for one in results if isinstance(one, torch.Tensor)]
    return tuple((one.shape, one.stride()) for one in tensors)


def _meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return [_meta(one) for one in value] if isinstance(value, list) else value
