# SPDX-License-Identifier: Apache-2.0
"""The expected result of a mode of a framework, from NumPy's route.

In use:

    expected("gradient", case); same_bits(got, want); is_close(case, got)
"""

from dataclasses import replace
from typing import Any

import numpy as np

from pto.language.dtypes import dtype
from pto.language.op import Operator, operators
from pto.testing.cases import Case, adapter_record, flat, mapped, members
from pto.testing.close import Closeness


def expected(mode: str, case: Case) -> list[np.ndarray | None]:
    """The arrays; None for one that frameworks compute in an order of their own."""
    if mode.endswith("gradient"):
        return gradients(case)
    if mode == "gradient twice":
        return second_gradients(case)
    return gradient_case(case).results() if mode == "gradient operator" else case.results()


def gradient_case(case: Case) -> Case | None:
    """The call of the gradient operator, for gradients of 1; None where there is none."""
    record = adapter_record(case.operator)
    if record.gradient < 0:
        return None
    backward = operators_by_index()[record.gradient]
    values = record.bind(case.args, case.kwargs)
    outputs = by_output(case)
    ones = [
        [np.ones_like(t) for t in o] if isinstance(o, list | tuple) else np.ones_like(o)
        for o, about in zip(outputs, record.outputs, strict=True)
        if about.is_differentiable
    ]
    saved = [values[s] if s >= 0 else outputs[-1 - s] for s in record.saved]
    attributes = [v for v, a in zip(values, record.arguments, strict=True) if not a.is_tensor]
    needs = sum(1 << i for i, a in enumerate(record.wanted) if is_differentiable(values[a]))
    named = dict(zip([a.name for a in backward.arguments], [*ones, *saved, *attributes, needs],
                     strict=True))  # fmt: skip
    positional = tuple(named.pop(a.name) for a in backward.arguments if not a.keyword_only)
    return replace(case, operator=backward, args=positional, kwargs=named)


def by_output(case: Case) -> list[Any]:
    """The result of NumPy's route: an array or a list of them for each output."""
    found = case.operator(*case.args, **case.kwargs)
    is_list = [o.is_list for o in adapter_record(case.operator).outputs]
    if len(is_list) > 1:
        return list(found)
    return [list(found)] if is_list[0] else members(found)


def gradients(case: Case) -> list[np.ndarray | None]:
    """The gradients of all differentiable arguments for gradients of 1, by the gradient operator on
    NumPy arrays; None for one that has the broadcast shape, which frameworks sum."""
    record = adapter_record(case.operator)
    values = record.bind(case.args, case.kwargs)
    pairs = [
        pair
        for gradient, a in zip(by_output(gradient_case(case)), record.wanted, strict=True)
        if is_differentiable(values[a])
        for pair in zip(members(gradient), members(values[a]), strict=True)
    ]
    return [summed(gradient, argument.shape) for gradient, argument in pairs]


def second_gradients(case: Case) -> list[np.ndarray]:
    """The derivatives of the sum of all gradients by the gradients of the outputs."""
    first = gradient_case(case)
    second = gradient_case(first)
    d_outputs = range(sum(o.is_differentiable for o in adapter_record(case.operator).outputs))
    places = [adapter_record(first.operator).wanted.index(i) for i in d_outputs]
    needs = second.operator.arguments[-1].name
    second.kwargs[needs] = sum(1 << place for place in places)  # what a framework asks for then
    found = by_output(second)
    return flat([found[place] for place in places])


def wanted(case: Case) -> list[int]:
    """The places of differentiable arguments that this call gives."""
    record = adapter_record(case.operator)
    values = record.bind(case.args, case.kwargs)
    return [a for a in record.wanted if is_differentiable(values[a])]


def is_differentiable(value: Any) -> bool:
    """True for an argument that is there, but for a mask of bool."""
    return value is not None and not any(x.dtype == bool for x in members(value))


def summed(gradient: np.ndarray, shape: tuple) -> np.ndarray | None:
    """None where axes would be summed: frameworks sum in their own order."""
    return gradient if gradient.shape == shape else None


def operators_by_index() -> dict[int, Operator]:
    return {one.index: one for one in operators()}


def is_close(case: Case, got: list[np.ndarray]) -> bool:
    """True if results are the oracle's, evaluated in double, within the operator's tolerance."""
    try:
        return all(one.is_good for one in closeness(case, got))
    except ValueError:  # another number of results
        return False


def closeness(case: Case, got: list[np.ndarray]) -> list[Closeness]:
    """How close results are to the oracle's; ValueError where their numbers differ."""
    oracle, tolerance = case.operator.member("oracle"), case.operator.member("tolerance") or {}
    allowed = {str(dtype(kind)): value for kind, value in tolerance.items()}.get(case.dtype, 0)
    exact = mapped(lambda t: t if t.dtype.kind in "iub" else t.astype(np.float64), case.args)
    with np.errstate(all="ignore"):
        want = flat(oracle(*exact, **case.kwargs))
    return [Closeness.of(g, w, allowed) for g, w in zip(got, want, strict=True)]


def same_bits(got: list[np.ndarray], want: list[np.ndarray | None]) -> bool:
    """Equal types, shapes and bits, but for which NaN it is."""
    if len(got) != len(want):
        return False
    for g, w in zip(got, want, strict=True):
        if w is None:
            continue
        g = np.asarray(g)
        if g.dtype != w.dtype or g.shape != w.shape:
            return False
        if w.dtype.kind in "iub":
            if not np.array_equal(g, w):
                return False
            continue
        bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[w.dtype.itemsize]
        nan = np.isnan(w.astype(np.float64))
        equal = np.ascontiguousarray(g).view(bits) == np.ascontiguousarray(w).view(bits)
        if not np.array_equal(nan, np.isnan(g.astype(np.float64))) or not np.all(equal | nan):
            return False
    return True
