# SPDX-License-Identifier: Apache-2.0
"""Rows of copies, and of what takes elements by their position."""

from typing import Any

import numpy as np

from pto import language as tile
from pto import ops
from pto.aten.records import library
from pto.aten.rows import EVERY, FLOATS, NUMBERS, row

_EXACT: dict[str, Any] = {"ulp": 0, "in_place": False}
_INDEX = {"index": ("int64",)}


@row("clone", types=EVERY, **_EXACT)
def clone(self):
    return tile.clone(self)


@row("copy", types=EVERY, ulp=0, ignored=("non_blocking",))
def copy(self, src):
    return tile.broadcast_like(src, self)


@row("fill.Scalar", types=NUMBERS, ulp=0)
def fill(self, value):
    return tile.full_like(self, value)


def _unless_alike(values):
    """Leaves to ATen an empty list, and tensors of several ranks, of which it skips empty ones."""
    ranks = {len(library().shape(one)) for one in values["tensors"]}
    return None if len(ranks) == 1 and 0 not in ranks else "its tensors are of several ranks"


@row("cat", types=EVERY, **_EXACT, unless=_unless_alike,
     sample=lambda t, m, n: {"tensors": [t(m, n), t(m, n)], "dim": -1})  # fmt: skip
def cat(tensors, dim=0, out=None):
    if out is None:
        return ops.concat(tensors, dim=dim)
    flat = [library().as_numpy(one) for one in tensors]  # PyTorch's operator of lists has no `out`
    ops.concat(flat, dim=dim, out=library().as_numpy(out))
    return out


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
    sizes, dim = library().shape(values["self"]), values.get("dim", -1)
    if not -len(sizes) <= dim < len(sizes):
        return f"self has no axis {dim}"
    is_there = 0 <= values["k"] <= sizes[dim]
    return None if is_there else f"axis {dim} has {sizes[dim]} elements, not {values['k']}"


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
