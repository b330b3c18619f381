# SPDX-License-Identifier: Apache-2.0
"""Derives NAME_, the operator that replaces the elements of its first argument, from NAME."""


def inplace_definition(definition: type) -> type:
    """The members that NAME_ takes over: all but the gradient."""
    kept = ("build", "kernel", "infer", "work", "oracle", "tolerance", "samples", "types")
    members = {name: vars(definition)[name] for name in kept if name in vars(definition)}
    return type(definition.__name__ + "InPlace", (), {**members, "__doc__": definition.__doc__})
