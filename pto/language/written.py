# SPDX-License-Identifier: Apache-2.0
"""Gives arrays what a program computed for the parameters that it writes, after its call.

    finish("scatter", signature, found, (x, rows, out), {})    # `out` has the new rows

Thread safety: any thread; two calls that write one array race as two copies do.
"""

import sys
from typing import TYPE_CHECKING, Any

from pto.errors import InvalidValue
from pto.language import arguments
from pto.language.location import user_line
from pto.language.shared_memory import as_bytes, share_memory

if TYPE_CHECKING:
    from inspect import Signature


def finish(name: str, signature: "Signature", found: dict | None, args: tuple, kwargs: dict) -> Any:
    """Writes what was `found` for parameters into the arguments; returns what the call returns.

    None was found where all of it was computed in the arguments, and nothing is returned.
    """
    if found is None:
        return None
    if written := found.get("written"):
        given = signature.bind(*args, **kwargs).arguments
        _write(name, {one: (given[one], value) for one, value in written.items()})
    return found.get("returned")


def check(function: str, targets: dict[str, Any]) -> None:
    """Refuses arrays that a call cannot write; raises InvalidValue."""
    before: dict[str, Any] = {}
    for name, array in targets.items():
        if getattr(getattr(array, "flags", None), "writeable", True) is False:
            arguments.refuse(function, name, array, "read-only", "")
        for other, one in before.items():
            if share_memory(array, one):
                raise InvalidValue(
                    f"{function}: {other} and {name} are both written and share memory"
                    f"{_ranges(other, one, name, array)}",
                    "which of the two writes is the last would be left to chance",
                    f"pass memory of its own for {name}: a copy, or a part apart from {other}",
                    user_line(),
                )
        if _repeats(array):
            arguments.refuse(function, name, array, "out shared", "")
        before[name] = array


def _write(function: str, targets: dict[str, tuple[Any, Any]]) -> None:
    check(function, {name: array for name, (array, _) in targets.items()})
    for array, value in targets.values():
        if value is array:  # it was computed there
            _count_change(array)
        elif hasattr(array, "copy_"):
            array.copy_(value)
        else:
            array[...] = value


def _count_change(array: Any) -> None:
    """Lets PyTorch know that the elements of a tensor have changed."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        arguments.version_counter()((array,))


def _repeats(array: Any) -> bool:
    """Says whether one place in memory may stand for several elements, by the rule of
    base/strided.hpp: sorted by stride, an axis that steps over less than lies within those before
    it."""
    in_elements = hasattr(array, "stride")
    steps = array.stride() if in_elements else getattr(array, "strides", None)
    sizes = getattr(array, "shape", ())
    if not isinstance(steps, tuple) or 0 in sizes:
        return False
    reach = 1 if in_elements else array.itemsize
    for step, size in sorted(zip(map(abs, steps), sizes, strict=True)):
        if size > 1 and step < reach:
            return True
        reach += (size - 1) * step
    return False


def _ranges(first: str, a: Any, second: str, b: Any) -> str:
    """The bytes of two arrays, counted from the first one of either."""
    found = [as_bytes(array) for array in (a, b)]
    if any(one is None for one in found):
        return ""
    ends = []
    for one in found:
        place, reach = one.__array_interface__["data"][0], [0, 1]
        for step, size in zip(one.strides, one.shape, strict=True):
            reach[step > 0] += step * (size - 1)
        ends.append((place + reach[0], place + reach[1]))
    start = min(low for low, _ in ends)
    (a0, a1), (b0, b1) = [(low - start, high - start) for low, high in ends]
    return f": {first} has its bytes {a0} to {a1}, {second} {b0} to {b1}"
