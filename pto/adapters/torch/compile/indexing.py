# SPDX-License-Identifier: Apache-2.0
"""Formulas of overloads that take elements from positions, or put them there."""

import math
from typing import Any

from pto import language as tile
from pto.adapters.torch.compile.movement import begin_of
from pto.adapters.torch.compile.rows import Kind, Out, axis_of, only, row
from pto.formulas import NotExpressible, positions
from pto.language.tensor import Tensor
from pto.language.types import cast

# --- positions that numbers say -------------------------------------------------------------------


@row(Kind.COPY, "repeat")
def repeat(out: Out, x: Tensor, times: list) -> Tensor:
    return positions.repeated(x, times)


@row(Kind.COPY, "flip")
def flip(out: Out, x: Tensor, dims: list) -> Tensor:
    return tile.flip(x, [axis_of(x, dim) for dim in dims]) if x.ndim else x


@row(Kind.COPY, "roll")
def roll(out: Out, x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    shifts, dims = (list(n) if isinstance(n, list | tuple) else [n] for n in (shifts, dims))
    only(all(isinstance(n, int) for n in shifts), "a shift that is known only at the call")
    if dims and x.ndim:
        return positions.rolled(x, shifts, [axis_of(x, dim) for dim in dims])
    flat = positions.rolled(tile.reshape(x, math.prod(x.shape)), shifts, [0])
    return tile.reshape(flat, list(x.shape))


@row(Kind.COPY, "slice_scatter")
def slice_scatter(
    out: Out, x: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None,
    step: Any = 1,
) -> Tensor:  # fmt: skip
    only(isinstance(step, int), "a step that is known only at the call")
    axis = axis_of(x, dim)
    return positions.put_strided(x, cast(src, out.dtype), axis, begin_of(x.shape[axis], start),
                                 step)  # fmt: skip


_ADDED = "sums of single elements at positions, which ATen adds faster"

# --- positions that tensors say -------------------------------------------------------------------


@row(Kind.GATHER, "embedding")
def embedding(
    out: Out, weight: Tensor, index: Tensor, padding_idx: Any = -1, scale: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    return weight[index]


@row(Kind.GATHER, "index_select")
def index_select(out: Out, x: Tensor, dim: int, index: Tensor) -> Tensor:
    only(x.ndim > 0 and index.ndim == 1, "a choice among numbers")
    return tile.index_select(x, dim, index)


def _numbers(indices: list) -> list:
    """The indices of a node, None for all of an axis. Raises NotExpressible where one is a mask."""
    for one in indices:
        only(one is None or one.dtype in (tile.i64, tile.i32), "an index that is a mask")
    return indices


@row(Kind.GATHER, "index.Tensor", "_unsafe_index.Tensor")
def index(out: Out, x: Tensor, indices: list) -> Tensor:
    return positions.at(x, _numbers(indices))


@row(Kind.GATHER, "index_put", "_unsafe_index_put")
def index_put(
    out: Out, x: Tensor, indices: list, values: Tensor, accumulate: bool = False
) -> Tensor:
    given = [one for one in indices if one is not None]
    if accumulate:
        only(len(given) == 1 and x.dtype is not tile.boolean, _ADDED)
    elif [one.dtype for one in given] == [tile.boolean]:
        return positions.put_where(x, indices, values)
    return positions.put(x, _numbers(indices), values, accumulate)


@row(Kind.GATHER, "embedding_dense_backward")
def embedding_gradient(
    out: Out, d: Tensor, index: Tensor, count: Any, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    only(not scale_grad_by_freq, "a gradient that is divided by how often its row is read")
    row = out.shape[1]
    flat = positions.each_there(tile.reshape(tile.cast(index, tile.i64), math.prod(index.shape)))
    if padding_idx >= 0:
        flat = tile.where(flat == padding_idx, -1, flat)  # which is left out
    zeros = tile.zeros([out.shape[0], row], d.dtype)
    return tile.index_add(zeros, 0, flat, tile.reshape(d, [flat.shape[0], row]))


@row(Kind.GATHER, "scatter.src", "scatter.value")
def scatter(out: Out, x: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    only(x.ndim == index.ndim > 0, "a write among numbers")
    return tile.scatter(x, dim, positions.each_there(index), src)


@row(Kind.GATHER, "scatter_add")
def sums_at(out: Out, *args: Any) -> Tensor:
    raise NotExpressible(_ADDED)
