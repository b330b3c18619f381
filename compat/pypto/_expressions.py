# SPDX-License-Identifier: Apache-2.0
"""Functions of the public package that are a few of the language's: pypto.ceil_div.

Positions are i32 there, and sums of integers have the type of what is summed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pto
from pto.language import Tensor
from pto.language.location import fail
from pypto._arguments import with_public_names

NAMES = """
    arange argmax argmin argsort assemble axpy_ ceil_div dequantize ones prod quantize reshape
    scatter_update sum topk view where zeros
"""


def axpy_(y: Any, x: Any, alpha: Any = 1.0) -> Any:
    pto.move(y + x * alpha, y)
    return y


def ceil_div(self: Any, other: Any) -> Any:
    """The least whole number that is not below a / b; integers wrap nowhere on the way."""
    down = pto.floor_divide(self, other)
    if not isinstance(down, Tensor) or down.dtype.is_float:
        return -pto.floor_divide(-self, other)
    return down + pto.cast(pto.remainder(self, other) != 0, down.dtype)


def scatter_update(input: Any, dim: int, index: Any, src: Any) -> Any:
    """The language's scatter_update: rows along the last axis but one."""
    if dim not in (-2, input.ndim - 2):
        fail(
            f"scatter_update along axis {dim} of {input!r}",
            "rows are put along the last axis but one",
            f"pass -2 or {input.ndim - 2}, or use index_add or scatter for another axis",
        )
    return pto.scatter_update(input, index, src)


def where(condition: Any, input: Any, other: Any) -> Any:
    return pto.where(condition, input, other)


def reshape(input: Any, shape: Any, *, valid_shape: Any = None, inplace: bool = False) -> Any:
    return pto.reshape(input, shape, valid_shape=valid_shape, inplace=inplace)


def view(input: Any, shape: Any = None, offsets: Any = None, valid_shape: Any = None,
         *, dtype: Any = None) -> Any:  # fmt: skip
    """A part; offsets are 0 where none are given."""
    if dtype is not None and dtype is not input.dtype:
        fail(f"view of {input.dtype} as {dtype}", "no function of pto reads bits as another type",
             "pass the tensor as that type, or pypto.cast its numbers")  # fmt: skip
    shape = input.shape if shape is None else shape
    offsets = [0] * len(shape) if offsets is None else offsets
    return pto.view(input, shape, offsets, valid_shape)


def assemble(src: Any, *where: Any, parallel: bool = False, **named: Any) -> None:
    """assemble(value, offsets, into), or assemble([(value, offsets), ...], into)."""
    if isinstance(src, Sequence):
        (into,) = where or named.values()
        for value, offsets in src:
            pto.assemble(value, offsets, into)
        return
    named = {"into" if name == "dst" else name: value for name, value in named.items()}
    pto.assemble(src, *where, **named)


def arange(*bounds: Any) -> Any:
    """The numbers in i32, or in f32 where a bound is a float."""
    found = pto.arange(*bounds)
    return found if found.dtype.is_float else pto.cast(found, pto.i32)


def quantize(input: Any, scale: Any, otype: Any, axis: int, zero_points: Any = None) -> Any:
    """round(input * scale + zero_points) with the scale of each row, or of each column."""
    found = input * _along(scale, axis, input)
    if zero_points is not None:
        found = found + _along(zero_points, axis, input)
    return pto.cast(found, otype, pto.CastMode.RINT, True)


def dequantize(input: Any, scale: Any, otype: Any, axis: int, zero_points: Any = None) -> Any:
    """(input + zero_points) * scale with the scale of each row, or of each column."""
    found = pto.cast(input, otype)
    if zero_points is not None:
        found = found + _along(zero_points, axis, input)
    return found * _along(scale, axis, input)


def _along(numbers: Any, axis: int, x: Any) -> Any:
    if axis not in (-1, -2, x.ndim - 1, x.ndim - 2):
        fail(f"scales along axis {axis} of {x!r}", "each row has a scale, or each column",
             "pass -1 for rows, or -2 for columns")  # fmt: skip
    return pto.unsqueeze(numbers, -1 if axis in (-1, x.ndim - 1) else -2)


def filled(name: str) -> Callable:
    """zeros or ones: the sizes as a list or one by one, and the type."""
    function = getattr(pto, name)

    def made(*size: Any, dtype: Any = None) -> Any:
        if size and isinstance(size[-1], pto.DType):
            *size, dtype = size
        shape = size[0] if len(size) == 1 and isinstance(size[0], Sequence) else [*size]
        return function(shape, pto.f32 if dtype is None else dtype)

    made.__name__ = made.__qualname__ = name
    return made


def positions(name: str) -> Callable:
    """argmax, argmin or argsort, along the last axis unless given, as i32."""
    function = getattr(pto, name)

    def found(input: Any, dim: int | None = -1, *others: Any, **named: Any) -> Any:
        return pto.cast(function(input, -1 if dim is None else dim, *others, **named), pto.i32)

    found.__name__ = found.__qualname__ = name
    return found


def in_its_type(name: str) -> Callable:
    """sum or prod: integers stay in their type."""
    function = with_public_names(getattr(pto, name))

    def joined(*args: Any, **named: Any) -> Any:
        found = function(*args, **named)
        x = next((one for one in (*args, *named.values()) if isinstance(one, Tensor)), None)
        keeps = x is not None and x.dtype.is_integer
        return pto.cast(found, x.dtype) if keeps else found

    joined.__name__ = joined.__qualname__ = name
    return joined


def topk(input: Any, k: Any, dim: Any = None, largest: bool = True, algo: Any = None) -> Any:
    """Values and i32 positions."""
    found = pto.topk(input, k, -1 if dim is None else dim, largest)
    return type(found)(found.values, pto.cast(found.indices, pto.i32))


argmax, argmin, argsort = map(positions, ("argmax", "argmin", "argsort"))
sum, prod = map(in_its_type, ("sum", "prod"))
zeros, ones = map(filled, ("zeros", "ones"))
