# SPDX-License-Identifier: Apache-2.0
"""The form of a result: how its tensors stand in tuples, lists and dicts, nested or not.

    leaves, form = taken_apart({"mean": m, "rows": [a, b]})      # [m, a, b]
    form.assemble((m, a, b))                                     # the dict again

Thread safety: a Form is immutable.
"""

from collections.abc import Iterable, Iterator
from typing import Any


class Form:
    """A leaf, where `kind` is None, or a container: its type, its keys if a dict, its members."""

    __slots__ = ("keys", "kind", "members")

    def __init__(self, kind: type | None = None, keys: tuple = (), members: tuple = ()):
        self.kind, self.keys, self.members = kind, keys, members

    def _all(self) -> tuple:
        return self.kind, self.keys, self.members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return f"Form{self._all()}"

    @property
    def is_leaf(self) -> bool:
        return self.kind is None

    @property
    def is_row(self) -> bool:
        """Says whether it is a plain tuple of tensors."""
        return self.kind is tuple and all(member.is_leaf for member in self.members)

    @property
    def written(self) -> tuple:
        """The parameters that a program gives new elements: trace.py."""
        return self.members[-1].keys if "written" in self.keys else ()

    def assemble(self, leaves: Iterable) -> Any:
        """The result with these leaves in it; an iterator gives it as many as it takes."""
        return self._take(iter(leaves))

    def describe(self) -> str:
        """The form in words for an error: "a dict of mean, rows"."""
        if self.is_leaf:
            return "one tensor"
        of = ", ".join(map(str, self.keys)) if self.kind is dict else str(len(self.members))
        inner = ", ".join(member.describe() for member in self.members)
        inside = "" if all(member.is_leaf for member in self.members) else f" ({inner})"
        return f"a {self.kind.__name__} of {of}{inside}"

    def path_of(self, place: int) -> str:
        """How one reads a leaf: "['rows'][1]"."""
        for key, member in zip(self.keys or range(len(self.members)), self.members, strict=True):
            if place < (count := member.count):
                return f"[{key!r}]{member.path_of(place)}"
            place -= count
        return ""

    @property
    def count(self) -> int:
        """The number of leaves."""
        return 1 if self.is_leaf else sum(member.count for member in self.members)

    def leaves_of(self, result: Any) -> list | None:
        """The leaves of a value of this form; None for any other value."""
        found, form = taken_apart(result)
        return found if form == self else None

    def _take(self, leaves: Iterator) -> Any:
        if self.kind is None:
            return next(leaves)
        members = [member._take(leaves) for member in self.members]
        if self.kind is dict:
            return dict(zip(self.keys, members, strict=True))
        return self.kind(members) if self.kind in (tuple, list) else self.kind(*members)


LEAF = Form()


def taken_apart(result: Any) -> tuple[list, Form]:
    """The leaves of a result in order, and its form; anything but a container is a leaf."""
    leaves: list = []
    return leaves, _walk(result, leaves)


def _walk(result: Any, leaves: list) -> Form:
    kind = type(result)
    if kind is dict:
        return Form(kind, tuple(result), tuple(_walk(one, leaves) for one in result.values()))
    if kind in (tuple, list) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return Form(kind, (), tuple(_walk(one, leaves) for one in result))
    leaves.append(result)
    return LEAF
