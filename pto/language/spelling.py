# SPDX-License-Identifier: Apache-2.0
"""Spellings of the introductory slides, beside those of the language.

    with pto.function("SOFTMAX", [x], [y]):       # y is written inside
        e = (x - x.row_max_single()).exp()
        y[:] = e / e.row_sum_single()
    pto.device_synchronize()

Thread safety: as a trace.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from pto.errors import InvalidType, InvalidValue
from pto.language.local import LocalTensor
from pto.language.location import describe, fail, user_line
from pto.language.operation import a_sequence, method
from pto.language.reduce import amax, sum
from pto.language.tensor import Tensor
from pto.language.tile_hints import Hint, of
from pto.language.trace import current


@method()
def row_max_single(x: Tensor) -> Tensor:
    """The largest element of each row, along the last axis, which stays with size 1.

    Formula: amax(x, -1, keepdim=True)
    Shapes: the last axis has size 1 in the result
    """
    return amax(x, -1, keepdim=True)


@method()
def row_sum_single(x: Tensor) -> Tensor:
    """The sum of each row, along the last axis, which stays with size 1.

    Formula: sum(x, -1, keepdim=True)
    Shapes: the last axis has size 1 in the result
    """
    return sum(x, -1, keepdim=True)


def function(name: str, *tensors: Any) -> contextlib.AbstractContextManager[None]:
    """A named part of a program: its inputs, and its outputs, which the lines inside write.

    Shapes: those of the lines inside
    Example:
        out = x.clone()
        with pto.function("LARGER", [x, y], [out]):
            out[:] = pto.maximum(x, y)
        return out
    """
    trace = current("function")
    if not isinstance(name, str) or not name:
        fail(f"function: the name is {describe(name)}", "it names a part of the program",
             "pass a text", InvalidType)  # fmt: skip
    groups = [a_sequence("function", "tensors", group) for group in tensors]
    for one in (one for group in groups for one in group):
        if not isinstance(one, Tensor):
            fail(f"function: {describe(one)} among the tensors of {name}",
                 "inputs and outputs are traced tensors", "pass lists of tensors",
                 InvalidType)  # fmt: skip
    return _inside(of(trace), name, groups[-1] if groups else (), user_line())


@contextlib.contextmanager
def _inside(hints: Any, name: str, outputs: tuple, line: str) -> Iterator[None]:
    before = [_version(one) for one in outputs]
    with hints.within(function=Hint(text=name)):
        yield
    for place, (one, version) in enumerate(zip(outputs, before, strict=True)):
        if _version(one) == version:
            raise InvalidValue(
                f"function {name}: output {place} is never written",
                "the lines inside of a function write its outputs",
                "write it: out[:] = value, or pto.assemble(value, offsets, out)",
                line,
            )


def _version(x: Tensor) -> tuple:
    return id(x.scope), x.node, x.is_written if isinstance(x, LocalTensor) else True


def device_synchronize() -> None:
    """Waits for work on npu tensors; calls with other arrays have ended when they return.

    Example: pto.device_synchronize()
    """
    npu = getattr(sys.modules.get("torch"), "npu", None)
    if npu is not None:
        npu.synchronize()
