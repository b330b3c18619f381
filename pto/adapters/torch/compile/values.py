# SPDX-License-Identifier: Apache-2.0
"""Promises of the fake tensors of a graph: types, shapes, and how results lie in memory.

    promise = Promise(node.meta["val"])
    promise.dtype, promise.shape, promise.order        # "f32", (s0, 4), (0, 1)

Thread safety: any thread may ask.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pto.adapters.torch.compile.sizes import expression, expressions
from pto.adapters.torch.record import DTYPE_NAMES
from pto.kept import kept
from torch.fx.experimental.symbolic_shapes import statically_known_true

CONTIGUOUS, ROWS, ANY = range(3)  # StrideClass of launch/signature.hpp


@dataclass(frozen=True)
class Promise:
    """A tensor of the graph: its type, its sizes and strides in elements (ints, or sympy's)."""

    fake: torch.Tensor

    @kept
    def dtype(self) -> str | None:
        """Our name of the element type; None where there is none, or off the CPU."""
        is_plain = self.fake.layout == torch.strided and self.fake.device.type == "cpu"
        return DTYPE_NAMES.get(self.fake.dtype) if is_plain else None

    @kept
    def shape(self) -> tuple:
        return expressions(self.fake.shape)

    @kept
    def strides(self) -> tuple:
        return expressions(self.fake.stride())

    @kept
    def order(self) -> tuple[int, ...] | None:
        """The axes from the outermost in memory to the innermost; None: it has gaps or repeats.

        Axes of size 1 stay where they stand.
        """
        sizes, strides = self.fake.shape, self.fake.stride()
        if _is_dense(sizes, strides):
            return tuple(range(len(sizes)))
        hints = [_hint(stride) for stride in strides]
        if None in hints:
            return None
        order = sorted(range(len(sizes)), key=lambda axis: (-hints[axis], axis))
        dense = _is_dense([sizes[a] for a in order], [strides[a] for a in order])
        return tuple(order) if dense else None

    @kept
    def reading(self) -> tuple[int, ...]:
        """The axes in the order in which programs read them: that in memory, where the innermost
        axis has no gaps there, else as they stand."""
        if self.order is not None:
            return self.order
        axes, strides = range(self.fake.ndim), self.fake.stride()
        hints = [_hint(stride) for stride in strides]
        if self.stride_class != ANY or None in hints or 0 in hints:
            return tuple(axes)
        order = sorted(axes, key=lambda axis: (-hints[axis], axis))
        return tuple(order) if _same(strides[order[-1]], 1) else tuple(axes)

    @kept
    def is_exact(self) -> bool:
        """Says whether the strides are those of a new tensor, its axes put back from `order`."""
        order = self.order
        if order is None:
            return False
        expected = dense_strides([self.fake.shape[a] for a in order])
        return all(_same(e, self.fake.stride()[a]) for e, a in zip(expected, order, strict=True))

    @kept
    def stride_class(self) -> int:
        """The StrideClass of this tensor, its axes as they stand."""
        return self.stride_class_of(range(self.fake.ndim))

    def stride_class_of(self, order: Sequence[int]) -> int:
        """The StrideClass of this tensor with its axes in this order."""
        sizes, strides = ([one[axis] for axis in order]
                          for one in (self.fake.shape, self.fake.stride()))  # fmt: skip
        if _is_dense(sizes, strides):
            return CONTIGUOUS
        return ROWS if _same(sizes[-1], 1) or _same(strides[-1], 1) else ANY

    def is_alike(self, other: "Promise") -> bool:
        """Says whether the other tensor has the same elements where they are, if both begin at one
        place; strides of axes of size 1 may differ, as PyTorch writes them for channels_last."""
        pairs = zip(self.shape, other.shape, self.strides, other.strides, strict=False)
        return len(self.shape) == len(other.shape) and all(
            n == of_other and (n == 1 or a == b) for n, of_other, a, b in pairs
        )

    @property
    def bytes(self) -> int | None:
        """The bytes of its elements, for the sizes of the capture; None where one has no hint."""
        sizes = [_hint(size) for size in self.fake.shape]
        return None if None in sizes else math.prod(sizes) * self.fake.element_size()


def dense_strides(sizes: Sequence[Any]) -> list[Any]:
    """The strides that PyTorch gives a new tensor."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step = step * (size if not isinstance(size, int) else max(size, 1))
    return strides[::-1]


def _is_dense(sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
    step: Any = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if _same(size, 1):
            continue
        if not _same(stride, step):
            return False
        step = step * size
    return True


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if expression(a) == expression(b):
        return True
    return bool(statically_known_true(a == b))


def _hint(size: Any) -> int | None:
    if isinstance(size, int):
        return size
    return size.node.hint if size.node.has_hint() else None  # a size from data has none
