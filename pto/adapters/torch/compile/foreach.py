# SPDX-License-Identifier: Apache-2.0
"""Decompositions of operators on lists of tensors, as optimisers call them.

    table |= of_lists()                  # _foreach_mul.Scalar: a mul for each tensor, and so on

ATen itself runs the operator of a tensor for each one on the CPU; in a graph their nodes fuse.
Thread safety: pure functions.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

_PREFIX = "aten::_foreach_"
_LISTS = ("List[Tensor]", "List[number]")
_SPECIAL: dict[str, Callable[..., Any]] = {
    "addcdiv": lambda x, a, b, value=1: torch.addcdiv(x, a, b, value=value),
    "addcmul": lambda x, a, b, value=1: torch.addcmul(x, a, b, value=value),
    "max": torch.max,
    "maximum": torch.clamp_min,  # of a number, too
    "minimum": torch.clamp_max,
    "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
    "zero": torch.zeros_like,
}


@functools.cache
def of_lists() -> dict:
    """The decomposition of each functional overload whose numbers are known while tracing."""
    found: dict = {}
    for full_name in torch._C._dispatch_get_all_op_names():
        name, _, overload = full_name.removeprefix(_PREFIX).partition(".")
        if not full_name.startswith(_PREFIX) or name.endswith("_") or overload.endswith("out"):
            continue
        function = _SPECIAL.get(name) or getattr(torch.ops.aten, name, None)
        one = getattr(getattr(torch.ops.aten, f"_foreach_{name}"), overload or "default")
        if function is not None and _is_known(name, one):
            found[one] = functools.partial(_each, one, function)
    return found


def _is_known(name: str, one: torch._ops.OpOverload) -> bool:
    """Says whether an overload makes a list, and reads no numbers from a tensor."""
    makes_list = [str(value.type) for value in one._schema.returns] == ["List[Tensor]"]
    reads_numbers = name.startswith("addc") and one._overloadname == "Tensor"
    return makes_list and not one._schema.is_mutable and not reads_numbers


def _each(
    one: torch._ops.OpOverload, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> list[torch.Tensor]:
    are_lists = [str(argument.type) in _LISTS for argument in one._schema.arguments]
    given = list(zip(args, are_lists, strict=False))
    return [
        function(*(value[place] if is_list else value for value, is_list in given), **kwargs)
        for place in range(len(args[0] if are_lists[0] else args[1]))
    ]
