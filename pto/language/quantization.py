# SPDX-License-Identifier: Apache-2.0
"""Integers in place of floats, with a scale: x is about scale * (q - zero_point).

    q, scale = pto.quantize(x)                     # a scale for each row
    y = pto.dequantize(pto.matmul(q, w, pto.i32), scale * w_scale)

Thread safety: as a trace.
"""

from typing import NamedTuple

from pto.errors import InvalidType
from pto.language.casting import CastMode, cast
from pto.language.dtypes import DType, f32, i8
from pto.language.dtypes import dtype as element_type
from pto.language.elementwise import abs, where
from pto.language.location import fail
from pto.language.operands import Kind, Operand
from pto.language.operation import method
from pto.language.reduce import Axes, _axes, _reduce
from pto.language.tensor import Tensor
from pto.language.types import cast as plain_cast
from pto.language.types import wide


class Quantized(NamedTuple):
    """Integers, and the scale of each row, which keeps the axes with size 1."""

    values: Tensor
    scale: Tensor


def _integer(name: str, kind: object) -> DType:
    found = element_type(kind)
    if found.is_integer and found.bytes <= 2:
        return found
    return fail(f"{name}: the element type is {found}", "quantised numbers have 8 or 16 bits",
                "pass pto.i8, pto.u8, pto.i16 or pto.u16", InvalidType)  # fmt: skip


def _floats(name: str, x: Tensor) -> Tensor:
    if x.dtype.is_float:
        return wide(x)
    return fail(f"{name}: the operand is {x.dtype}", "floats are quantised",
                "pass floats; pto.dequantize takes integers", InvalidType)  # fmt: skip


@method("quantize")
def quantize(x: Tensor, dim: Axes = -1, dtype: Kind = i8) -> Quantized:
    """(values, scale): x / scale, rounded to nearest even.

    scale is the largest absolute value along `dim`, divided by the largest number of `dtype`; rows
    of zeros have the scale 0.

    Formula: scale = amax(abs(x), dim) / 127; values = round(x / scale)
    Shapes: any; `values` has that of x, `scale` size 1 along `dim`
    """
    kind = _integer("quantize", dtype)
    wider = _floats("quantize", x)
    most = (1 << (8 * kind.bytes - (kind.kind == "signed"))) - 1
    scale = _reduce("amax", abs(wider), _axes("quantize", x.ndim, dim, None), True) / float(most)
    ratio = wider / where(scale == 0, 1.0, scale)
    return Quantized(cast(ratio, kind, CastMode.RINT, True), scale)


@method("quantize_by")
def quantize_by(x: Tensor, scale: Operand, zero_point: Operand = 0, dtype: Kind = i8) -> Tensor:
    """x / scale, rounded to nearest even, plus zero_point; beyond the range the nearest end.

    Formula: clip(round(x / scale) + zero_point)
    Shapes: any; `scale` and `zero_point` broadcast
    Example: pto.quantize_by(x, 0.5, 3)
    """
    kind = _integer("quantize_by", dtype)
    ratio = _floats("quantize_by", x) / (wide(scale) if isinstance(scale, Tensor) else scale)
    point = plain_cast(zero_point, ratio.dtype) if isinstance(zero_point, Tensor) else zero_point
    return cast(ratio.round() + point, kind, CastMode.RINT, True)


@method("dequantize")
def dequantize(
    q: Tensor, scale: Operand, zero_point: Operand | None = None, dtype: Kind = f32
) -> Tensor:
    """scale * (q - zero_point), computed in f32, or f64 where that is asked for.

    Formula: scale * (q - zero_point)
    Shapes: any; `scale` and `zero_point` broadcast
    Example: pto.dequantize(n, 0.5, 3)
    """
    if not q.dtype.is_integer:
        fail(f"dequantize: the operand is {q.dtype}", "quantised numbers are integers",
             "pass what pto.quantize gave", InvalidType)  # fmt: skip
    kind = element_type(dtype)
    compute = kind if kind.bytes == 8 else f32
    number = plain_cast(q, compute)
    if zero_point is not None:
        point = plain_cast(zero_point, compute) if isinstance(zero_point, Tensor) else zero_point
        number = number - point
    scale = plain_cast(scale, compute) if isinstance(scale, Tensor) else scale
    return plain_cast(number * scale, kind)
