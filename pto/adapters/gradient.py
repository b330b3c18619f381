# SPDX-License-Identifier: Apache-2.0
"""Gathers tensors for a gradient operator, and gradients from its results, as its plan says.

    plan = gradient_plan(index, counts, output_counts)
    needs = needs_of(plan, is_asked)
    results = gradient_operator(*picked(plan, [*d_outputs, *tensors, *outputs]), needs)
    gathered(plan, results, needs)                               # one for each tensor, or None

It imports no framework. Thread safety: pure functions.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pto import _core
from pto.adapters.record import Record
from pto.errors import InvalidValue


class GradientPlan(NamedTuple):
    """pto_gradient_plan of abi/operator.h, which describes the members."""

    op: int
    inputs: tuple[int, ...]
    counts: tuple[int, ...]
    outputs: tuple[int, ...]
    members: tuple[int, ...]
    places: tuple[int, ...]
    all_needs: int


@functools.lru_cache(4096)
def gradient_plan(
    index: int, counts: tuple[int, ...], output_counts: tuple[int, ...]
) -> GradientPlan | None:
    """The plan for a call with these numbers of tensors; None without a gradient operator."""
    found = _core.gradient_plan(index, counts, output_counts)
    return found and GradientPlan(*found)


def needs_of(plan: GradientPlan, is_asked: Iterable[Any]) -> int:
    """The attribute `needs`, from a truth value for each tensor of the call."""
    needs = 0
    for output, asked in zip(plan.outputs, is_asked, strict=True):
        if asked and output >= 0:
            needs |= 1 << output
    return needs


def refuse_lacking(
    record: Record, counts: Iterable[int], plan: GradientPlan, is_asked: Iterable[Any], fix: str
) -> None:
    """Raises InvalidValue where the caller asks for a gradient that the operator does not compute.

    `counts` are the tensors of each argument; `fix` names the framework's function that cuts the
    graph of gradients, as "tf.stop_gradient".
    """
    names = [a.name for a, n in zip(record.tensors, counts, strict=True) for _ in range(n)]
    for name, output, asked in zip(names, plan.outputs, is_asked, strict=True):
        if asked and output < 0:
            raise InvalidValue(
                f"{record.name}: the gradient by {name} is asked for, but the operator has none"
                " by it",
                "a result without it would silently cut the graph of gradients",
                f"call {fix}({name}) on what goes in",
            )


def picked(plan: GradientPlan, pool: Sequence[Any]) -> list[Any]:
    """The tensors of the gradient operator, those of lists one after another."""
    return [pool[place] for place in plan.inputs]


def gathered(plan: GradientPlan, results: Any, needs: int) -> list[Any]:
    """The gradient of each tensor of the call from the outputs, None where it was not asked for."""
    gradients = []
    for output, member in zip(plan.outputs, plan.members, strict=True):
        is_asked = output >= 0 and needs >> output & 1
        result = results[output] if is_asked else None
        if isinstance(result, list | tuple):
            _check_count(len(result), plan.outputs.count(output))
            result = result[member]
        gradients.append(result)
    return gradients


def _check_count(given: int, wanted: int) -> None:
    if given != wanted:
        raise InvalidValue(
            f"grad returned {given} gradients for a list of {wanted} tensors",
            "each tensor of the list has a gradient",
            "return a list with a gradient for each tensor of the list",
        )
