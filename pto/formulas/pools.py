# SPDX-License-Identifier: Apache-2.0
"""Pools: windows that move along the last axes of a tensor, each giving one element.

    pool = Windows(sizes=(3, 3), strides=(2, 2), pads=(1, 1), counts=(16, 16))
    y = pool.average(x, counts_pad=False)

`counts` says how many windows stand along each axis; the last one may reach beyond the padding.
Sums and maxima take the elements of a window row by row, as frameworks do.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pto import language as tile
from pto.formulas.positions import padded, part, strided
from pto.language.tensor import Tensor
from pto.language.types import cast, wide


@dataclass(frozen=True)
class Windows:
    """Windows along the last axes: their sizes, the steps between them, the padding in front."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    counts: tuple[Any, ...]

    @property
    def are_apart(self) -> bool:
        """Says whether each element lies in one window at most, and none in the padding."""
        return self.strides == self.sizes and not any(self.pads)

    def _axes(self, x: Tensor) -> range:
        return range(x.ndim - len(self.sizes), x.ndim)

    def _elements(self, x: Tensor, beyond: float) -> Iterator[tuple[tuple[int, ...], Tensor]]:
        """For each place in a window, row by row: the place, and its element of all windows."""
        pads: list = []
        along = zip(self._axes(x), self.sizes, self.strides, self.pads, self.counts, strict=True)
        for axis, size, stride, front, count in along:
            ends = count * stride, (count - 1) * stride + size  # of boxes of steps; of the last one
            is_known = all(isinstance(n, int) for n in (*ends, x.shape[axis]))
            end = max(ends) if is_known else count * stride + size - 1
            pads = [front, end - front - x.shape[axis], *pads]
        whole = padded(x, pads, beyond)
        for place in itertools.product(*map(range, self.sizes)):
            found = whole
            for axis, start, stride, count in zip(
                self._axes(x), place, self.strides, self.counts, strict=True
            ):
                found = strided(found, axis, start, count, stride)
            yield place, found

    def _starts(self, along: int) -> Tensor:
        """Where the windows along one of the axes begin; a negative number is in the padding."""
        return tile.arange(self.counts[along]) * self.strides[along] - self.pads[along]

    def _upright(self, vector: Tensor, along: int) -> Tensor:
        """A vector over one of the axes that broadcasts with all of them."""
        for _ in range(len(self.sizes) - 1 - along):
            vector = tile.unsqueeze(vector, -1)
        return vector

    def _covered(self, x: Tensor, counts_pad: bool) -> Any:
        """How many elements each window has, those of the padding among them or not."""
        found: Any = 1
        for along, axis in enumerate(self._axes(x)):
            n, size, pad = x.shape[axis], self.sizes[along], self.pads[along]
            last = (self.counts[along] - 1) * self.strides[along] + size  # the end of the last one
            room = n + 2 * pad if counts_pad or not pad else -1
            if isinstance(last, int) and isinstance(room, int) and last <= room:
                found = found * size
                continue
            starts = self._starts(along)
            ends = tile.minimum(starts + size, n + pad)
            if not counts_pad:
                starts, ends = tile.maximum(starts, 0), tile.minimum(ends, n)
            found = found * self._upright(ends - starts, along)
        return found

    def _divisor(self, x: Tensor, counts_pad: bool, divisor: int | None) -> Any:
        if divisor is not None:
            return divisor
        covered = self._covered(x, counts_pad)
        return cast(covered, wide(x).dtype) if isinstance(covered, Tensor) else covered

    def average(self, x: Tensor, counts_pad: bool, divisor: int | None = None) -> Tensor:
        """The sum of each window, divided by its number of elements, or by the divisor."""
        total = None
        for _, element in self._elements(wide(x), 0):
            total = element if total is None else total + element
        return total / self._divisor(x, counts_pad, divisor)

    def columns(self, x: Tensor) -> Tensor:
        """The elements of each window: axes of a window's places, then those of the windows."""
        axes, sizes, counts = self._axes(x), self.sizes, self.counts
        around = list(x.shape[: axes[0]])
        if not self.are_apart:
            found = [tile.unsqueeze(one, axes[0]) for _, one in self._elements(x, 0)]
            return tile.reshape(tile.concat(found, axes[0]), [*around, *sizes, *counts])
        for axis, size, count in zip(axes, sizes, counts, strict=True):
            x = part(x, axis, 0, count * size)
        pairs = zip(counts, sizes, strict=True)
        x = tile.reshape(x, [*around, *(n for pair in pairs for n in pair)])
        places = range(len(around) + 1, x.ndim, 2)
        return tile.permute(x, [*range(len(around)), *places, *(at - 1 for at in places)])

    def average_gradient(
        self, d: Tensor, x: Tensor, counts_pad: bool, divisor: int | None
    ) -> Tensor:
        """The gradient of x, given that of average(x, ...); the sizes of x are numbers."""
        d = wide(d) / self._divisor(x, counts_pad, divisor)
        pads: list = []
        for along, axis in enumerate(self._axes(x)):
            size, stride, front = self.sizes[along], self.strides[along], self.pads[along]
            spread = tile.pad(tile.unsqueeze(d, axis + 1), _behind(d.ndim - axis, stride - 1))
            length = d.shape[axis] * stride
            d = tile.reshape(spread, *d.shape[:axis], length, *d.shape[axis + 1 :])
            pads = [size - 1 - front, x.shape[axis] + front - length, *pads]
        whole = padded(d, pads)
        total = None
        for place in itertools.product(*map(range, self.sizes)):
            found = whole
            for axis, start in zip(self._axes(x), place, strict=True):
                found = part(found, axis, start, x.shape[axis])
            total = found if total is None else total + found
        return total

    def maximum(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The largest element of each window, and where it is in x, counted along the axes of the
        windows as one; the last NaN, else the first of equal elements."""
        lengths = [x.shape[axis] for axis in self._axes(x)]
        steps = [math.prod(lengths[along + 1 :]) for along in range(len(lengths))]
        starts = [self._upright(self._starts(along), along) for along in range(len(lengths))]

        def where_of(places: list[Tensor]) -> Tensor:
            found = places[0] * steps[0]
            for place, step in zip(places[1:], steps[1:], strict=True):
                found = found + place * step
            return found

        most: Any = None
        where = where_of([tile.maximum(start, 0) for start in starts])
        for place, element in self._elements(x, -math.inf):
            at = where_of([start + one for start, one in zip(starts, place, strict=True)])
            is_more = element != element
            is_more = is_more | (element > (-math.inf if most is None else most))
            most = element if most is None else tile.where(is_more, element, most)
            where = tile.where(is_more, at, where)
        return most, where


def _behind(count: int, zeros: int) -> tuple[int, ...]:
    """The pads of zeros behind the elements of the axis that has count - 1 axes behind it."""
    return (*[0] * (2 * (count - 1)), 0, zeros)
