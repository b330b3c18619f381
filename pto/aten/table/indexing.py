# SPDX-License-Identifier: Apache-2.0
"""Rows of what fills tensors, and of what takes elements by their position."""

from typing import Any

import numpy as np

from pto import language as tile
from pto import ops
from pto.aten.records import library
from pto.aten.rows import EVERY, FLOATS, NUMBERS, row
from pto.aten.table.sizes import no_axis, value_has_axes
from pto.formulas.positions import each_there

_EXACT: dict[str, Any] = {"ulp": 0, "in_place": False}
_INDEX = {"index": ("int64",)}


def _unless_odd(values):
    """Leaves to ATen, which keeps it, the stride of an axis of size 1 that is not the usual one."""
    x, step = values["self"], 1
    for size, stride in zip(reversed(library().shape(x)), reversed(library().strides_of(x)),
                            strict=True):  # fmt: skip
        if size == 1 and stride != step and library().is_contiguous(x):
            return "an axis of size 1 has another stride than row by row"
        step *= max(size, 1)
    return None


@row("clone", types=EVERY, unless=_unless_odd, **_EXACT)
def clone(self):
    return tile.clone(self)


@row("copy", types=EVERY, ulp=0, ignored=("non_blocking",))
def copy(self, src):
    return tile.broadcast_like(src, self)


@row("fill.Scalar", types=NUMBERS, ulp=0)
def fill(self, value):
    return tile.full_like(self, value)


@row("fill.Tensor", types=NUMBERS, ulp=0, unless=value_has_axes,
     sample=lambda t, m, n: {"self": t(m, n), "value": t(1).reshape([])})  # fmt: skip
def fill_by_tensor(self, value):
    return tile.broadcast_like(value, self)


def _unless_padded(values):
    if values.get("scale_grad_by_freq") or values.get("sparse"):
        return "its gradient is of another kind"
    is_table = len(library().shape(values["weight"])) == 2
    return None if is_table else "weight has not 2 axes"


@row("embedding", types=FLOATS, **_EXACT, others={"indices": ("int64", "int32")},
     ignored=("padding_idx", "scale_grad_by_freq", "sparse"), unless=_unless_padded,
     sample=lambda t, m, n: {"weight": t(64, n),
                             "indices": t(m, dtype="int64", high=64)})  # fmt: skip
def embedding(weight, indices, out=None):
    place = {} if out is None else {"out": out}
    return ops.embedding(weight, indices, **place)


def _unless_ranked(values):
    ranks = len(library().shape(values["self"])), len(library().shape(values["index"]))
    return None if ranks[0] == ranks[1] and ranks[0] else "self and index have not one rank"


@row("gather", types=NUMBERS, **_EXACT, others=_INDEX, ignored=("sparse_grad",),
     unless=_unless_ranked,
     sample=lambda t, m, n: {"self": t(m, n), "dim": -1,
                             "index": t(m, n, dtype="int64", high=n)})  # fmt: skip
def gather(self, dim, index):
    return tile.gather(self, dim, index)


def _unless_beside(values):
    """Leaves to ATen, which says what is wrong, an index that is longer than self or src."""
    if reason := _unless_ranked(values):
        return reason
    me, index = library().shape(values["self"]), library().shape(values["index"])
    axis = values["dim"] % len(me)
    src = library().shape(values["src"]) if "src" in values else index
    fits = len(src) == len(index) and all(a <= b for a, b in zip(index, src, strict=True))
    fits = fits and all(a <= b for i, (a, b) in enumerate(zip(index, me, strict=True)) if i != axis)
    return None if fits and -len(me) <= values["dim"] < len(me) else "index is longer than self"


def _scatter_sample(tensor, rows, columns):
    return {"self": tensor(rows, columns), "dim": -1,
            "index": tensor(rows, columns // 2, dtype="int64", high=columns),
            "src": tensor(rows, columns)}  # fmt: skip


_PUT: dict[str, Any] = {"others": _INDEX, "unless": _unless_beside, "sample": _scatter_sample}


def _beside(src, index):
    return tile.view(src, list(index.shape), [0] * index.ndim)


@row("scatter_add", types=NUMBERS, is_sum=True, ulp=8, **_PUT)
def scatter_add(self, dim, index, src):
    return tile.scatter_add(self, dim, each_there(index), _beside(src, index))


@row("scatter.src", types=NUMBERS, ulp=0, **_PUT)
def scatter(self, dim, index, src):
    return tile.scatter(self, dim, each_there(index), _beside(src, index))


@row("scatter.value", types=NUMBERS, ulp=0, others=_INDEX, unless=_unless_beside,
     sample=lambda t, m, n: {"self": t(m, n), "dim": -1, "value": 2,
                             "index": t(m, n // 2, dtype="int64", high=n)})  # fmt: skip
def scatter_value(self, dim, index, value):
    return tile.scatter(self, dim, each_there(index), value)


def _unless_rows(values):
    if reason := _unless_vector(values):
        return reason
    me, source = list(library().shape(values["self"])), list(library().shape(values["source"]))
    if not -len(me) <= values["dim"] < len(me) or len(source) != len(me):
        return "source has other axes than self"
    me[values["dim"]] = library().shape(values["index"])[0]
    return None if source == me else "source has other sizes than self and index"


@row("index_add", types=NUMBERS, is_sum=True, ulp=8, others=_INDEX, unless=_unless_rows,
     sample=lambda t, m, n: {"self": t(m, n), "dim": 0, "source": t(m, n),
                             "index": t(m, dtype="int64", high=m)})  # fmt: skip
def index_add(self, dim, index, source, alpha=1):
    return tile.index_add(self, dim, each_there(index), source, alpha)


def _unless_vector(values):
    is_vector = len(library().shape(values["index"])) == 1 and library().shape(values["self"])
    return None if is_vector else "index is no vector, or self has no axis"


@row("index_select", types=NUMBERS, **_EXACT, others=_INDEX, unless=_unless_vector,
     sample=lambda t, m, n: {"self": t(m, n), "dim": 0,
                             "index": t(m, dtype="int64", high=m)})  # fmt: skip
def index_select(self, dim, index):
    return tile.index_select(self, dim, index)


def _topk_sample(tensor, rows, columns):
    """Largest elements that differ: ATen returns equal ones in any order."""
    x = tensor(rows, columns)
    x[:, 3:15:3] = np.arange(100, 104)
    return {"self": x, "k": 4}


def _unless_there(values):
    if reason := no_axis(values):
        return reason
    dim, k = values.get("dim", -1), values["k"]
    size = library().shape(values["self"])[dim]
    return None if 0 <= k <= size else f"axis {dim} has {size} elements, not {k}"


@row("topk", types=NUMBERS, **_EXACT, results=("", "int64"), ignored=("sorted",),
     unless=_unless_there, sample=_topk_sample)  # fmt: skip
def topk(self, k, dim=-1, largest=True, out=None):
    place = {} if out is None else {"out0": out[0], "out1": out[1]}
    return ops.top_k(self, k, dim=dim, largest=largest, **place)


@row("constant_pad_nd", types=NUMBERS, **_EXACT,
     unless=lambda v: "it cuts elements off" if min(v["pad"], default=0) < 0 else None,
     sample=lambda t, m, n: {"self": t(m, n), "pad": [1, 2]})  # fmt: skip
def constant_pad_nd(self, pad, value=0):
    return tile.pad(self, pad, value)


@row("tril", types=NUMBERS, ulp=0)
def tril(self, diagonal=0):
    return tile.tril(self, diagonal)


@row("triu", types=NUMBERS, ulp=0)
def triu(self, diagonal=0):
    return tile.triu(self, diagonal)


def _unless_repeated(values):
    rank = max(1, len(library().shape(values["self"])))
    axes = {axis % rank for axis in values["dims"]}
    return None if len(axes) == len(values["dims"]) else "an axis is named twice"


@row("flip", types=NUMBERS, **_EXACT, unless=_unless_repeated,
     sample=lambda t, m, n: {"self": t(m, n), "dims": [-1]})  # fmt: skip
def flip(self, dims):
    return tile.flip(self, dims)
