# SPDX-License-Identifier: Apache-2.0
"""Formulas of pictures whose last one, two or three axes grow by whole factors: elements repeat."""

from functools import partial
from itertools import zip_longest
from typing import Any

from pto import language as tile
from pto.adapters.torch.compile.rows import Kind, Out, only, row
from pto.adapters.torch.compile.whole import AT_OTHER_PLACES
from pto.language.shape import same_size
from pto.language.tensor import Tensor

FACTOR_MAX = 8  # ATen rounds the place that a position reads: up to here to the right one


def _factors(small: tuple, large: tuple, given: tuple) -> list[int]:
    """How often each axis repeats its elements; `given` are the factors that a node names."""
    found = []
    for n, m, factor in zip_longest(small, large, given):
        is_known = isinstance(n, int) and isinstance(m, int) and n > 0
        k = m // n if is_known else factor
        only(k in range(1, FACTOR_MAX + 1) and factor in (None, k), AT_OTHER_PLACES)
        only(same_size(n * int(k), m), AT_OTHER_PLACES)
        found.append(int(k))
    return found


def _cut(shape: tuple, small: tuple, factors: list[int]) -> list:
    """A large shape with each of its last axes cut into the small axis and its repeats."""
    pairs = zip(small, factors, strict=True)
    return [*shape[: len(shape) - len(small)], *(n for pair in pairs for n in pair)]


def nearest(rank: int, out: Out, x: Tensor, size: Any, *given: float | None) -> Tensor:
    small = tuple(x.shape[-rank:])
    factors = _factors(small, tuple(out.shape[-rank:]), given)
    each = tile.reshape(x, _cut(tuple(x.shape), small, [1] * rank))
    return tile.reshape(tile.broadcast_to(each, _cut(out.shape, small, factors)), list(out.shape))


def nearest_gradient(
    rank: int, out: Out, d: Tensor, size: Any, input_size: Any, *given: float | None
) -> Tensor:
    small = tuple(out.shape[-rank:])
    factors = _factors(small, tuple(d.shape[-rank:]), given)
    cut = tile.reshape(d, _cut(tuple(d.shape), small, factors))
    first = d.ndim - rank + 1
    return tile.sum(cut, tuple(range(first, first + 2 * rank, 2)))


for _rank in (1, 2, 3):
    for _name in (f"upsample_nearest{_rank}d", f"_upsample_nearest_exact{_rank}d"):
        row(Kind.COPY, _name, by_rows=True)(partial(nearest, _rank))
        row(Kind.COPY, f"{_name}_backward", by_rows=True)(partial(nearest_gradient, _rank))
