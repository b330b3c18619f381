# SPDX-License-Identifier: Apache-2.0
"""New tensors of a traced function: zeros, ones, or one number everywhere.

    largest = pto.full([rows, 1], -math.inf)     # f32; sizes may come from data
    total = pto.zeros(x.shape, pto.f64)

Thread safety: as a trace.
"""

from collections.abc import Sequence
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.dtypes import boolean, dtype, f32, i64
from pto.language.location import describe, fail
from pto.language.operands import Kind, Operand, Shape
from pto.language.symbol import is_whole, unwrapped
from pto.language.tensor import Tensor
from pto.language.trace import current
from pto.language.types import cast, constant, number
from pto.language.whole import sized, whole


def full(shape: Shape, value: Operand, dtype: Kind | None = None) -> Tensor:
    """A tensor filled with a number: f32 for a float, i64 for an int or size, or as `dtype` says.

    Formula: y[...] = value
    Shapes: the result has `shape`
    Example: pto.full([2, 3], 1)
    """
    return _filled("full", shape, value, dtype)


def _filled(name: str, shape: Any, value: Any, kind: Any) -> Tensor:
    trace = current(name)
    sizes = [shape] if is_whole(shape) else shape
    if isinstance(sizes, str | Tensor) or not isinstance(sizes, Sequence):
        fail(f"{name}: the shape is {describe(shape)}", "a shape is a sequence of sizes",
             "pass a list of whole numbers", InvalidType)  # fmt: skip
    to = tuple(sized(trace, size, name) for size in sizes)
    filled = _filling(trace, value, kind)
    return Tensor(trace, trace.here().broadcast(filled.value, to))


def _filling(trace: Any, value: Any, kind: object) -> Tensor:
    value = unwrapped(value)
    value = whole(trace, value, "full") if isinstance(value, _core.Dim) else value
    if isinstance(value, Tensor) and value.ndim == 0:
        return value if kind is None else cast(value, kind)
    plain = number(value)
    if plain is None:
        fail(f"full: the value is {describe(value)}", "full repeats one number",
             "pass a number or a tensor of rank 0", InvalidType)  # fmt: skip
    natural = boolean if isinstance(plain, bool) else i64 if isinstance(plain, int) else f32
    return constant(trace, plain, natural if kind is None else dtype(kind))


def zeros(shape: Shape, dtype: Kind = f32) -> Tensor:
    """Zeros of this shape.

    Formula: y[...] = 0
    Shapes: the result has `shape`
    Example: pto.zeros([2, 3])
    """
    return _filled("zeros", shape, 0, dtype)


def ones(shape: Shape, dtype: Kind = f32) -> Tensor:
    """Ones of this shape.

    Formula: y[...] = 1
    Shapes: the result has `shape`
    Example: pto.ones([2, 3])
    """
    return _filled("ones", shape, 1, dtype)
