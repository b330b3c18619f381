# SPDX-License-Identifier: Apache-2.0
"""Formulas of windows along the last one, two or three axes: averages, maxima, all elements."""

import math
from functools import partial
from typing import Any

from pto import language as tile
from pto.adapters.torch.compile.rows import Kind, Out, only, row
from pto.formulas.pools import Windows
from pto.language.tensor import Tensor

ELEMENTS_MAX = 25  # of a window; a program reads each in a loop of its own
_IN_STEPS_MAX = 9  # of a window whose neighbour is not one element on
_REACH_MAX = 16  # bytes from an element along rows to the next one, and at most four elements
_STEPS = "a pool in steps along rows, which ATen reads faster"


def _windows(rank: int, counts: tuple, kernel: Any, stride: Any, padding: Any) -> Windows:
    """The windows of a node, whose lists may have one number for all axes."""

    def along(numbers: Any) -> tuple:
        given = list(numbers) if isinstance(numbers, list | tuple) else [numbers]
        only(all(isinstance(n, int) for n in given), "a pool whose numbers are known at the call")
        return tuple(given * rank if len(given) == 1 else given)

    only(math.prod(along(kernel)) <= ELEMENTS_MAX, "a pool with large windows")
    return Windows(along(kernel), along(stride or kernel), along(padding), counts[-rank:])


def _are_read_fast(windows: Windows, x: Tensor) -> bool:
    """Says whether programs read elements so far apart faster than ATen does."""
    step = windows.strides[-1]
    is_small = math.prod(windows.sizes) <= _IN_STEPS_MAX
    return step == 1 or (is_small and step <= 4 and step * x.dtype.bytes <= _REACH_MAX)


def avg_pool(
    rank: int, out: Out, x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0,
    ceil_mode: bool = False, counts_pad: bool = True, divisor: int | None = None,
) -> Tensor:  # fmt: skip
    only(x.dtype.is_float, f"an average of {x.dtype}")
    windows = _windows(rank, out.shape, kernel, stride, padding)
    only(windows.strides[-1] == 1 or (windows.are_apart and _are_read_fast(windows, x)), _STEPS)
    return windows.average(x, counts_pad, divisor)


def avg_pool_backward(
    rank: int, out: Out, d: Tensor, x: Tensor, kernel: Any, stride: Any, padding: Any,
    ceil_mode: bool, counts_pad: bool, divisor: int | None,
) -> Tensor:  # fmt: skip
    sizes = (*d.shape[-rank:], *x.shape[-rank:])
    only(all(isinstance(n, int) for n in sizes), "a size is known only at the call")
    windows = _windows(rank, d.shape, kernel, stride, padding)
    return windows.average_gradient(d, x, counts_pad, divisor)


def max_pool(
    rank: int, out: Out, x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False,
) -> tuple:  # fmt: skip
    only(x.dtype.is_float, f"a maximum of {x.dtype}")
    gaps = set(dilation if isinstance(dilation, list | tuple) else [dilation])
    only(gaps == {1}, "a pool with gaps in its windows")
    windows = _windows(rank, out.shape, kernel, stride, padding)
    only(_are_read_fast(windows, x), _STEPS)
    return windows.maximum(x)


@row(Kind.COPY, "im2col", by_rows=True)
def windows_beside(
    out: Out, x: Tensor, kernel: list, dilation: list, padding: list, stride: list
) -> Tensor:
    only(set(dilation) == {1}, "windows with gaps")
    along = zip(x.shape[-2:], kernel, stride, padding, strict=True)
    counts = tuple((n + 2 * pad - size) // step + 1 for n, size, step, pad in along)
    windows = Windows(tuple(kernel), tuple(stride), tuple(padding), counts)
    is_small = math.prod(kernel) <= ELEMENTS_MAX
    only(windows.are_apart or is_small, "large windows that overlap")
    return tile.reshape(windows.columns(x), list(out.shape))


row(Kind.REDUCE, "avg_pool1d", by_rows=True)(partial(avg_pool, 1))
for _rank in (2, 3):
    row(Kind.REDUCE, f"avg_pool{_rank}d", by_rows=True)(partial(avg_pool, _rank))
    row(Kind.REDUCE, f"avg_pool{_rank}d_backward", by_rows=True)(partial(avg_pool_backward, _rank))
    row(Kind.REDUCE, f"max_pool{_rank}d_with_indices", by_rows=True)(partial(max_pool, _rank))
