# SPDX-License-Identifier: Apache-2.0
"""Derives NAME_, the operator that replaces the elements of its first argument, from NAME."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pto.language.op import Operator


def inplace_schema(operator: "Operator") -> str:
    """The schema of NAME_, whose first argument is the mutable Tensor(a!)."""
    first, *rest = operator.schema.split(",", 1) if "," in operator.schema else (
        operator.schema.split(")", 1)[0], ")" + operator.schema.split(")", 1)[1])  # fmt: skip
    separator = "," if "," in operator.schema else ""
    mutable = first.replace(f"{operator.name}(Tensor ", f"{operator.name}_(Tensor(a!) ", 1)
    return (mutable + separator + rest[0]).rsplit("->", 1)[0] + "-> Tensor(a!)"


def inplace_definition(definition: type) -> type:
    """The members that NAME_ takes over: all but the gradient."""
    kept = ("build", "kernel", "infer", "work", "oracle", "tolerance", "samples", "types")
    members = {name: vars(definition)[name] for name in kept if name in vars(definition)}
    return type(definition.__name__ + "InPlace", (), {**members, "__doc__": definition.__doc__})
