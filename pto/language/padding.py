# SPDX-License-Identifier: Apache-2.0
"""Larger tensors around smaller ones.

    pto.pad(x, (1, 1))                       # one element more at both ends of the last axis
    pto.fillpad(rows, [128, 64], -math.inf)  # rows at the front of a tensor of this shape

Thread safety: as a trace.
"""

from collections.abc import Sequence
from typing import Any

from pto.errors import InvalidType
from pto.language.dtypes import i64
from pto.language.location import describe, fail
from pto.language.operands import Operand, Whole
from pto.language.operation import a_sequence, operation
from pto.language.symbol import is_whole
from pto.language.tensor import ShortPart, Tensor
from pto.language.types import cast, constant, operand
from pto.language.whole import plain, sized, whole


def _filled(x: Tensor, shape: Sequence, value: Any) -> Tensor:
    number = operand(value, x, "pad")
    if number.ndim:
        fail(f"pad: the value has the shape {list(number.shape)}", "padding is one number",
             "pass a number or a tensor of rank 0")  # fmt: skip
    filling = cast(number, x.dtype)
    return Tensor(x.trace, x.trace.here().broadcast(filling.value, tuple(shape)))


@operation
def pad(x: Tensor, pad: Sequence[Whole], value: Operand = 0) -> Tensor:
    """x with `value` around it, as torch's pad: (left, right) of the last axis, then of the one in
    front of it, ...

    Formula: y[i] = x[i - left] where x has that element, else value
    Shapes: each axis grows by its two numbers
    Example: pto.pad(x, (1, 0), 9)
    """
    given = a_sequence("pad", "the pads", pad)
    if len(given) % 2 or len(given) > 2 * x.ndim:
        fail(f"pad: {len(given)} numbers for a tensor of {x.ndim} axes",
             "each axis, the last one first, has a number for either end",
             "pass (left, right), or (left, right, top, bottom), ...")  # fmt: skip
    for n in given:
        if not is_whole(n) or (isinstance(n, int) and n < 0):
            fail(f"pad: {n if is_whole(n) else describe(n)} elements",
                 "pads count elements that are put in; a part takes some out",
                 "pass whole numbers from 0", InvalidType)  # fmt: skip
    pads = [(plain(a), plain(b)) for a, b in zip(given[::2], given[1::2], strict=True)][::-1]
    pads = [(0, 0)] * (x.ndim - len(pads)) + pads
    sizes = [sized(x.trace, a, "pad") + n + sized(x.trace, b, "pad")
             for n, (a, b) in zip(x.shape, pads, strict=True)]  # fmt: skip
    into = _filled(x, sizes, value)
    offsets = [whole(x.trace, a, "pad").value for a, _ in pads]
    return Tensor(x.trace, x.trace.here().update(into.value, x.value, offsets))


@operation
def fillpad(x: Tensor, shape: Sequence[Whole] | None = None, value: Operand = 0) -> Tensor:
    """x at the front of a tensor of this shape, and `value` behind it.

    Without a shape it is that in which a view with a valid shape was asked, or x's own.

    Formula: y[i] = x[i] where x has that element, else value
    Shapes: the result has `shape`
    Example: pto.fillpad(x, [3, 4], 9)
    """
    if shape is None:
        shape = x.room if isinstance(x, ShortPart) else x.shape
    sizes = [sized(x.trace, n, "fillpad") for n in a_sequence("fillpad", "the shape", shape)]
    if len(sizes) != x.ndim:
        fail(f"fillpad: {len(sizes)} sizes for a tensor of {x.ndim} axes", "all axes stay",
             "pass a size for each")  # fmt: skip
    into = _filled(x, sizes, value)
    zero = constant(x.trace, 0, i64).value
    return Tensor(x.trace, x.trace.here().update(into.value, x.value, [zero] * x.ndim))
