# SPDX-License-Identifier: Apache-2.0
"""Operators that pick parts of a tensor: largest elements, rows by number, consecutive pieces."""

import math

import numpy as np

from pto.errors import InvalidValue
from pto.language.dtypes import i64
from pto.language.infer import (
    Size,
    Spec,
    require_equal,
    require_shape,
    size_max,
    where_needed,
)
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op
from pto.ops.movement import EXACT, elements


def bytes_of(*specs: Spec) -> Size:
    return sum((elements(spec) * spec.dtype.bytes for spec in specs), start=0)


def top_shape(x: Spec, k: int, dim: int) -> tuple[Size, ...]:
    """The shape of the k first elements along an axis."""
    axis = x.axis(dim)
    if k < 0:
        raise InvalidValue(f"top_k: k is {k}", "k counts elements", "pass a k of at least 0")
    if isinstance(x.shape[axis], int) and k > x.shape[axis]:
        raise InvalidValue(
            f"top_k: k is {k}, but axis {dim} has {x.shape[axis]} elements",
            "top_k returns k elements of the axis",
            f"pass a k of at most {x.shape[axis]}",
        )
    require_equal(size_max(x.shape[axis], k), x.shape[axis], "the axis, which must have k elements")
    return (*x.shape[:axis], k, *x.shape[axis + 1 :])


class TopKBackwardBackward:
    """The gradient of top_k_backward: the elements that the indices name."""

    types = "(T, i64) -> T"

    def infer(d_d_x, indices, k, dim, largest, needs, needs_):
        require_shape(indices, top_shape(d_d_x, k, dim), "the indices of the elements taken")
        return where_needed(needs_, d_d_x.like(indices.shape))

    def work(d_d_x, indices, k, dim, largest, needs, needs_):
        return math.prod(indices.shape), bytes_of(indices) * 2

    kernel = cpp_kernel("selection.cpp", "top_k_backward_backward")


class TopKBackward:
    """Zeros of the shape of x, and the gradients of the values where they were taken from."""

    types = "(T, T, i64) -> T"

    def infer(d_values, x, indices, k, dim, largest, needs):
        shape = top_shape(x, k, dim)
        require_shape(d_values, shape, "the values and their gradient")
        require_shape(indices, shape, "the indices of the elements taken")
        return where_needed(needs, x)

    kernel = cpp_kernel("selection.cpp", "top_k_backward")
    gradient, saved, wanted = TopKBackwardBackward, ("indices",), ("d_values",)

    def work(d_values, x, indices, k, dim, largest, needs):
        return math.prod(x.shape), bytes_of(x)


@op("top_k(Tensor x, int k, *, int dim=-1, bool largest=True) -> (Tensor values, Tensor indices)")
class TopK:
    """The k largest (or smallest) elements along an axis, in order, and where they stand.

    NaN counts as the largest; of equal elements the one that stands first comes first.
    """

    types = "T -> (T, i64) where T: number"

    def infer(x, k, dim, largest):
        shape = top_shape(x, k, dim)
        return x.like(shape), Spec(shape, i64)

    def work(x, k, dim, largest):
        rows = math.prod(n for axis, n in enumerate(x.shape) if axis != x.axis(dim))
        return rows, bytes_of(x) * 4

    kernel = cpp_kernel("selection.cpp", "top_k")
    gradient, saved, wanted = TopKBackward, ("x", "indices"), ("x",)

    def oracle(x, k, dim=-1, largest=True):
        x = np.asarray(x)
        key = np.moveaxis(x, dim, -1)
        order = np.argsort(-key if largest else key, axis=-1, kind="stable")
        if largest:  # NumPy puts NaN last
            nan = np.take_along_axis(np.isnan(key), order, -1)
            order = np.take_along_axis(order, np.argsort(~nan, axis=-1, kind="stable"), -1)
        order = order[..., :k]
        values = np.take_along_axis(key, order, -1)
        return np.moveaxis(values, -1, dim), np.moveaxis(order, -1, dim)

    def samples(tensor):
        yield (tensor(5, 13), 4), {}
        yield (tensor(3, 4, 6), 2), {"dim": 1, "largest": False}
        yield (tensor(7), 7), {}
        yield (tensor(2, 3), 0), {}

    tolerance = EXACT


def rows_taken(weight: Spec, indices: Spec) -> Spec:
    if weight.ndim != 2:
        raise InvalidValue(
            f"embedding: weight has {weight.ndim} axes",
            "it is a table [rows, width]",
            "reshape it to two axes",
        )
    return weight.like((*indices.shape, weight.shape[1]))


class EmbeddingBackward:
    """The gradients of the rows that were taken, summed in the order of the indices."""

    types = "(T, T, I) -> T where T: float, I: i32 i64"

    def infer(d_result, weight, indices, needs):
        require_shape(d_result, rows_taken(weight, indices).shape, "the result and its gradient")
        return where_needed(needs, weight)

    kernel = cpp_kernel("selection.cpp", "embedding_backward")

    def work(d_result, weight, indices, needs):
        return weight.shape[1], bytes_of(weight, d_result)


@op("embedding(Tensor weight, Tensor indices) -> Tensor")
class Embedding:
    """The rows of weight [rows, width] that the indices name; others are an error."""

    types = "(T, I) -> T where T: float, I: i32 i64"

    def infer(weight, indices):
        return rows_taken(weight, indices)

    def work(weight, indices):
        rows = math.prod(indices.shape)
        return rows + 1, rows * weight.shape[1] * (2 * weight.dtype.bytes)

    kernel = cpp_kernel("selection.cpp", "embedding")
    gradient, saved, wanted = EmbeddingBackward, ("weight", "indices"), ("weight",)
    linear = True

    def oracle(weight, indices):
        return np.asarray(weight)[indices]

    def samples(tensor):
        yield (tensor(10, 4), tensor(2, 3, dtype="i64", low=0, high=10)), {}
        yield (tensor(3, 7), tensor(5, dtype="i32", low=0, high=3)), {}
        yield (tensor(3, 5), tensor(0, dtype="i64", low=0, high=3)), {}

    tolerance = EXACT


def pieces(x: Spec, sizes: list[int], dim: int) -> list[Spec]:
    axis = x.axis(dim)
    if not sizes or min(sizes) < 0:
        raise InvalidValue(
            f"split: sizes is {list(sizes)}",
            "sizes has one size for each piece, none of them negative",
            "pass at least one size, and only sizes of at least 0",
        )
    require_equal(sum(sizes), x.shape[axis], "split")
    return [x.like((*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes]


class SplitBackward:
    """The gradients of the pieces, side by side."""

    def infer(d_result, sizes, dim, needs):
        if not sizes or len(d_result) != len(sizes):
            raise InvalidValue(
                f"{len(d_result)} gradients for {len(sizes)} pieces",
                "sizes has one size for each piece, and each piece has a gradient",
                "pass as many gradients as sizes, at least one",
            )
        first = d_result[0]
        axis = first.axis(dim)
        whole = first.like((*first.shape[:axis], sum(sizes), *first.shape[axis + 1 :]))
        for gradient, piece in zip(d_result, pieces(whole, sizes, dim), strict=True):
            require_shape(gradient, piece.shape, "the piece and its gradient")
        return where_needed(needs, whole)

    kernel = cpp_kernel("selection.cpp", "join")

    def work(d_result, sizes, dim, needs):
        return bytes_of(*d_result), bytes_of(*d_result) * 2


@op("split(Tensor x, *, int[] sizes, int dim=0) -> Tensor[]")
class Split:
    """Consecutive pieces of x along an axis, of these sizes, which add up to the axis."""

    types = "T -> T where T: any"

    def infer(x, sizes, dim):
        return pieces(x, sizes, dim)

    def work(x, sizes, dim):
        return bytes_of(x), bytes_of(x) * 2

    kernel = cpp_kernel("selection.cpp", "split")
    gradient, saved, wanted = SplitBackward, (), ("x",)
    linear = True

    def oracle(x, sizes, dim=0):
        return np.split(np.asarray(x), np.cumsum(sizes)[:-1], axis=dim)

    def samples(tensor):
        yield (tensor(6, 4),), {"sizes": [1, 0, 5]}
        yield (tensor(3, 7),), {"sizes": [3, 4], "dim": -1}
        yield (tensor(2, 5, 3),), {"sizes": [2, 2, 1], "dim": 1}

    tolerance = EXACT
