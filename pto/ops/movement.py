# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements and compute nothing: any element type, C++ kernels.

Such an operator is linear, so the gradient of its gradient operator is itself.
"""

import math

import numpy as np

from pto.errors import InvalidValue
from pto.language.dtypes import bf16, f16, f32, f64
from pto.language.infer import (
    Size,
    Spec,
    require_equal,
    require_shape,
    size_max,
    size_min,
    where_needed,
)
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op

EXACT = {f64: 0, f32: 0, f16: 0, bf16: 0}


def elements(spec: Spec) -> Size:
    return math.prod(spec.shape)


def copied(spec: Spec) -> tuple[Size, Size]:
    """The work of writing a tensor once: its elements, and bytes read and written."""
    return elements(spec), elements(spec) * (2 * spec.dtype.bytes)


def traffic(specs: list[Spec]) -> tuple[Size, Size]:
    """The work of writing tensors once into one."""
    items = sum(map(elements, specs))
    return items, items * (2 * specs[0].dtype.bytes)


def permuted(x: Spec, perm: list[int]) -> list[int]:
    """`perm` counted from the front."""
    axes = [x.axis(axis) for axis in perm]
    if sorted(axes) != list(range(x.ndim)):
        raise InvalidValue(
            f"transpose: perm is {list(perm)}, x has {x.ndim} axes",
            "perm names each axis once",
            f"pass a permutation of 0 to {x.ndim - 1}",
        )
    return axes


class TransposeBackward:
    """The gradient with its axes in the order of x."""

    def infer(d_result, perm, needs):
        axes = permuted(d_result, perm)
        return where_needed(
            needs, d_result.like(d_result.shape[axes.index(i)] for i in range(len(axes)))
        )

    def work(d_result, perm, needs):
        return copied(d_result)

    kernel = cpp_kernel("movement.cpp", "transpose_backward", takes_strides=True)


@op("transpose(Tensor x, int[] perm) -> Tensor")
class Transpose:
    """x with its axes in another order: axis i of the result is axis perm[i] of x."""

    types = "T -> T where T: any"

    def infer(x, perm):
        return x.like(x.shape[axis] for axis in permuted(x, perm))

    def work(x, perm):
        return copied(x)

    def oracle(x, perm):
        return np.transpose(x, perm)

    def samples(tensor):
        yield (tensor(5, 13),), {"perm": [1, 0]}
        yield (tensor(2, 3, 4),), {"perm": [2, 0, 1]}
        yield (tensor(0, 3),), {"perm": [1, 0]}

    tolerance = EXACT
    kernel = cpp_kernel("movement.cpp", "transpose", takes_strides=True)
    gradient, wanted = TransposeBackward, ("x",)
    linear = True


def sliced(size: Size, start: int, end: int, step: int) -> Size:
    """How many elements start:end:step takes of an axis, as Python counts."""
    last = size if step > 0 else size - 1  # of where a start may be; an end, the other side
    least = 0 if step > 0 else -1
    begin = size_min(size_max(size + start if start < 0 else start, 0), last)
    until = size_min(size_max(size + end if end < 0 else end, least), last)
    length = until - begin if step > 0 else begin - until
    apart = min(abs(step), 2**63 - 1)  # no axis is longer
    return size_max((length - 1) // apart + 1, 0)


def slice_shape(x: Spec, starts: list, ends: list, axes: list, steps: list) -> tuple[Size, ...]:
    places = [x.axis(axis) for axis in axes]
    alike = len(starts) == len(ends) == len(axes) == len(steps)
    if not alike or len(set(places)) != len(places) or 0 in steps:
        raise InvalidValue(
            f"slice: starts {list(starts)}, ends {list(ends)}, axes {list(axes)}, "
            f"steps {list(steps)}",
            "each axis has one start, one end and one step, which is not 0",
            "give lists of one length, and each axis once",
        )
    shape = list(x.shape)
    for place, start, end, step in zip(places, starts, ends, steps, strict=True):
        shape[place] = sliced(shape[place], start, end, step)
    return tuple(shape)


class SliceBackward:
    """Zeros of the shape of x, and the gradients of the elements that were taken."""

    def infer(d_result, x, starts, ends, axes, steps, needs):
        shape = slice_shape(x, starts, ends, axes, steps)
        require_shape(d_result, shape, "the result and its gradient")
        return where_needed(needs, x)

    def work(d_result, x, starts, ends, axes, steps, needs):
        return copied(x)

    kernel = cpp_kernel("movement.cpp", "slice_backward", takes_strides=True)


@op("slice(Tensor x, int[] starts, int[] ends, int[] axes, int[] steps) -> Tensor")
class Slice:
    """x[starts:ends:steps] along these axes, as Python slices; an axis may stand once."""

    types = "T -> T where T: any"

    def infer(x, starts, ends, axes, steps):
        return x.like(slice_shape(x, starts, ends, axes, steps))

    def work(x, starts, ends, axes, steps):
        return copied(x.like(slice_shape(x, starts, ends, axes, steps)))

    def oracle(x, starts, ends, axes, steps):
        index = [slice(None)] * x.ndim
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            below = step < 0 and end < -x.shape[axis]
            index[axis] = slice(start, None if below else end, step)
        return x[tuple(index)]

    def samples(tensor):
        yield (tensor(5, 13), [1, -2], [4, 0], [0, 1], [1, -3]), {}
        yield (tensor(2, 3, 4), [1], [9], [-1], [2]), {}
        yield (tensor(4, 2), [3], [1], [0], [1]), {}
        yield (tensor(7, 3), [5], [0], [0], [-2]), {}

    tolerance = EXACT
    kernel = cpp_kernel("movement.cpp", "slice", takes_strides=True)
    gradient, saved, wanted = SliceBackward, ("x",), ("x",)
    linear = True


def gathered(x: Spec, indices: Spec, dim: int) -> Spec:
    dim = x.axis(dim)
    return x.like((*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :]))


class GatherBackward:
    """The gradients of the parts that were taken, summed in the order of the indices."""

    types = "(T, T, I) -> T where T: float, I: i32 i64"

    def infer(d_result, x, indices, dim, needs):
        require_shape(d_result, gathered(x, indices, dim).shape, "the result and its gradient")
        return where_needed(needs, x)

    def work(d_result, x, indices, dim, needs):
        return elements(x), (elements(x) + elements(d_result)) * x.dtype.bytes

    kernel = cpp_kernel("selection.cpp", "gather_backward")


@op("gather(Tensor x, Tensor indices, int dim=0) -> Tensor")
class Gather:
    """The parts of x along `dim` that the indices name; negative ones count from the end."""

    types = "(T, I) -> T where T: any, I: i32 i64"

    def infer(x, indices, dim):
        return gathered(x, indices, dim)

    def work(x, indices, dim):
        items, work = copied(gathered(x, indices, dim))
        return items + 1, work

    def oracle(x, indices, dim=0):
        return np.take(x, indices, axis=dim)

    def samples(tensor):
        yield (tensor(5, 13), tensor(2, 3, dtype="i64", low=-5, high=5)), {}
        yield (tensor(2, 3, 4), tensor(6, dtype="i32", low=0, high=3)), {"dim": 1}
        yield (tensor(7), tensor(0, dtype="i64", low=0, high=7)), {}

    tolerance = EXACT
    kernel = cpp_kernel("movement.cpp", "gather")
    gradient, saved, wanted = GatherBackward, ("x", "indices"), ("x",)
    linear = True


def concatenated(tensors: list[Spec], dim: int) -> Spec:
    if not tensors:
        raise InvalidValue(
            "concat: there are no tensors", "the first one says how many axes the result has",
            "pass a list of at least one tensor",
        )  # fmt: skip
    first, *others = tensors
    dim = first.axis(dim)
    total = first.shape[dim]
    for other in others:
        if other.ndim != first.ndim:
            raise InvalidValue(
                f"concat: tensors have {first.ndim} and {other.ndim} axes",
                "tensors that are joined have the same number of axes",
                "reshape one of them",
            )
        for axis, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)):
            if axis != dim:
                require_equal(a, b, "concat")
        total = total + other.shape[dim]
    return first.like((*first.shape[:dim], total, *first.shape[dim + 1 :]))


class ConcatBackward:
    """The gradient in pieces of the sizes of the tensors."""

    def infer(d_result, tensors, dim, needs):
        require_shape(d_result, concatenated(tensors, dim).shape, "the result and its gradient")
        return where_needed(needs, tensors)

    def work(d_result, tensors, dim, needs):
        return copied(d_result)

    kernel = cpp_kernel("selection.cpp", "concat_backward")


@op("concat(Tensor[] tensors, int dim=0) -> Tensor")
class Concat:
    """Tensors one after another along an axis; their other sizes are equal."""

    types = "T -> T where T: any"

    def infer(tensors, dim):
        return concatenated(tensors, dim)

    def work(tensors, dim):
        return traffic(tensors)

    def oracle(tensors, dim=0):
        return np.concatenate(tensors, dim)

    def samples(tensor):
        yield ([tensor(5, 13), tensor(2, 13)],), {}
        yield ([tensor(2, 3, 4), tensor(2, 0, 4), tensor(2, 2, 4)],), {"dim": 1}
        yield ([tensor(7)],), {"dim": -1}

    tolerance = EXACT
    kernel = cpp_kernel("movement.cpp", "concat")
    gradient, saved, wanted = ConcatBackward, ("tensors",), ("tensors",)
    linear = True
