# SPDX-License-Identifier: Apache-2.0
"""Slices of one axis: x[1:n:2] begins at 1, and has n // 2 elements, 2 apart.

Bounds are whole numbers (whole.py); a step is a number above 0 that is known while tracing.

Thread safety: as a trace.
"""

from typing import Any

from pto import _core
from pto.errors import InvalidIndex, InvalidType
from pto.language.location import describe, fail
from pto.language.symbol import is_whole
from pto.language.tensor import Tensor
from pto.language.whole import plain, sized, whole


def of_slice(x: Tensor, axis: int, key: slice) -> tuple[Any, Any, int]:
    """The offset, size and step of a slice of an axis; raises InvalidIndex or InvalidType."""
    step = 1 if key.step is None else plain(key.step) if is_whole(key.step) else key.step
    if not isinstance(step, int) or step < 1:
        fail(
            f"a slice with the step {key.step!r}"[:60],
            "a step is a whole number above 0 that is known while tracing",
            "use such a number; pto.flip(x, dim) turns an axis round",
            InvalidIndex,
        )
    start, neighbours = _stretch(x, axis, key)
    if step == 1:
        return start, neighbours, 1
    return start, (neighbours + (step - 1)) // step, step


def _stretch(x: Tensor, axis: int, key: slice) -> tuple[Any, Any]:
    """(offset, size) of the elements between the bounds of a slice."""
    n = x.shape[axis]
    for bound in (key.start, key.stop):
        if bound is not None and not is_whole(bound):
            fail(
                f"a bound of a slice is {describe(bound)}",
                "bounds are whole numbers: integers, sizes, or elements of integer tensors",
                "index the tensor to its element, or cast it",
                InvalidType,
            )
    start = 0 if key.start is None else plain(key.start)
    stop = n if key.stop is None else plain(key.stop)
    from_end = 0 if key.stop is None else stop  # both bounds counted from the end
    are_known = all(isinstance(b, int) for b in (start, from_end))
    ends_there = are_known and (key.stop is None or from_end < 0)
    if isinstance(n, _core.Dim) and ends_there and start < 0:
        return n + start, (from_end - start if from_end > start else 0)
    start, stop = (n + b if isinstance(b, int) and b < 0 else b for b in (start, stop))
    if all(isinstance(b, int) for b in (start, stop, n)):
        start, stop, _ = slice(start if start > 0 else 0, stop if stop > 0 else 0).indices(n)
        return start, (stop - start if stop > start else 0)
    if isinstance(start, int) and isinstance(stop, int) and stop <= start:
        return 0, 0
    return start, _distance(x, start, stop)


def _distance(x: Tensor, start: Any, stop: Any) -> Any:
    """stop - start as a size; a difference of `a + 3` and `a` is 3, also for traced numbers."""
    if not isinstance(start, Tensor) and not isinstance(stop, Tensor):
        return stop - start
    if isinstance(start, Tensor) and isinstance(stop, Tensor):
        op, operands, _ = x.trace.builder.node(stop.value)
        if op == "add" and start.value in operands:
            other = operands[operands[0] == start.value]
            if x.trace.builder.node(other)[0] == "constant":
                return int(x.trace.builder.number(other))
    if isinstance(start, int) and start == 0:
        return sized(x.trace, stop, "a slice")
    trace = x.trace
    return sized(trace, whole(trace, stop, "a slice") - whole(trace, start, "a slice"), "a slice")
