# SPDX-License-Identifier: Apache-2.0
"""Sorts the arguments of a jitted function's call that PyTorch makes: tensors, numbers, constants.

The rules are those of the compiled call (bindings/jit_binder.cpp), for calls that it leaves to
PyTorch: tensors that require grad, wrapped ones, those of other devices, symbolic sizes.
"""

import copy
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pto.errors import Error
from pto.language import arguments
from pto.language.dtypes import dtype

if TYPE_CHECKING:
    from pto.language.jit import Jit

FLOATS = ("f32", "f64", "f16", "bf16")


@dataclass
class SortedCall:
    """A call sorted: the places and types of its tensors, its constants and numbers."""

    values: list
    tensors: list[int]
    numbers: list[int]
    constants: tuple  # the key of each other value
    kinds: tuple  # (element type, rank) of each tensor


def sorted_call(jit: "Jit", args: tuple, kwargs: dict[str, Any]) -> SortedCall:
    """Sorts a call with at least one tensor of PyTorch; raises Error for what it cannot take."""
    given = SortedCall(bound(jit, args, kwargs), [], [], (), ())
    constants, kinds = [], []
    for place, value in enumerate(given.values):
        name = jit.parameters[place]
        if _is_tensor(value):
            kinds.append(_kind(jit, name, value))
            given.tensors.append(place)
            continue
        value = given.values[place] = _plain(jit, place, value)
        if type(value) is float or _type_name(value) == "torch.SymFloat":
            if not jit.steering >> place & 1 and name not in jit.constants:
                given.numbers.append(place)
                continue
            value = given.values[place] = float(value)
        constants.append((place, _constant_key(jit, place, value)))
    if not kinds:
        arguments.refuse(jit.__name__, jit.__name__, None, "no tensor", "")
    given.constants, given.kinds = tuple(constants), (*kinds, _widens(given, kinds))
    return given


def bound(jit: "Jit", args: tuple, kwargs: dict[str, Any]) -> list:
    """The values of all parameters; the compiled call has already checked that they bind."""
    return [*bound_by_name(jit, args, kwargs).values()]


def bound_by_name(jit: "Jit", args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The same by the names of the parameters, in their order."""
    names, defaults = jit.parameters, jit.defaults
    values = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    values |= zip(names, args, strict=False)
    values |= kwargs
    return {name: values[name] for name in names}


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"


def _is_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)


def _kind(jit: "Jit", name: str, value: Any) -> tuple[str, int]:
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunctionSubclass():
        return _kind_of_plain(jit, name, value, torch.strided)


def _kind_of_plain(jit: "Jit", name: str, value: Any, strided: Any) -> tuple[str, int]:
    if value.layout != strided:
        arguments.refuse(jit.__name__, name, value, "unreadable", f"its layout is {value.layout}")
    if value.is_nested:
        arguments.refuse(jit.__name__, name, value, "unreadable", "it is a nested tensor")
    try:
        return dtype(value.dtype).name, value.ndim
    except Error:
        arguments.refuse(jit.__name__, name, value, "dtype", "")


def _widens(given: SortedCall, kinds: list[tuple[str, int]]) -> bool:
    """Says whether autocast makes floating-point tensors of several types the widest of them."""
    torch = sys.modules["torch"]
    if len({kind for kind, _ in kinds if kind in FLOATS}) < 2:
        return False
    return any(torch.is_autocast_enabled(given.values[p].device.type) for p in given.tensors)


def _plain(jit: "Jit", place: int, value: Any) -> Any:
    """A constant as the function gets it: PyTorch's sizes and NumPy's numbers become Python's."""
    symbolic = {"torch.SymInt": int, "torch.SymBool": bool}.get(_type_name(value))
    if symbolic:
        return symbolic(value)
    if jit.is_object(place, value):
        return value
    kind = arguments.classify(type(value))
    if kind == arguments.NUMPY_NUMBER:
        return value.item()
    if kind in (arguments.NUMPY, arguments.DLPACK, arguments.EXCHANGE):
        arguments.refuse(jit.__name__, jit.parameters[place], value, "mixed libraries", "Tensor")
    may_change = kind == arguments.STRUCTURE or isinstance(value, tuple)
    return copy.deepcopy(value) if may_change else value


def _constant_key(jit: "Jit", place: int, value: Any) -> Any:
    """A key that tells constants apart: by type too, and by the sign of zero."""
    if jit.is_object(place, value):
        return jit.state(value)
    found = arguments.constant_key(jit.__name__, jit.parameters[place], value)
    return type(value), repr(found), found if isinstance(found, tuple) else None
