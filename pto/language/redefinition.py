# SPDX-License-Identifier: Apache-2.0
"""Redefinition: the class of an operator that is run again, as a cell of a notebook is.

    old = replaced(new, known.get(new.name))     # the operator whose place it takes, or None

A class of the same name in the same module replaces the operator that it defined, where schema,
element types and gradient are the same: every framework calls the new one from then on. A graph
that was traced before, and a function that was compiled with the operator in it, keep what they
have; a jitted function that names it is traced again, since it captures another object.

Thread safety: needs the lock of definitions (op.py); a call under way ends with what it has.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pto.errors import InvalidValue

times_replaced: Counter[int] = Counter()  # by index; who keeps shapes keeps this beside them


def replaced(new: Any, old: Any) -> Any:
    """The operator whose place a new one of its name takes; None where there is none.

    Raises InvalidValue where the same class states another schema; an operator of another class is
    left to the registry, which refuses a name that is taken.
    """
    if old is None or not _is_same_class(old.definition, new.definition):
        return None
    for before, now in zip(_facts(old), _facts(new), strict=False):
        if before != now:
            raise InvalidValue(
                f"@op: {new.name} is defined again with another interface: {now}",
                f"it was {before}, and frameworks hold its signature",
                "give the new operator another name, or restart the process",
            )
    return old


def chain(operator: Any) -> Iterator[Any]:
    """An operator, its gradient, the gradient of that ..."""
    while operator is not None:
        yield operator
        operator = operator.gradient and operator.gradient.operator


def _is_same_class(a: type, b: type) -> bool:
    return (a.__module__, a.__qualname__) == (b.__module__, b.__qualname__)


def _facts(operator: Any) -> list[str]:
    """The texts that frameworks hold of an operator and its gradients."""
    found = []
    for one in chain(operator):
        saved = one.gradient and (one.gradient.saved, one.gradient.wanted)
        own = {name: one.member(name) for name in ("bounded", "packing", "autocast", "gradient")}
        kernel = one.member("kernel")
        own["kernel"] = kernel and f"a C++ kernel, takes_strides={kernel.takes_strides}"
        more = "".join(f"; {name}: {value}" for name, value in own.items() if value)
        gradient = f"; its gradient saves and wants {saved}" if saved else "; without a gradient"
        found.append(f"{one.signature} {one.types_text}{gradient}{more}")
    return found
