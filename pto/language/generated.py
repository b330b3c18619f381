# SPDX-License-Identifier: Apache-2.0
"""Tensors made from positions: ranges, and masks of triangles and classes.

    columns = pto.arange(x.shape[1])
    causal = pto.where(columns <= pto.arange(x.shape[0])[:, None], x, -math.inf)
    causal = pto.tril(x)                          # with zeros

Thread safety: as a trace.
"""

import builtins
import math
from collections.abc import Sequence
from typing import Any

from pto.errors import InvalidType
from pto.language.dtypes import dtype as element_type
from pto.language.dtypes import f32, f64, i64
from pto.language.elementwise import where
from pto.language.location import describe, fail
from pto.language.operands import Kind, Operand, Whole
from pto.language.operation import method
from pto.language.symbol import is_whole
from pto.language.tensor import Tensor
from pto.language.trace import Trace, current
from pto.language.types import cast, constant, number
from pto.language.whole import max, plain, sized, whole


def _counting(trace: Trace, shape: Sequence, axis: int) -> Tensor:
    return Tensor(trace, trace.here().iota(shape, axis))


def arange(
    start: Operand, stop: Operand | None = None, step: Operand = 1, dtype: Kind | None = None
) -> Tensor:
    """start, start + step, ... in front of stop: i64, or f32 where one of them is a float.

    start and stop may be sizes and elements of integer tensors; a float range has Python's numbers.

    Formula: y[k] = start + k * step
    Shapes: one axis, of ceil((stop - start) / step) elements
    Example: pto.arange(2, 10, 3)
    """
    trace = current("arange")
    start, stop = (0, start) if stop is None else (start, stop)
    if all(map(is_whole, (start, stop, step))):
        found = _whole_range(trace, plain(start), plain(stop), plain(step))
    else:
        found = _real_range(trace, *map(_real, (start, stop, step)))
    return found if dtype is None else cast(found, dtype)


def _whole_range(trace: Trace, start: Any, stop: Any, step: Any) -> Tensor:
    if not isinstance(step, int) or step == 0:
        fail(f"arange: the step is {step if isinstance(step, int) else 'known only at the call'}",
             "a range has a step that is known while tracing, and comes to its end",
             "multiply: start + step * pto.arange(n)")  # fmt: skip
    known = isinstance(start, int) and isinstance(stop, int)
    if known:
        count: Any = builtins.max(0, -((start - stop) // step))
    elif isinstance(start, int) and start == 0 and step == 1:
        count = stop
    else:
        distance = stop - start if step > 0 else start - stop
        count = max(distance + (abs(step) - 1), 0) // abs(step)
    found = _counting(trace, [sized(trace, count, "arange")], 0)
    found = found if step == 1 else found * step
    return found if isinstance(start, int) and start == 0 else found + whole(trace, start, "arange")


def _real(value: Any) -> float:
    known = number(value)
    if known is None or isinstance(known, bool):
        fail(f"arange: {describe(value)} in a range of floats", "its bounds are Python's numbers",
             "multiply: start + step * pto.arange(n)", InvalidType)  # fmt: skip
    return float(known)


def _real_range(trace: Trace, start: float, stop: float, step: float) -> Tensor:
    if step == 0 or not math.isfinite((stop - start) / step):
        fail(f"arange: from {start} to {stop} in steps of {step}", "a range comes to its end",
             "choose another step")  # fmt: skip
    count = _counting(trace, [builtins.max(0, math.ceil((stop - start) / step))], 0)
    return cast(cast(count, f64) * step + start, f32)


def eye(n: Whole, m: Whole | None = None, dtype: Kind = f32) -> Tensor:
    """The matrix [n, m] with ones at [i, i] and zeros elsewhere.

    Formula: y[i, j] = 1 if i == j else 0
    Shapes: `[n, m]`, or `[n, n]` without m
    Example: pto.eye(2, 3)
    """
    trace = current("eye")
    rows, columns = (sized(trace, size, "eye") for size in (n, n if m is None else m))
    same = _counting(trace, [rows, 1], 0) == _counting(trace, [1, columns], 1)
    return cast(same, dtype)


def _triangle(name: str, x: Tensor, diagonal: Whole, is_lower: bool) -> Tensor:
    if x.ndim < 2:
        fail(f"{name}: the operand has the shape {list(x.shape)}", "a triangle is part of matrices",
             "give the operand two axes")  # fmt: skip
    far = whole(x.trace, diagonal, name)
    m, n = x.shape[-2:]
    above = _counting(x.trace, [1, n], 1) - _counting(x.trace, [m, 1], 0)
    kept = above <= far if is_lower else above >= far
    return where(kept, x, constant(x.trace, 0, x.dtype))


@method("tril")
def tril(x: Tensor, diagonal: Whole = 0) -> Tensor:
    """x with zeros above a diagonal of the last two axes.

    Formula: y[..., i, j] = x[..., i, j] if j - i <= diagonal else 0
    """
    return _triangle("tril", x, diagonal, True)


@method("triu")
def triu(x: Tensor, diagonal: Whole = 0) -> Tensor:
    """x with zeros below a diagonal of the last two axes.

    Formula: y[..., i, j] = x[..., i, j] if j - i >= diagonal else 0
    """
    return _triangle("triu", x, diagonal, False)


@method("one_hot")
def one_hot(x: Tensor, num_classes: Whole, dtype: Kind = i64) -> Tensor:
    """[..., num_classes]: 1 at the class that x says, 0 elsewhere; no 1 for a class beyond.

    Formula: y[..., k] = 1 if x[...] == k else 0
    Shapes: any; the result has one axis more, of `num_classes`
    Example: pto.one_hot(m, 4)
    """
    if not x.dtype.is_integer:
        fail(f"one_hot: the classes are {x.dtype}", "classes are integers",
             "cast them: pto.cast(x, pto.i64)", InvalidType)  # fmt: skip
    classes = _counting(x.trace, [sized(x.trace, num_classes, "one_hot")], 0)
    found = cast(x, i64).unsqueeze(-1) == classes
    return cast(found, element_type(dtype))
