# SPDX-License-Identifier: Apache-2.0
"""Fake kernels: shapes and dtypes of an operator's outputs without data, for symbolic sizes too.

Errors: InvalidType and InvalidValue with the texts of the kernels. Thread safety: any thread.
"""

import atexit
import functools
from typing import Any

import torch
from pto import _core
from pto.adapters.record import Record
from pto.adapters.shapes import SymbolicSizes
from pto.adapters.torch.record import (
    DTYPE_NAMES,
    DTYPES,
    into_outs,
    out_names,
    qualified_name,
    returns_self,
)
from pto.errors import InvalidType, InvalidValue
from pto.language.redefinition import times_replaced
from torch.fx.experimental.symbolic_shapes import statically_known_true

_TEXT = "{}\n  why: {}\n  fix: {}"


class Symbolic(SymbolicSizes):
    """Decides on SymInts; a SymInt counts as 1 only where PyTorch knows that it is."""

    min = staticmethod(torch.sym_min)
    max = staticmethod(torch.sym_max)

    def broadcast(self, a: Any, b: Any) -> Any:
        if _is_one(b):
            return a
        if not _is_one(a):
            self.require_equal(a, b, "broadcasting", 0)
        return b if _is_one(a) or isinstance(b, int) else a

    def require_equal(self, a: Any, b: Any, because: str, kind: int) -> None:
        torch._check(a == b, lambda: _TEXT.format(*self.mismatch(a, b, because, kind)))


def _is_one(size: Any) -> bool:
    return size == 1 if isinstance(size, int) else statically_known_true(size == 1)


class FakeKernel:
    """The fake kernel of one operator; it keeps the shapes that it asked the registry for."""

    def __init__(self, record: Record):
        self.record = record
        self.shapes: dict[tuple, _core.OperatorShapes] = {}
        atexit.register(self.shapes.clear)  # PyTorch keeps its kernels beyond the interpreter's end

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self.record.bind(args, kwargs)
        tensors, symbols = self._describe(values)
        pairs = zip(values, self.record.is_tensor, strict=True)
        attributes = [value for value, is_tensor in pairs if not is_tensor]
        shapes = self._shapes(attributes, tensors)
        symbols += self.record.sizes_among(attributes)
        outputs = shapes.evaluate(symbols, Symbolic(self.record.name))
        outputs = [
            _of_unknown_rows(*output) if about.is_bounded else output
            for output, about in zip(outputs, self.record.outputs, strict=True)
        ]
        device = next(t.device for t in _tensors(values))
        if returns_self(self.record):
            return values[0]
        results = [
            [_empty(one, device) for one in output]
            if isinstance(output, list)
            else _empty(output, device)
            for output, about in zip(outputs, self.record.outputs, strict=True)
            if about.replaces < 0
        ]
        if not results:
            return None
        return results[0] if len(results) == 1 else tuple(results)

    def _describe(self, values: list[Any]) -> tuple[list[Any], list[Any]]:
        """(dtype, rank) of each tensor argument, None or a list of them, and all sizes."""
        described: list[Any] = []
        symbols: list[Any] = []
        first: list[tuple[str, torch.Tensor]] = []

        def one(name: str, tensor: torch.Tensor) -> tuple[str, int]:
            first.append((name, tensor))
            self._check(name, tensor, *first[0])
            symbols.extend(tensor.shape)
            return DTYPE_NAMES[tensor.dtype], tensor.ndim

        for a, value in zip(self.record.arguments, values, strict=True):
            if not a.is_tensor:
                continue
            if isinstance(value, list):
                described.append([one(a.name, tensor) for tensor in value])
            else:
                described.append(None if value is None else one(a.name, value))
        return described, symbols

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

    def _shapes(self, values: list[Any], tensors: list[Any]) -> _core.OperatorShapes:
        attributes = [
            0 if a.kind in ("float", "SymInt") and value is not None else value
            for value, a in zip(values, self.record.attributes, strict=True)
        ]
        key = (repr(tensors), repr(attributes), times_replaced[self.record.index])
        if key not in self.shapes:
            self.shapes[key] = self.record.shapes(tensors, attributes)
        return self.shapes[key]


def _write_out(record: Record, out: torch.Tensor, result: torch.Tensor) -> None:
    """Gives a fake `out` the size of its result; raises where it cannot take the result."""
    if out.dtype != result.dtype:
        raise InvalidType(
            f"{record.name}: out is {DTYPE_NAMES.get(out.dtype, out.dtype)} "
            f"but the result is {DTYPE_NAMES[result.dtype]}",
            "results are written without conversion",
            "pass an out of the result's dtype",
        )
    if out.shape != result.shape:
        if out.numel() != 0:
            raise InvalidValue(
                f"{record.name}: out has the shape {list(out.shape)} "
                f"but the result {list(result.shape)}",
                "only an empty out gets another shape",
                "pass an out of the result's shape, or torch.empty(0)",
            )
        out.resize_(result.shape)


def _tensors(values: list[Any]) -> list[torch.Tensor]:
    flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
    return [v for v in flat if isinstance(v, torch.Tensor)]


def _of_unknown_rows(kind: str, shape: tuple) -> tuple[str, tuple]:
    """The output with a first size that only the run tells, at most its bound if that is an int."""
    most = shape[0] if isinstance(shape[0], int) else None
    size = torch.library.get_ctx().new_dynamic_size(min=0, max=most)
    return kind, (size, *shape[1:])


def _empty(output: tuple, device: torch.device) -> torch.Tensor:
    kind, shape = output
    return torch.empty(shape, dtype=DTYPES[kind], device=device)


def register(record: Record, library: torch.library.Library) -> None:
    """Gives an operator of PyTorch, and its overload `out`, the fake kernel."""
    kernel = FakeKernel(record)
    torch.library.register_fake(qualified_name(record), kernel, lib=library)
    if out_names(record):
        out = into_outs(record, kernel, functools.partial(_write_out, record))
        torch.library.register_fake(f"{qualified_name(record)}.out", out, lib=library)
