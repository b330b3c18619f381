# SPDX-License-Identifier: Apache-2.0
"""Redefinition: the class of an operator that is run again, as a cell of a notebook is.

    old = replaced(new, known.get(new.name))     # the operator whose place it takes, or None

A class of the same name in the same module replaces the operator that it defined, where schema,
element types and gradient are the same: every framework calls the new one from then on. In a
notebook or console, whose module is no file, a class of another name does so too. A graph that was
traced before, and a function that was compiled with the operator in it, keep what they have; a
jitted function that names it is traced again, since it captures another object.

Another interface (a parameter more, a gradient) is a new operator of the same name, as long as no
framework is loaded: one that is holds the first schema until the process ends, and another is an
error, which says what differs and who holds the first. Who has the first operator keeps it.

Thread safety: needs the lock of definitions (op.py); a call under way ends with what it has.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

from pto import _core
from pto.errors import InvalidValue
from pto.language import adapters
from pto.language.gradient import gradient_name

times_replaced: Counter[int] = Counter()  # by index; who keeps shapes keeps this beside them
newest: dict[str, Any] = {}  # the operator of each name that was defined last, gradients included


def replaced(new: Any, old: Any) -> Any:
    """The operator whose place a new one of its name takes; None where there is none.

    One with another interface loses its name. Raises InvalidValue where another class takes it, or
    where a framework holds the interface.
    """
    if old is None:
        return None
    if not _is_same_class(old.definition, new.definition):
        _refuse_class(new, old)
    found = [
        (now.name, fact, *pair)
        for before, now in zip(chain(old), chain(new), strict=False)
        for fact, pair in _differences(before, now).items()
    ]
    holders = [
        name for part, name in adapters.NAMES.items() if f"pto.adapters.{part}" in sys.modules
    ]
    if found and holders:
        name, fact, first, second = found[0]
        raise InvalidValue(
            f"@op: {name} is defined again with another {fact}: it was {first}, and is {second}",
            f"{', '.join(holders)} was told of the first one, and holds it until the process ends",
            "give the new operator another name, or restart the process",
        )
    for one in chain(old if found else None):
        _core.free_operator_name(one.index)
    return None if found else old


def chain(operator: Any) -> Iterator[Any]:
    """An operator, its gradient, the gradient of that ..."""
    while operator is not None:
        yield operator
        operator = operator.gradient and operator.gradient.operator


def _is_same_class(a: type, b: type) -> bool:
    if a.__module__ != b.__module__:
        return False
    in_cells = getattr(sys.modules.get(a.__module__), "__file__", None) is None
    return in_cells or a.__qualname__ == b.__qualname__


def _refuse_class(new: Any, old: Any) -> NoReturn:
    first, second = (f"the class {one.__qualname__} of {one.__module__}"
                     for one in (old.definition, new.definition))  # fmt: skip
    raise InvalidValue(
        f"operator {new.name}: is defined already by {first}, as {old.schema}, "
        f"and again by {second}" + (f", as {new.schema}" * (new.schema != old.schema)),
        "a name belongs to one class of one module; cells of a notebook may rename theirs",
        "choose another name for the operator, or for the class the one that it had",
    )


def _differences(before: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """The facts that frameworks hold of an operator, as both say them, where they differ."""
    first, second = _facts(before), _facts(now)
    return {name: (first[name] or "none", second[name] or "none")
            for name in first if first[name] != second[name]}  # fmt: skip


def _facts(operator: Any) -> dict[str, Any]:
    kernel = operator.member("kernel")
    gradient = operator.gradient
    members = {name: operator.member(name) for name in ("bounded", "packing", "autocast")}
    return {
        "schema": operator.signature,
        "rule of types": operator.types_text,
        "gradient": gradient_name(operator) or (gradient and gradient.operator.schema),
        "set of saved tensors": gradient and gradient.saved,
        "set of wanted gradients": gradient and gradient.wanted,
        "kernel": kernel and f"one in C++, takes_strides={kernel.takes_strides}",
        **members,
    }
