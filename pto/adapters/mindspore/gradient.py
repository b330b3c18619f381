# SPDX-License-Identifier: Apache-2.0
"""Makes the gradient rule of a primitive from the gradient operator, for graphs and eager calls.

MindSpore parses a rule in graph mode and runs it as Python otherwise; it wants one with a named
parameter for each tensor. So the rule for a number of tensors is generated text; Rule.backward does
the work, on flat tuples.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pto.adapters.mindspore.primitive import record
from pto.adapters.mindspore.source import function_from


@dataclass(frozen=True)
class Plan:
    """How to call the gradient operator of a call.

    `picks` are places of its tensors among (gradients of outputs, arguments, outputs); `sources`
    has for each argument the place of its gradient among the results, or -1: there is none;
    `bits` its bit of the attribute `needs`.
    """

    index: int
    counts: tuple[int, ...]
    picks: tuple[int, ...]
    sources: tuple[int, ...]
    bits: tuple[int, ...]
    has_lists: bool  # a list that is not asked for would come back with another length

    @property
    def needs(self) -> int:
        """Asks for the gradient of every argument that was given."""
        return functools.reduce(operator.or_, self.bits, 0)


def _spans(sizes: Sequence[int], start: int) -> list[range]:
    """Consecutive ranges of these lengths."""
    spans = []
    for size in sizes:
        spans.append(range(start, start + size))
        start += size
    return spans


@functools.cache
def plan(index: int, counts: tuple[int, ...], output_counts: tuple[int, ...]) -> Plan | None:
    """The plan for a call with these numbers of tensors; None without a gradient operator."""
    of = record(index)
    if of.gradient < 0:
        return None
    total, given = sum(output_counts), sum(counts)
    spans = _spans(output_counts, 0)
    d_outputs = [s for s, o in zip(spans, of.outputs, strict=True) if o.is_differentiable]
    places = [i for i, a in enumerate(of.arguments) if a.is_tensor]
    arguments = dict(zip(places, _spans(counts, total), strict=True))
    outputs = _spans(output_counts, total + given)
    taken = d_outputs + [arguments[s] if s >= 0 else outputs[-1 - s] for s in of.saved]
    sources, bits = [-1] * given, [0] * given
    result = 0
    lists = [of.arguments[argument].kind == "Tensor[]" for argument in of.wanted]
    for bit, (argument, is_list) in enumerate(zip(of.wanted, lists, strict=True)):
        span = arguments[argument]
        for i, place in enumerate(span):
            sources[place - total], bits[place - total] = result + i, 1 << bit
        result += len(span) if is_list else 1
    return Plan(
        index=of.gradient,
        counts=tuple(len(span) for span in taken),
        picks=tuple(i for span in taken for i in span),
        sources=tuple(sources),
        bits=tuple(bits),
        has_lists=any(lists),
    )


@functools.cache
def _rule_maker(tensors: int) -> Callable:
    names = "".join(f"x{i}, " for i in range(tensors))
    text = (
        "def make(backward):\n"
        f"    def bprop({names}out, dout):\n"
        f"        return backward(({names}), out, dout)\n"
        "    return bprop\n"
    )
    return function_from(text, "make")


def rule(tensors: int, backward: Callable) -> Callable:
    """A bprop for a primitive of so many tensors: backward((tensor, ...), out, dout)."""
    return _rule_maker(tensors)(backward)
