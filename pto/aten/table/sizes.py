# SPDX-License-Identifier: Apache-2.0
"""Conditions on sizes and orders: what a row leaves to ATen, its refusals and its own layouts.

    unequal(values, (("self", 1), ("vec", 0)))    # "axis 1 of self has 5, axis 0 of vec 1", or None
    grows(values["self"], [5, 7])                 # True where self has more than these sizes

Sizes that are symbols of a traced program differ from none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pto.aten.orders import is_in_order
from pto.aten.records import arrays_in, library

Axis = tuple[str, int]  # of an argument


def unequal(values: Mapping[str, Any], *pairs: tuple[Axis, Axis]) -> str | None:
    """The first two axes that have to be as long as each other and are not, as a reason."""
    for (one, axis), (other, place) in pairs:
        a, b = library().shape(values[one])[axis], library().shape(values[other])[place]
        if _differ(a, b):
            return f"axis {axis} of {one} has {a} elements, axis {place} of {other} {b}"
    return None


def grows(value: Any, sizes: Sequence[Any]) -> bool:
    """Whether a tensor cannot be expanded to these sizes."""
    own = library().shape(value)
    pairs = zip(reversed(own), reversed(sizes), strict=False)
    return len(own) > len(sizes) or any(_differ(a, 1) and _differ(a, b) for a, b in pairs)


def larger(values: Mapping[str, Any], *names: str) -> str | None:
    """Leaves to ATen tensors of these names that are larger than self."""
    shape = library().shape(values["self"])
    for name in names:
        if values.get(name) is not None and grows(values[name], shape):
            return f"{name} is larger than self"
    return None


def no_axis(values: Mapping[str, Any]) -> str | None:
    """Leaves to ATen a `dim`, -1 where a call leaves it out, that is no axis of self."""
    rank, dim = len(library().shape(values["self"])), values.get("dim", -1)
    return None if -rank <= dim < rank else f"self has no axis {dim}"


def value_has_axes(values: Mapping[str, Any]) -> str | None:
    """Leaves to ATen a `value` that is not of rank 0."""
    return "value has axes" if library().shape(values["value"]) else None


def disordered(values: Mapping[str, Any]) -> str | None:
    """Leaves tensors that lie in other orders than row by row to ATen, where its Meta kernel does
    not say how its result lies."""
    is_plain = all(is_in_order(one) for _, one in arrays_in(values))
    return None if is_plain else "its tensors lie in other orders than row by row"


def _differ(a: Any, b: Any) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b
