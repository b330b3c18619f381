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

if TYPE_CHECKING:
    from inspect import Signature


def finish(name: str, signature: "Signature", found: dict, args: tuple, kwargs: dict) -> Any:
    """Writes what was `found` for parameters into the arguments; returns what the call returns."""
    if written := found.get("written"):
        given = signature.bind(*args, **kwargs).arguments
        _write(name, {one: (given[one], value) for one, value in written.items()})
    return found.get("returned")


def _write(function: str, targets: dict[str, tuple[Any, Any]]) -> None:
    arrays = [array for array, _ in targets.values()]
    for name, (array, _) in targets.items():
        if getattr(getattr(array, "flags", None), "writeable", True) is False:
            arguments.refuse(function, name, array, "read-only", "")
        if sum(_may_share(array, other) for other in arrays) > 1:
            raise InvalidValue(
                f"{function}: {name} shares memory with another array that is written",
                "which of the two writes is the last would be left to chance",
                "pass memory of its own",
                user_line(),
            )
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
        torch.autograd.graph.increment_version(array)


def _may_share(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a).__module__ != "numpy" or type(b).__module__ != "numpy":
        return False
    import numpy

    return numpy.shares_memory(a, b)
