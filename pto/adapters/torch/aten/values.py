# SPDX-License-Identifier: Apache-2.0
"""Values of a call of ATen: what each type of a schema takes, and how far a value is from it.

    convert("Scalar", 2)           # (0, 2)
    convert("int[2]", 3)           # (1, 3): PyTorch takes one number for both
    convert("Tensor", 2)           # (2, 2): a tensor of rank 0 that widens nothing
    convert("int", 2.5)            # None

Thread safety: pure functions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import torch
from pto.adapters.torch.aten.arrays import describe as describe_array
from pto.adapters.torch.aten.arrays import kind
from pto.errors import InvalidType
from pto.language.dtypes import DType
from pto.language.dtypes import dtype as our_dtype

Converted = tuple[int, Any] | None
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _tensor(value: Any) -> Converted:
    if kind(value):
        return 0, value
    number = _number(value)
    return (2, number) if isinstance(number, bool | int | float | complex) else None


def _int(value: Any) -> Converted:
    number = _number(value)
    is_int = isinstance(number, int | torch.SymInt) and not isinstance(number, bool)
    return (0, number) if is_int else None


def _float(value: Any) -> Converted:
    number = _number(value)
    if isinstance(number, float | torch.SymFloat):
        return 0, number
    return (1, float(number)) if type(number) is int else None


def _complex(value: Any) -> Converted:
    number = _number(value)
    if isinstance(number, complex):
        return 0, number
    return (1, complex(number)) if type(number) in (int, float) else None


def _scalar(value: Any) -> Converted:
    number = _number(value)
    kinds = bool | int | float | complex | torch.SymInt | torch.SymFloat | torch.SymBool
    return (0, number) if isinstance(number, kinds) else None


def _bool(value: Any) -> Converted:
    number = _number(value)
    return (0, number) if isinstance(number, bool | torch.SymBool) else None


def _dtype(value: Any) -> Converted:
    if isinstance(value, torch.dtype):
        return 0, value
    if isinstance(value, str | DType | np.dtype | type):
        name = value.name if isinstance(value, np.dtype) else value
        found = getattr(torch, name, None) if isinstance(name, str) else None
        if isinstance(found, torch.dtype):
            return 0, found
        try:
            name = np.dtype(value).name if isinstance(value, type) else our_dtype(value).long_name
        except (InvalidType, TypeError):
            return None
        found = getattr(torch, name, None)
        return (0, found) if isinstance(found, torch.dtype) else None
    return None


def _device(value: Any) -> Converted:
    if isinstance(value, torch.device):
        return 0, value
    if not isinstance(value, str):
        return None
    try:
        return 0, torch.device(value)
    except RuntimeError:
        return None


def _named(known: tuple[str, ...], type_: type) -> Callable[[Any], Converted]:
    """Values of one of PyTorch's enumerations, or their names."""

    def take(value: Any) -> Converted:
        if isinstance(value, type_):
            return 0, value
        return (0, getattr(torch, value)) if isinstance(value, str) and value in known else None

    return take


def _instance(*types: type) -> Callable[[Any], Converted]:
    return lambda value: (0, value) if isinstance(value, types) else None


def _anything(value: Any) -> Converted:
    return 0, value


_TAKES: dict[str, Callable[[Any], Converted]] = {
    "Tensor": _tensor,
    "int": _int,
    "float": _float,
    "complex": _complex,
    "Scalar": _scalar,
    "bool": _bool,
    "str": _instance(str),
    "ScalarType": _dtype,
    "Device": _device,
    "Layout": _named(_LAYOUTS, torch.layout),
    "MemoryFormat": _named(_FORMATS, torch.memory_format),
    "Generator": _instance(torch.Generator),
    "Storage": _instance(torch.UntypedStorage, torch.TypedStorage),
}


def convert(type_: str, value: Any) -> Converted:
    """The value as PyTorch takes it, and how far it is from the type; see records.Library."""
    if type_.endswith("?"):
        if value is None:
            return 0, None
        type_ = type_[:-1]
    if not type_.endswith("]"):
        return _TAKES.get(type_, _anything)(value)
    element, _, length = type_[:-1].rpartition("[")
    if isinstance(value, list | tuple | torch.Size):
        return _list(element, value)
    one = convert(element, value) if length and element != "Tensor" else None
    return one and (1 + one[0], one[1])


def _list(element: str, values: Any) -> Converted:
    converted, distance = [], 0
    for value in values:
        one = convert(element, value)
        if one is None or (element.startswith("Tensor") and one[0]):
            return None
        distance = max(distance, one[0])
        converted.append(one[1])
    return distance, converted


def describe(value: Any) -> str:
    """A value in an error."""
    if kind(value):
        return describe_array(value)
    if isinstance(value, list | tuple) and value and any(kind(one) for one in value):
        return f"[{', '.join(map(describe, value[:4]))}{', ...' if len(value) > 4 else ''}]"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
