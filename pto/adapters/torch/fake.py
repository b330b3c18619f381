# SPDX-License-Identifier: Apache-2.0
"""Fake kernels: shapes and dtypes of an operator's outputs without data, sizes symbolic or not.

The operator's own tracing gives the shapes as expressions over the sizes of its inputs, and the
equalities that they need; both are evaluated here on whatever PyTorch uses as a size.
"""

import atexit
import operator
from collections.abc import Sequence
from typing import Any

import torch
from pto import _core
from pto.adapters.torch.record import DTYPE_NAMES, DTYPES, Record
from pto.errors import InvalidType, InvalidValue
from torch.fx.experimental.symbolic_shapes import statically_known_true

_CONSTANT, _SYMBOL, _MIN = 0, 1, 7
_EVALUATE = {
    2: operator.add,
    3: operator.sub,
    4: operator.mul,
    5: operator.floordiv,
    6: operator.mod,
    _MIN: torch.sym_min,
    8: torch.sym_max,
}
_DIFFER = """{name}: sizes {left} and {right} differ in {because}
  why: shapes broadcast: sizes are equal or one of them is 1
  fix: pass tensors whose shapes broadcast"""
_REDUCES_NOTHING = """{name}: {because} over an axis of size 0
  why: there is no largest or smallest of no elements, and PyTorch refuses it too
  fix: pass a tensor that has elements along the reduced axes, or skip an empty one"""


def _asks_nonempty(a: Any, b: Any) -> bool:
    """Whether a guard is min(size, 1) == 1: the size is not 0."""
    return not isinstance(a, int) and a.op == _MIN and isinstance(b, int) and b == 1


def evaluate(dim: Any, symbols: Sequence[Any]) -> Any:
    """The value of a size expression, an int or a SymInt."""
    if isinstance(dim, int):
        return dim
    if dim.op == _SYMBOL:
        return symbols[dim.value]
    return _EVALUATE[dim.op](evaluate(dim.left, symbols), evaluate(dim.right, symbols))


def _is_one(size: Any) -> bool:
    return size == 1 if isinstance(size, int) else statically_known_true(size == 1)


class FakeKernel:
    """The fake kernel of one operator; keeps the graphs that it has traced."""

    def __init__(self, record: Record):
        self.record = record
        self.graphs: dict[tuple, _core.Graph] = {}
        atexit.register(self.graphs.clear)  # PyTorch keeps its kernels beyond the interpreter's end

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self.record.bind(args, kwargs)
        tensors, symbols = self._describe(values)
        graph = self._graph(values, tensors)
        for a, b, because in graph.guards:
            left, right = evaluate(a, symbols), evaluate(b, symbols)
            text = _REDUCES_NOTHING if _asks_nonempty(a, b) else _DIFFER
            torch._check(
                left == right,
                lambda left=left, right=right, because=because, text=text: text.format(
                    name=self.record.name, left=left, right=right, because=because
                ),
            )
        device = next(v.device for v in values if isinstance(v, torch.Tensor))
        outputs = [
            torch.empty([evaluate(n, symbols) for n in shape], dtype=DTYPES[kind], device=device)
            for kind, shape in graph.outputs
        ]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _describe(self, values: list[Any]) -> tuple[list[Any], list[Any]]:
        """(dtype, shape) of each tensor argument, None where absent, and the values of symbols."""
        tensors: list[Any] = []
        symbols: list[Any] = []
        first = None
        for name, value, is_tensor in zip(
            self.record.names, values, self.record.is_tensor, strict=True
        ):
            if not is_tensor:
                continue
            if value is None:
                tensors.append(None)
                continue
            first = first or (name, value)
            self._check(name, value, *first)
            shape: list[Any] = []
            for size in value.shape:
                one = _is_one(size)
                shape.append(1 if one else _core.Dim.symbol(len(symbols)))
                symbols += [] if one else [size]
            tensors.append((DTYPE_NAMES[value.dtype], tuple(shape)))
        return tensors, symbols

    def _check(self, name: str, value: Any, first_name: str, first: Any) -> None:
        if value.device != first.device:
            raise InvalidValue(
                f"{self.record.name}: tensor {name} is on {value.device} "
                f"but {first_name} is on {first.device}",
                "all tensors of a call must lie on one device",
                f"move it first: {name}.to({str(first.device)!r})",
            )
        if value.dtype not in DTYPE_NAMES:
            raise InvalidType(
                f"{self.record.name}: tensor {name} has the dtype {value.dtype}",
                "kernels exist for bool, integers, float16, bfloat16, float32 and float64",
                f"convert it first: {name}.float()",
            )

    def _graph(self, values: list[Any], tensors: list[Any]) -> _core.Graph:
        attributes = [
            0.0 if is_float else value
            for value, is_tensor, is_float in zip(
                values, self.record.is_tensor, self.record.is_float, strict=True
            )
            if not is_tensor
        ]
        kinds = [t and (t[0], tuple(n == 1 if isinstance(n, int) else 0 for n in t[1]))
                 for t in tensors]  # fmt: skip
        key = (*kinds, *attributes)
        if key not in self.graphs:
            self.graphs[key] = _core.trace_operator(self.record.index, tensors, attributes)
        return self.graphs[key]


def register(record: Record, library: torch.library.Library) -> None:
    """Gives an operator of PyTorch its fake kernel."""
    torch.library.register_fake(f"pto::{record.name}", FakeKernel(record), lib=library)
