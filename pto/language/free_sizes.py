# SPDX-License-Identifier: Apache-2.0
"""Sizes that a type leaves free: they are any size, and 1 is one of these.

    with_ones(["x"], [((pto.Tensor[pto.DYN, 64, pto.f32],), {})], guarded)   # and [1, 64]

Code for a size of 1 is other code, because that axis may broadcast. So a type stands for several
calls: each free size is 1 or not. Sizes that the code requires to be equal are 1 together. Three
such sizes give eight calls; of more, each one alone, each with the first, which often is that of a
batch, and all together are 1.
Thread safety: pure functions.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pto.language.annotations import TensorType

if TYPE_CHECKING:
    from pto.language.package import Given

Call = tuple[tuple, dict]
Axis = tuple[str, int]  # the name of a parameter, an axis of it
# The parameters of a call and the sizes that must be equal; it raises where the function does.
Guarded = Callable[[dict[str, Any]], tuple["list[Given]", Sequence[Any]]]
MOST_COMBINED = 3  # so many sizes are 1 in every combination


def with_ones(parameters: Sequence[str], calls: list[Call], guarded: Guarded) -> list[Call]:
    """The calls, and behind each those in which sizes that its types leave free are 1."""
    found = []
    for args, kwargs in calls:
        found.append((args, kwargs))
        values = {**dict(zip(parameters, args, strict=False)), **kwargs}
        if any(_free_axes(one) for one in values.values()):
            found += _others(values, guarded)
    return found


def _others(values: dict[str, Any], guarded: Guarded) -> Iterator[Call]:
    try:
        groups = _groups(values, *guarded(values))
    except Exception:
        return  # compiling this call says the same
    for chosen in choices(groups):
        other = {name: _narrowed(name, value, chosen) for name, value in values.items()}
        try:
            guarded(other)
        except Exception:  # perhaps of the user's own
            continue  # the function takes no 1 there
        yield (), other


def _groups(values: dict[str, Any], call: "list[Given]", guards: Sequence[Any]) -> list[set[Axis]]:
    """The free axes; those whose sizes must be equal are in one set."""
    groups: dict[str, set[Axis]] = {}  # by the name of the size
    for name, about in ((one.name, one.about) for one in call if one.about):
        for axis, size in enumerate(about[1]):
            if not isinstance(size, int):
                groups.setdefault(str(size), set()).add((name, axis))
    for a, b in ((str(a), str(b)) for a, b, *_ in guards):
        if a in groups and b in groups:
            both = groups[a] | groups[b]
            groups |= {size: both for size, own in groups.items() if own <= both}
    free = {(name, axis) for name, value in values.items() for axis in _free_axes(value)}
    return [own for own in {id(one): one for one in groups.values()}.values() if own <= free]


def choices(groups: list[set]) -> Iterator[set]:
    """The members of groups that are 1 in one call: axes, or sizes."""
    for count in range(1, len(groups) + 1):
        for some in combinations(groups, count):
            with_first = count == 2 and some[0] is groups[0]
            if len(groups) <= MOST_COMBINED or count in (1, len(groups)) or with_first:
                yield set().union(*some)


def _free_axes(value: Any) -> list[int]:
    sizes = value.sizes if isinstance(value, TensorType) and value.sizes else ()
    return [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]


def _narrowed(name: str, value: Any, ones: set[Axis]) -> Any:
    if not isinstance(value, TensorType) or not value.sizes:
        return value
    sizes = [1 if (name, axis) in ones else size for axis, size in enumerate(value.sizes)]
    return TensorType((*sizes, value.kind), value.is_constant)
