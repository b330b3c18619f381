# SPDX-License-Identifier: Apache-2.0
"""Gradient operators with kernels written by hand take the shapes of a forward call, and no others.

Such a kernel reads as far as `infer` lets it: a check that is missing there is a read of foreign
memory. A graph of operations checks what it reads by itself.
"""

from dataclasses import replace

import numpy as np
import pytest
from conformance.operators import OPERATORS

import pto
from pto.testing.cases import adapter_record, cases, members, types_of
from pto.testing.expected import by_output, gradient_case

HAND_WRITTEN = {
    name: operator
    for name, operator in OPERATORS.items()
    if operator.member("kernel") and adapter_record(operator).gradient >= 0
}


def misshaped(x):
    """The array with an axis shorter or longer, with one axis less or more."""
    for axis in range(x.ndim):
        yield np.delete(x, 0, axis)
        yield np.repeat(x, 2, axis)
    yield from [x[0], x.reshape(-1)] if x.ndim > 1 else []
    yield x[None]


def with_one_misshaped(case):
    for place, given in enumerate(case.args):
        for member, x in enumerate(members(given)):
            for other in misshaped(x) if isinstance(x, np.ndarray) and x.size else ():
                args = list(case.args)
                args[place] = other
                if isinstance(given, list):
                    args[place] = [*given[:member], other, *given[member + 1 :]]
                yield replace(case, args=tuple(args))


def forward_call(case, gradient, saved):
    """`case` with the arguments that `gradient` was given. One that was not saved is as large as
    its gradient; without a gradient, as large as the gradient by its gradient."""
    about, results = adapter_record(case.operator), by_output(gradient)
    named = dict(zip(adapter_record(gradient.operator).names, gradient.args, strict=False))
    args = []
    for place, (name, given) in enumerate(zip(about.names, case.args, strict=False)):
        unsaved = named.get(f"d_d_{name}", given)
        if place in about.wanted and given is not None:
            unsaved = results[about.wanted.index(place)]
        args.append(saved.get(place, unsaved))
    return replace(case, args=tuple(args))


def has_forward_call(case, gradient):
    """True if a call gives results whose shapes are those that `gradient` was given."""
    about = adapter_record(case.operator)
    first = len(gradient.args) - len(about.saved)
    saved = dict(zip(about.saved, gradient.args[first:], strict=True))
    try:
        outputs = by_output(forward_call(case, gradient, saved))
    except pto.Error:
        return False
    differentiable = [o for o, a in zip(outputs, about.outputs, strict=True) if a.is_differentiable]
    pairs = [*zip(gradient.args[:first], differentiable, strict=True)]
    pairs += [(value, outputs[-1 - place]) for place, value in saved.items() if place < 0]
    return all(shapes_of(given) == shapes_of(output) for given, output in pairs)


def shapes_of(value):
    return [np.shape(t) for t in members(value)]


def accepted(case, gradient):
    """The calls of the gradient operator that give a result without a forward call."""
    for wrong in with_one_misshaped(gradient):
        try:
            wrong.results()
        except pto.Error:
            continue
        if not has_forward_call(case, wrong):
            yield f"{wrong.operator.name}{[shapes_of(a) for a in wrong.args]} {wrong.kwargs}"


@pytest.mark.parametrize("operator", HAND_WRITTEN.values(), ids=HAND_WRITTEN)
def test_a_gradient_operator_takes_the_shapes_of_a_forward_call_only(operator, deep):
    found = list(cases(operator, types_of(operator)[0], variants=False))
    for case in found if deep else found[:2]:
        while gradient := gradient_case(case):
            assert list(accepted(case, gradient)) == []
            case = gradient
