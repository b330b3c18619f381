# SPDX-License-Identifier: Apache-2.0
"""Tuples among the variables of a loop or branch: each of their elements is a variable of its own.

    leaves = Leaves.of({"c": (total, 1), "n": n})
    leaves.apart({"c": (total, 1), "n": n})     # {"c[0]": total, "c[1]": 1, "n": n}
    leaves.joined([a, b, n])                    # {"c": (a, b), "n": n}

Thread safety: immutable.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pto.errors import InvalidType
from pto.language.location import describe, fail
from pto.language.results import LEAF, Form


class Leaves:
    """Variables by name, each with the form of its tuples."""

    def __init__(self, forms: dict[str, Form]):
        self.forms = forms

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Leaves":
        return cls({name: _form(value) for name, value in values.items()})

    @classmethod
    def common(cls, values: dict[str, tuple[Any, Any]]) -> "Leaves":
        """Opens the tuples that have one form in both values of a variable."""
        forms = {name: tuple(map(_form, pair)) for name, pair in values.items()}
        return cls({name: a if a == b else LEAF for name, (a, b) in forms.items()})

    def apart(self, values: dict[str, Any]) -> dict[str, Any]:
        """The elements of the variables that have a value."""
        found: dict[str, Any] = {}
        for name, form in self.forms.items():
            if name in values:
                value = values[name]
                if not form.is_leaf and _form(value) != form:
                    _changes_form(name, form, value)
                found |= _elements(name, form, value)
        return found

    def joined(self, elements: Iterable[Any]) -> dict[str, Any]:
        """The variables of all elements, in order."""
        left = iter(elements)
        return {name: form.assemble(left) for name, form in self.forms.items()}

    def behind(self, elements: Iterable[Any]) -> tuple:
        """The values of the variables behind a loop or branch."""
        return tuple(self.joined(elements).values())

    def body(self, body: Callable) -> Callable:
        """A body of the variables as one of their elements."""
        return lambda *index, **given: self.apart(body(*index, **self.joined(given.values())))

    def test(self, test: Callable) -> Callable:
        """A condition of the variables as one of their elements."""
        return lambda **given: test(**self.joined(given.values()))


def _form(value: Any) -> Form:
    kind = type(value)
    if kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return Form(kind, (), tuple(map(_form, value)))
    return LEAF


def _elements(name: str, form: Form, value: Any) -> Iterator[tuple[str, Any]]:
    if form.is_leaf:
        yield name, value
    for place, member in enumerate(form.members):
        yield from _elements(f"{name}[{place}]", member, value[place])


def _changes_form(name: str, form: Form, value: Any) -> None:
    found = _form(value)
    after = describe(value) if found.is_leaf else found.describe()
    fail(
        f"the variable {name} is {form.describe()} in front of an iteration and {after} behind it",
        "a loop carries each element of a tuple from one iteration to the next",
        f"keep its length, or use another name than {name}",
        InvalidType,
    )
