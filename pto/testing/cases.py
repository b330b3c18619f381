# SPDX-License-Identifier: Apache-2.0
"""The calls with which an operator is tested: its samples in every element type, and one sample in
the layouts and with the values that go wrong most easily.

    for case in cases(operator, "f32"): case.name, case.args, case.kwargs, case.results()

Results are NumPy's, computed through the registry: every other framework must give their bits. They
are within the definition's tolerance of its oracle themselves (check.py).
"""

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pto.adapters.record import Record
from pto.language.op import Operator
from pto.language.samples import samples

DTYPES = ("f64", "f32", "f16", "bf16", "i32")  # bf16 where NumPy has it


@dataclass(frozen=True)
class Case:
    """One call: `name` says what is special about it."""

    operator: Operator
    dtype: str
    name: str
    args: tuple
    kwargs: dict[str, Any]

    def results(self) -> list[np.ndarray]:
        """The result of NumPy's route, flat."""
        return flat(self.operator(*mapped(self._given, self.args), **self.kwargs))

    def dense(self) -> "Case":
        """The same call on tensors without gaps, as some frameworks make them."""
        return replace(self, args=mapped(lambda t: np.asarray(t, order="C"), self.args))

    @property
    def tensors(self) -> list[np.ndarray]:
        """The arrays among the arguments; copies where the operator replaces elements."""
        return [self._given(t) for a in self.args for t in members(a) if isinstance(t, np.ndarray)]

    def _given(self, x: np.ndarray) -> np.ndarray:
        return copied(x) if adapter_record(self.operator).mutates else x

    def of_tensors(self, function: Callable) -> Callable:
        """function of the arguments as a function of the tensors alone; the rest is constant."""
        kwargs = self.kwargs
        kept = [
            len(a) if _is_list_of_tensors(a) else _TENSOR if isinstance(a, np.ndarray) else (a,)
            for a in self.args
        ]

        def of_tensors(*tensors: Any) -> Any:
            args, place = [], 0
            for one in kept:
                if isinstance(one, tuple):
                    args.append(one[0])
                    continue
                args.append(
                    tensors[place] if one == _TENSOR else list(tensors[place : place + one])
                )
                place += abs(one)
            return function(*args, **kwargs)

        return of_tensors


_TENSOR = -1


def _is_list_of_tensors(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], np.ndarray)


def members(value: Any) -> list:
    """The members of a list or tuple; any other value alone."""
    return list(value) if isinstance(value, list | tuple) else [value]


def flat(results: Any) -> list:
    """The arrays of results, of which some may be lists."""
    return [t for r in members(results) for t in members(r)]


def mapped(convert: Any, args: tuple) -> tuple:
    """The arguments with each array, also in lists, converted."""
    return tuple(
        [convert(t) for t in a]
        if _is_list_of_tensors(a)
        else convert(a)
        if isinstance(a, np.ndarray)
        else a
        for a in args
    )


def types_of(operator: Operator) -> list[str]:
    """The element types of DTYPES that the first tensor may have, or the first of others."""
    first = next(a for a in operator.arguments if a.is_tensor)
    absent = () if importlib.util.find_spec("ml_dtypes") else ("bf16",)
    allowed = operator.types[first.type]
    return [name for name in DTYPES if name in allowed and name not in absent] or [allowed[0]]


# --- layouts and values: array -> the same elements, or others ------------------------------------


def every_second(x: np.ndarray) -> np.ndarray:
    """The same elements with a gap behind each, along all axes."""
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def transposed(x: np.ndarray) -> np.ndarray:
    """The same elements, the first axis dense."""
    return np.ascontiguousarray(x.T).T


def backwards(x: np.ndarray) -> np.ndarray:
    """The same elements, rows in the opposite order of memory."""
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
    """Floats times a power of two that makes them subnormal; integers as they are."""
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


def copied(x: np.ndarray) -> np.ndarray:
    """The same elements in other memory, with the same strides."""
    steps = [(n - 1) * s for n, s in zip(x.shape, x.strides, strict=True) if x.size]
    low = -sum(step for step in steps if step < 0)
    room = np.empty(low + sum(step for step in steps if step > 0) + x.itemsize, np.uint8)
    y = np.ndarray(x.shape, x.dtype, room, low, x.strides)
    y[...] = x
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
    if not variants or not found:
        return
    args, kwargs = found[0]
    for name, change in VARIANTS.items():
        if name == "stride 0" and adapter_record(operator).mutates:
            continue  # refused: an element would be written twice
        yield Case(operator, dtype, name, mapped(change, args), kwargs)


def adapter_record(operator: Operator) -> Record:
    """The record that adapters read of an operator."""
    return Record(operator.index)
