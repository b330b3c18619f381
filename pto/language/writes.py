# SPDX-License-Identifier: Apache-2.0
"""Writes into traced tensors: the handle of a tensor goes on to the next version of its value.

    check_writes(out)                    # an error where the function is no program
    replace(out, fitting(out, y, list(out.shape)))

Thread safety: as a trace.
"""

from typing import Any

from pto.errors import InvalidIndex, InvalidType
from pto.language.location import fail
from pto.language.tensor import Tensor
from pto.language.types import cast, operand


def check_writes(x: Tensor) -> None:
    """Raises where x cannot be written: an input of a function that is no program, or rank 0."""
    if x.is_input and not x.trace.can_write:
        fail(
            "writing into an input",
            "a function whose own text assigns to parts of the parameter gives the array its new "
            "version after the call; others compute new tensors and return them",
            "return the new value: pto.where(condition, new, x); or assign to the parameter "
            "under its own name, in a def with @pto.jit",
            InvalidType,
        )
    if not x.ndim:
        fail(
            "a write into a tensor of rank 0",
            "it has no parts",
            "assign the variable: total = value",
            InvalidIndex,
        )


def fitting(x: Tensor, value: object, shape: list[Any]) -> int:
    """A value as a part of x of this shape: numbers take x's type, sizes of 1 stretch."""
    given = operand(value, x, "a write")
    if given.weak:
        given = cast(given, x.dtype)
    if given.dtype is not x.dtype:
        fail(
            f"a write of {given.dtype} into a tensor of {x.dtype}",
            "pto casts nothing silently",
            f"cast the value: pto.cast(value, pto.{x.dtype})",
            InvalidType,
        )
    if given.ndim > len(shape):
        fail(
            f"a write of the shape {list(given.shape)} into a part of the shape {shape}",
            "the value broadcasts to the part, and has at most as many axes",
            "reshape the value",
        )
    return x.trace.here().broadcast(given.value, tuple(shape))


def replace(x: Tensor, value: int) -> None:
    """Puts x on a version with another value of its type; an input counts as written."""
    x.old()  # a body takes what it writes from outside
    if x.is_input:
        x.trace.written[x.trace.input_names[id(x)]] = x
    x.put(value)
