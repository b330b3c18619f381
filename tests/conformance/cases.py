# SPDX-License-Identifier: Apache-2.0
"""The cases of the conformance matrix: every operator of the library, its samples in every element
type, and one sample in the layouts and with the values that go wrong most easily.

    for case in cases(operator, "f32"): case.name, case.args, case.kwargs, case.results()

Results are NumPy's, computed through the registry: every other framework must give their bits. They
are within the definition's tolerance of its oracle themselves (test_conformance.py).
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pto import ops
from pto.adapters.record import Record
from pto.language.op import Operator, operators
from pto.language.samples import numpy_type, samples

DTYPES = ("f64", "f32", "f16", "bf16", "i32")  # bf16 where NumPy has it
OPERATORS = {name: getattr(ops, name) for name in ops.__all__}


@dataclass(frozen=True)
class Case:
    """One call: `name` says what is special about it."""

    operator: Operator
    dtype: str
    name: str
    args: tuple
    kwargs: dict[str, Any]

    def results(self) -> list[np.ndarray]:
        """What NumPy's route gives, flat."""
        return flat(self.operator(*self.args, **self.kwargs))

    def dense(self) -> "Case":
        """The same call on tensors without gaps, as some frameworks make them."""
        return replace(self, args=mapped(lambda t: np.asarray(t, order="C"), self.args))

    @property
    def tensors(self) -> list[np.ndarray]:
        return [t for a in self.args for t in members(a) if isinstance(t, np.ndarray)]


def members(value: Any) -> list:
    return list(value) if isinstance(value, list | tuple) else [value]


def flat(results: Any) -> list:
    return [t for r in members(results) for t in members(r)]


def mapped(convert: Any, args: tuple) -> tuple:
    """The arguments with each array, also in lists, converted."""
    return tuple(
        [convert(t) for t in a]
        if isinstance(a, list) and a and isinstance(a[0], np.ndarray)
        else convert(a)
        if isinstance(a, np.ndarray)
        else a
        for a in args
    )


def types_of(operator: Operator) -> list[str]:
    """The element types of DTYPES that the first tensor may have."""
    first = next(a for a in operator.arguments if a.is_tensor)
    absent = () if importlib.util.find_spec("ml_dtypes") else ("bf16",)
    return [name for name in DTYPES if name in operator.types[first.type] and name not in absent]


# --- layouts and values: array -> the same elements, or others ------------------------------------


def every_second(x: np.ndarray) -> np.ndarray:
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def transposed(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.T).T


def backwards(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x[::-1])[::-1] if x.ndim else x


def offset(x: np.ndarray) -> np.ndarray:
    """Dense, but not at the start of its memory."""
    room = np.zeros(x.size + 3, x.dtype)
    room[3:] = x.reshape(-1)
    return room[3:].reshape(x.shape)


def repeated(x: np.ndarray) -> np.ndarray:
    """A row stands for all: stride 0."""
    return np.broadcast_to(x[:1], x.shape) if x.ndim and x.shape[0] else x


def subnormal(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "iub":
        return x
    small = {2: 2.0**-18, 4: 2.0**-140, 8: 2.0**-1040}[x.dtype.itemsize]
    small = 2.0**-130 if x.dtype.name == "bfloat16" else small
    return (x.astype(np.float64) * small).astype(x.dtype)


def special(x: np.ndarray) -> np.ndarray:
    """NaN, infinities and -0 among the elements."""
    if x.dtype.kind in "iub" or x.size < 5:
        return x
    y = x.copy()
    y.reshape(-1)[:4] = [np.nan, np.inf, -np.inf, -0.0]
    return y


VARIANTS = {
    "every second element": every_second,
    "transposed": transposed,
    "negative stride": backwards,
    "offset view": offset,
    "stride 0": repeated,
    "subnormals": subnormal,
    "NaN and infinities": special,
}


def cases(operator: Operator, dtype: str, variants: bool = True) -> Iterator[Case]:
    """The samples in this element type, then the variants of the first."""
    found = list(samples(operator, dtype))
    for number, (args, kwargs) in enumerate(found):
        shapes = "+".join(
            str(list(t.shape)) for a in args for t in members(a) if hasattr(t, "shape")
        )
        yield Case(operator, dtype, f"sample {number}: {shapes}", args, kwargs)
    if not variants:
        return
    args, kwargs = found[0]
    for name, change in VARIANTS.items():
        yield Case(operator, dtype, name, mapped(change, args), kwargs)


# --- gradients ----------------------------------------------------------------------------------


def record_of(operator: Operator) -> Record:
    return Record(operator.index)


def gradient_case(case: Case) -> Case | None:
    """The call of the gradient operator, for gradients of 1; None where there is none."""
    record = record_of(case.operator)
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
    needs = sum(1 << i for i, a in enumerate(record.wanted) if values[a] is not None)
    named = dict(zip([a.name for a in backward.arguments], [*ones, *saved, *attributes, needs],
                     strict=True))  # fmt: skip
    positional = tuple(named.pop(a.name) for a in backward.arguments if not a.keyword_only)
    return replace(case, operator=backward, args=positional, kwargs=named)


def by_output(case: Case) -> list[Any]:
    """What NumPy's route gives: an array or a list of them for each output."""
    found = case.operator(*case.args, **case.kwargs)
    is_list = [o.is_list for o in record_of(case.operator).outputs]
    if len(is_list) > 1:
        return list(found)
    return [list(found)] if is_list[0] else members(found)


def gradients(case: Case) -> list[np.ndarray | None]:
    """The gradients of all differentiable arguments for gradients of 1, by the gradient operator on
    NumPy arrays; None for one that has the broadcast shape, which frameworks sum."""
    record = record_of(case.operator)
    values = record.bind(case.args, case.kwargs)
    pairs = [
        pair
        for gradient, a in zip(by_output(gradient_case(case)), record.wanted, strict=True)
        if values[a] is not None
        for pair in zip(members(gradient), members(values[a]), strict=True)
    ]
    return [summed(gradient, argument.shape) for gradient, argument in pairs]


def second_gradients(case: Case) -> list[np.ndarray]:
    """The derivatives of the sum of all gradients by the gradients of the outputs."""
    first = gradient_case(case)
    second = gradient_case(first)
    d_outputs = range(sum(o.is_differentiable for o in record_of(case.operator).outputs))
    places = [record_of(first.operator).wanted.index(i) for i in d_outputs]
    needs = second.operator.arguments[-1].name
    second.kwargs[needs] = sum(1 << place for place in places)  # what a framework asks for then
    found = by_output(second)
    return flat([found[place] for place in places])


def wanted(case: Case) -> list[int]:
    """The places of differentiable arguments that this call gives."""
    record = record_of(case.operator)
    values = record.bind(case.args, case.kwargs)
    return [a for a in record.wanted if values[a] is not None]


def summed(gradient: np.ndarray, shape: tuple) -> np.ndarray | None:
    """None where axes would be summed: frameworks sum in their own order."""
    return gradient if gradient.shape == shape else None


def operators_by_index() -> dict[int, Operator]:
    return {one.index: one for one in operators()}


def is_close(case: Case, got: list[np.ndarray]) -> bool:
    """Whether results are the oracle's, evaluated in double, within the operator's tolerance."""
    oracle, tolerance = case.operator.member("oracle"), case.operator.member("tolerance")
    allowed = {str(kind): value for kind, value in tolerance.items()}.get(case.dtype, 0)
    exact = mapped(lambda t: t if t.dtype.kind in "iub" else t.astype(np.float64), case.args)
    with np.errstate(all="ignore"):
        want = flat(oracle(*exact, **case.kwargs))
        return len(got) == len(want) and all(
            np.shape(g) == np.shape(w)
            and np.allclose(
                np.asarray(g, np.float64),
                np.asarray(np.asarray(w).astype(g.dtype), np.float64),
                rtol=allowed, atol=allowed, equal_nan=True,
            )
            for g, w in zip(got, want, strict=True)
        )  # fmt: skip


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


__all__ = ["Case", "cases", "gradients", "is_close", "numpy_type", "same_bits", "types_of"]
