# SPDX-License-Identifier: Apache-2.0
"""The primitive of calls outside graphs infers shapes in Python, once for each kind of arguments.

MindSpore opens the library anew whenever the library infers a shape, which takes as long as the
rest of a call. In a graph the library infers, since an exported graph has no Python.
"""

import functools
from collections.abc import Callable
from typing import Any

from pto.adapters.mindspore.primitive import (
    DTYPES,
    OperatorPrimitive,
    call_text,
    dtype_name,
    record,
    returns_many,
)
from pto.errors import InvalidValue

KINDS = 256  # so many dtypes and shapes of arguments a primitive keeps the results' shapes for


class InferredPrimitive(OperatorPrimitive):
    """One operator with these attributes, for tensors whose shapes are known."""

    def __init__(
        self, index: int, counts: tuple[int, ...], attributes: tuple, bprop: Callable | None
    ) -> None:
        super().__init__(index, call_text(counts, attributes), bprop, shape=self._unused)
        self._of, self._counts, self._attributes = index, counts, attributes
        self._results = functools.lru_cache(KINDS)(self._infer)

    def __infer__(self, *tensors: dict) -> dict:
        kinds = tuple((t["dtype"].element_type(), tuple(t["shape"])) for t in tensors)
        shape, dtype = self._results(kinds)
        return {"shape": shape, "dtype": dtype, "value": None}

    def _infer(self, kinds: tuple) -> tuple:
        operator = record(self._of)
        named = [(dtype_name(self._of, dtype), shape) for dtype, shape in kinds]
        flat_kinds = [(name, len(shape)) for name, shape in named]
        like = operator.by_argument(self._counts, flat_kinds)
        for a, value in zip(operator.attributes, self._attributes, strict=True):
            if a.kind == "SymInt" and value is not None:
                self._size(a.name, value)
        symbols = [size for _, shape in named for size in shape]
        symbols += operator.sizes_among(self._attributes)
        shapes = operator.shapes(like, list(self._attributes))
        flat = []
        for output in shapes.evaluate(symbols):
            flat += output if isinstance(output, list) else [output]
        sizes = tuple([self._size("a size of its result", n) for n in shape] for _, shape in flat)
        dtypes = tuple(DTYPES[name] for name, _ in flat)
        return (sizes, dtypes) if returns_many(self._of) else (sizes[0], dtypes[0])

    def _size(self, name: str, size: int) -> int:
        if size >= 0:
            return size
        raise InvalidValue(
            f"{record(self._of).name}: {name} is {size}",
            "sizes are not negative",
            "pass larger tensors, or a number of at least 0",
        )

    @staticmethod
    def _unused(*_: Any) -> None:
        """Stands for a shape function: with one MindSpore does not ask the library; __infer__ is
        asked instead."""
