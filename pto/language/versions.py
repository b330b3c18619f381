# SPDX-License-Identifier: Apache-2.0
"""Warns of a function that is compiled again and again for values of a parameter.

    warn_of_versions(jit, tensors, constants, numbers)    # once a parameter

Thread safety: needs Python's lock.
"""

from typing import Any

from pto.language.location import user_line, warn_at

_MANY_VERSIONS = 8
_REASONS = {
    float: "a function that is steered by a number (a condition, a power, a conversion of "
    "{name}), or has it in a loop or branch, is compiled for each of its values",
    int: "an int is a constant of the compilation, so that it may steer the function",
}
_FIXES = {
    float: "use {name} in arithmetic only, outside of loops and branches, where it is a number of "
    "the call, or pass a tensor of rank 0",
    int: "pass {name} as a float, which in arithmetic is a number of the call, or as a tensor of "
    "rank 0",
}


def warn_of_versions(jit: Any, tensors: list, constants: list, numbers: list[bool]) -> None:
    """Warns once of a parameter for which each value is compiled."""
    for place, value in enumerate(constants):
        if tensors[place] or numbers[place] or type(value) not in (int, float):
            continue
        values = jit.values[place]
        before = len(values)
        values.add(repr(value))
        if before < _MANY_VERSIONS <= len(values):
            name = jit.parameters[place]
            text = (
                f"{jit.__name__}: compiled for {len(values)} values of {name}, last {value!r}"
                f"\n  why: {_REASONS[type(value)].format(name=name)}"
                f"\n  fix: {_FIXES[type(value)].format(name=name)}"
            )
            warn_at(user_line(), text)
