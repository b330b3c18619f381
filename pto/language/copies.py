# SPDX-License-Identifier: Apache-2.0
"""Copies of the arrays of a call, and arrays for graphs that are parts of it.

Thread safety: pure functions.
"""

import sys
import zlib
from typing import Any

from pto import _core
from pto.language.dtypes import dtype as element_type
from pto.language.dtypes import numpy_type
from pto.language.interpret import pack

_UNKNOWN = 3  # a size that no array says


def copies_of(values: dict[str, Any]) -> dict[str, Any]:
    """The arguments, each array copied once, with its strides."""
    made: dict[int, Any] = {}
    return {name: made.setdefault(id(value), _copy(value)) for name, value in values.items()}


def _copy(value: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        with torch.no_grad():  # all memory from its first element to its last: some may share one
            steps = zip(value.shape, value.stride(), strict=True)
            size = 1 + sum((n - 1) * step for n, step in steps) if value.numel() else 0
            return value.as_strided((size,), (1,)).clone().as_strided(value.shape, value.stride())
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        return value
    return _with_strides(numpy, value)


def _with_strides(numpy: Any, value: Any) -> Any:
    """A copy in memory of its own; rows that lie backwards do so again."""
    backwards = tuple(slice(None, None, -1 if step < 0 else 1) for step in value.strides)
    strides = tuple(abs(step) for step in value.strides)
    size = value.itemsize
    if value.size:
        size += sum((n - 1) * step for n, step in zip(value.shape, strides, strict=True))
    memory = numpy.empty(size, numpy.uint8)
    made = numpy.ndarray(value.shape, value.dtype, memory, 0, strides)[(*backwards, ...)]
    made[...] = value
    return made


def filled(
    graph: _core.Graph, values: dict[str, tuple], kinds: dict[str, tuple], fill: int
) -> list[tuple]:
    """Packed inputs of a graph: those of `values` where they fit, else numbers of their names."""
    sizes = [_UNKNOWN] * 1024
    for name, (_, dims) in kinds.items():
        for dim, size in zip(dims, values[name][1], strict=True):
            if isinstance(dim, _core.Dim) and dim.op == 1:
                sizes[dim.value] = size
    found = []
    for name, dtype, dims, _ in graph.inputs:
        shape = tuple(d if isinstance(d, int) else d.evaluate(sizes) for d in dims)
        fits = name in values and values[name][:2] == (dtype, shape)
        found.append(values[name] if fits else pack(_numbers(name, dtype, shape, fill), dtype))
    return found


def _numbers(name: str, dtype: str, shape: tuple, fill: int) -> Any:
    import numpy

    chosen = numpy.random.default_rng([zlib.crc32(name.encode()), fill])
    if element_type(dtype).is_float:
        numbers = chosen.standard_normal(shape) * (1 + fill)
    else:
        numbers = chosen.integers(0, 2 if dtype == "bool" else 2 + fill, shape)
    return numpy.asarray(numbers).astype(numpy_type(dtype))
