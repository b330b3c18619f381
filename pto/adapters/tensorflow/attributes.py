# SPDX-License-Identifier: Apache-2.0
"""Attributes and element types as TensorFlow's nodes carry them; attributes.hpp reads them.

Encoders raise TypeError, ValueError or OverflowError. Thread safety: pure functions.
"""

import operator
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from pto import _core
from pto.adapters.record import Argument

DTYPES = {row.name: tf.as_dtype(row.numpy) for row in _core.dtypes()}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_EMPTY = {"float": "0", "bool": False, "str": "", "int[]": []}  # of an attribute that is None
_WANTED = {"float": "a real number of 64 bits", "bool": "True or False", "str": "a string"}


def real(value: Any) -> str:
    """A real number as text, which keeps 64 bits; TensorFlow's float attributes have 32."""
    if hasattr(value, "__float__"):  # float() takes texts too
        return repr(float(value))
    raise TypeError


def truth(value: Any) -> bool:
    if value is True or value is False or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def integer(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    found = operator.index(value)
    if not -(2**63) <= found < 2**63:
        raise ValueError
    return found


def integers(size: int) -> Callable[[Any], list[int]]:
    """Encodes a list of integers; for "int[2]" one integer stands for two."""

    def encode(value: Any) -> list[int]:
        if size and not isinstance(value, list | tuple):
            return [integer(value)] * size
        if size not in (0, len(value)):
            raise TypeError
        return [integer(item) for item in value]

    return encode


_ENCODE: dict[str, Callable[[Any], Any]] = {
    "float": real, "bool": truth, "str": text, "int": integer, "SymInt": integer,
}  # fmt: skip


def encoder(argument: Argument) -> Callable[[Any], Any]:
    """The function that encodes a value other than None; raises as the others here."""
    return integers(argument.list_size) if argument.kind == "int[]" else _ENCODE[argument.kind]


def _wanted(argument: Argument) -> str:
    if argument.kind != "int[]":
        return _WANTED.get(argument.kind, "an integer of 64 bits")
    return f"a list of {f'{argument.list_size} ' if argument.list_size else ''}integers of 64 bits"


def encode(name: str, argument: Argument, value: Any) -> Any:
    """The value of an attribute as TensorFlow takes it; None becomes a value that nobody reads."""
    if value is None and argument.optional:
        return _EMPTY.get(argument.kind, 0)
    try:
        return encoder(argument)(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(  # plain: AutoGraph keeps only built-in types
            f"{name}: {argument.name} is {value!r:.60}\n"
            f"  why: the graph stores {_wanted(argument)} as this argument\n"
            "  fix: pass a Python value of this kind, not a tensor"
        ) from None


def decode(argument: Argument, encoded: Any, given: bool = True) -> Any:
    """Decodes an encoded value."""
    if not given:
        return None
    if argument.kind == "float":
        return float(encoded)
    return tf.compat.as_str(encoded) if argument.kind == "str" else encoded
