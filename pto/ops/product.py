# SPDX-License-Identifier: Apache-2.0
"""Matrix products. Each product is added with one rounding, in the order of the contraction, so the
result does not depend on threads or on how the work is cut.
"""

import math

import numpy as np

from pto.errors import InvalidValue
from pto.language.dtypes import bf16, f16, f32, f64, i32
from pto.language.infer import (
    Size,
    Spec,
    broadcast_sizes,
    require_equal,
    require_shape,
    size_broadcast,
    where_needed,
)
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op

TOLERANCE = {f64: 1e-13, f32: 1e-5, f16: 4e-3, bf16: 3e-2}
FLOPS_A_BYTE = 4  # what a product costs, in bytes moved: how its work is split


def _matrix(spec: Spec, transposed: bool, is_left: bool) -> tuple:
    """Rows and columns of an operand; a vector is one row on the left, one column on the right."""
    if spec.ndim == 0:
        raise InvalidValue(
            "matmul: an operand has no axes",
            "operands are vectors or matrices",
            "give the operand an axis, or multiply with *",
        )
    if spec.ndim == 1:
        return (1, *spec.shape) if is_left else (*spec.shape, 1)
    rows, cols = spec.shape[-2:]
    return (cols, rows) if transposed else (rows, cols)


def product_shape(a: Spec, b: Spec, transpose_a: bool, transpose_b: bool) -> tuple:
    """The shape of a @ b as NumPy has it."""
    rows, cols = _matrix(a, transpose_a, True)[0], _matrix(b, transpose_b, False)[1]
    batch = broadcast_sizes(a.shape[:-2], b.shape[:-2])
    return (*batch, *([rows] if a.ndim > 1 else []), *([cols] if b.ndim > 1 else []))


def check_depth(a: Spec, b: Spec, transpose_a: bool, transpose_b: bool) -> None:
    depth, height = _matrix(a, transpose_a, True)[1], _matrix(b, transpose_b, False)[0]
    require_equal(depth, height, "matmul")


def work_of_depth(results: Size, depth: Size, b: Spec) -> Size:
    """The work of sums over a depth: multiplying, and for few rows reading b, 2 bytes an element at
    least."""
    return results * depth // FLOPS_A_BYTE + math.prod(b.shape) * 2


def work_of(a: Spec, b: Spec, shape: tuple, transpose_a: bool) -> tuple[Size, Size]:
    results = math.prod(shape)
    return results, work_of_depth(results, _matrix(a, transpose_a, True)[1], b)


def check_addend(c: Spec | None, shape: tuple) -> None:
    if c is None:
        return
    if c.ndim > 2:
        raise InvalidValue(
            f"gemm: c has {c.ndim} axes", "c broadcasts to a matrix", "pass a c of at most two axes"
        )
    for size, own in zip(shape[2 - c.ndim :], c.shape, strict=True):
        require_equal(size_broadcast(size, own), size, "gemm")


def check_gradient(d_result: Spec, a: Spec, b: Spec, transpose_a: bool, transpose_b: bool) -> None:
    check_depth(a, b, transpose_a, transpose_b)
    shape = product_shape(a, b, transpose_a, transpose_b)
    require_shape(d_result, shape, "the result and its gradient")


def work_of_gradient(d_result: Spec, a: Spec, b: Spec, transpose_a: bool) -> tuple[Size, Size]:
    work = work_of(a, b, d_result.shape, transpose_a)[1]
    return math.prod(a.shape) + math.prod(b.shape) + math.prod(d_result.shape), work * 2


def work_of_product(a, b, transpose_a, transpose_b):
    return work_of(a, b, product_shape(a, b, transpose_a, transpose_b), transpose_a)


def product(
    a: np.ndarray, b: np.ndarray, transpose_a: bool = False, transpose_b: bool = False
) -> np.ndarray:
    a = np.swapaxes(a, -1, -2) if transpose_a and a.ndim > 1 else a
    return a @ (np.swapaxes(b, -1, -2) if transpose_b and b.ndim > 1 else b)


def check_second(d_d: tuple[Spec, ...], of: tuple[Spec | None, ...], needs: int) -> None:
    """The gradients of a gradient operator's results have the shapes of these, where needed."""
    for i, (gradient, argument) in enumerate(zip(d_d, of, strict=True)):
        if needs >> i & 1:
            require_shape(gradient, argument.shape, "an argument and the gradient of its gradient")


class MatMulBackwardBackward:
    """The gradients of matmul_backward by d_result, a and b."""

    def infer(d_d_a, d_d_b, d_result, a, b, transpose_a, transpose_b, needs, needs_):
        check_gradient(d_result, a, b, transpose_a, transpose_b)
        check_second((d_d_a, d_d_b), (a, b), needs)
        return where_needed(needs_, d_result, a, b)

    def work(d_d_a, d_d_b, d_result, a, b, transpose_a, transpose_b, needs, needs_):
        return work_of_gradient(d_result, a, b, transpose_a)

    kernel = cpp_kernel("product.cpp", "matmul_backward_backward", takes_strides=True)


class MatMulBackward:
    """The gradients of matmul by a and b."""

    def infer(d_result, a, b, transpose_a, transpose_b, needs):
        check_gradient(d_result, a, b, transpose_a, transpose_b)
        return where_needed(needs, a, b)

    def work(d_result, a, b, transpose_a, transpose_b, needs):
        return work_of_gradient(d_result, a, b, transpose_a)

    kernel = cpp_kernel("product.cpp", "matmul_backward", takes_strides=True)
    gradient, saved = MatMulBackwardBackward, ("d_result", "a", "b")
    wanted = ("d_result", "a", "b")


@op("matmul_i32(Tensor a, Tensor b, *, bool transpose_a=False, bool transpose_b=False) -> Tensor")
class MatMulI32:
    """a @ b of bytes, each with or without a sign, as i32: exact up to depths of 33,025, then it
    wraps. The rest is as matmul has it."""

    types = "(A, B) -> i32 where A: i8 u8, B: i8 u8"

    def infer(a, b, transpose_a, transpose_b):
        check_depth(a, b, transpose_a, transpose_b)
        return a.like(product_shape(a, b, transpose_a, transpose_b), i32)

    work = work_of_product

    def oracle(a, b, transpose_a=False, transpose_b=False):
        wide = (np.asarray(x).astype(np.int64) for x in (a, b))
        return product(*wide, transpose_a, transpose_b)

    def samples(tensor):
        yield (tensor(5, 13), tensor(13, 7, dtype="i8", low=-128, high=128)), {}
        yield (
            (tensor(2, 1, 3, 4), tensor(5, 6, 4, dtype="u8", low=0, high=256)),
            {"transpose_b": True},
        )
        yield (tensor(9), tensor(9)), {}
        yield (tensor(0, 4), tensor(4, 3)), {}

    tolerance = {i32: 0}
    kernel = cpp_kernel("product.cpp", "matmul_i32", takes_strides=True)


class MatMulF32Backward:
    """The gradients of matmul_f32 by a and b."""

    types = "(f32, T, T) -> (T, T) where T: f32 f16 bf16"

    def infer(d_result, a, b, transpose_a, transpose_b, needs):
        check_gradient(d_result, a, b, transpose_a, transpose_b)
        return where_needed(needs, a, b)

    def work(d_result, a, b, transpose_a, transpose_b, needs):
        return work_of_gradient(d_result, a, b, transpose_a)

    kernel = cpp_kernel("product.cpp", "matmul_f32_backward", takes_strides=True)


@op("matmul_f32(Tensor a, Tensor b, *, bool transpose_a=False, bool transpose_b=False) -> Tensor")
class MatMulF32:
    """a @ b as f32: the sums of matmul before it rounds them."""

    types = "(T, T) -> f32 where T: f32 f16 bf16"

    def infer(a, b, transpose_a, transpose_b):
        check_depth(a, b, transpose_a, transpose_b)
        return a.like(product_shape(a, b, transpose_a, transpose_b), f32)

    work, oracle = work_of_product, product

    def samples(tensor):
        yield (tensor(5, 13), tensor(13, 7)), {}
        yield (tensor(2, 1, 3, 4), tensor(5, 6, 4)), {"transpose_b": True}
        yield (tensor(6), tensor(6)), {}
        yield (tensor(0, 4), tensor(4, 3)), {}

    tolerance = {f32: 1e-5, f16: 1e-5, bf16: 1e-5}
    kernel = cpp_kernel("product.cpp", "matmul_f32", takes_strides=True)
    gradient, saved, wanted = MatMulF32Backward, ("a", "b"), ("a", "b")


@op("matmul(Tensor a, Tensor b, *, bool transpose_a=False, bool transpose_b=False) -> Tensor")
class MatMul:
    """a @ b, of matrices, vectors and batches of them, either transposed first.

    From Python `out_dtype` names the result's element type, as torch.mm has it: f32 for f16 and
    bf16 is matmul_f32, i32 for bytes is matmul_i32.
    """

    types = "(T, T) -> T where T: f32 f16 bf16 f64 i32 i64"

    def infer(a, b, transpose_a, transpose_b):
        check_depth(a, b, transpose_a, transpose_b)
        return a.like(product_shape(a, b, transpose_a, transpose_b))

    work, oracle = work_of_product, product

    def samples(tensor):
        yield (tensor(5, 13), tensor(13, 7)), {}
        yield (tensor(2, 1, 3, 4), tensor(5, 6, 4)), {"transpose_b": True}
        yield (tensor(9), tensor(9, 2)), {}
        yield (tensor(0, 4), tensor(4, 3)), {}
        yield (tensor(3, 1, 4, 2), tensor(2, 4, 5)), {"transpose_a": True}
        yield (tensor(2, 3, 4), tensor(4)), {"transpose_b": True}
        yield (tensor(3, 0, 2, 4), tensor(1, 4, 5)), {}
        yield (tensor(6), tensor(6)), {}

    tolerance = TOLERANCE
    kernel = cpp_kernel("product.cpp", "matmul", takes_strides=True)
    gradient, saved, wanted = MatMulBackward, ("a", "b"), ("a", "b")
    others = (MatMulF32, MatMulI32)


class GemmBackwardBackward:
    """The gradients of gemm_backward by d_result, a and b."""

    def infer(
        d_d_a, d_d_b, d_d_c, d_result, a, b, alpha, beta, transpose_a, transpose_b, needs, needs_
    ):
        check_gradient(d_result, a, b, transpose_a, transpose_b)
        check_second((d_d_a, d_d_b), (a, b), needs)
        check_addend(d_d_c if needs & 4 else None, d_result.shape)
        return where_needed(needs_, d_result, a, b)

    def work(
        d_d_a, d_d_b, d_d_c, d_result, a, b, alpha, beta, transpose_a, transpose_b, needs, needs_
    ):
        return work_of_gradient(d_result, a, b, transpose_a)

    kernel = cpp_kernel("product.cpp", "gemm_backward_backward", takes_strides=True)


class GemmBackward:
    """The gradients of gemm by a, b and c."""

    def infer(d_result, a, b, c, alpha, beta, transpose_a, transpose_b, needs):
        check_gradient(d_result, a, b, transpose_a, transpose_b)
        check_addend(c, d_result.shape)
        return where_needed(needs, a, b, a.like((0,)) if c is None else c)

    def work(d_result, a, b, c, alpha, beta, transpose_a, transpose_b, needs):
        items, work = work_of_gradient(d_result, a, b, transpose_a)
        # c's gradient may have elements where all other tensors are empty.
        return items if c is None else items + math.prod(c.shape), work

    kernel = cpp_kernel("product.cpp", "gemm_backward", takes_strides=True)
    gradient, saved = GemmBackwardBackward, ("d_result", "a", "b")
    wanted = ("d_result", "a", "b")


@op(
    "gemm(Tensor a, Tensor b, Tensor? c=None, *, float alpha=1.0, float beta=1.0,"
    " bool transpose_a=False, bool transpose_b=False) -> Tensor"
)
class Gemm:
    """alpha a @ b + beta c, of matrices; c broadcasts to the result."""

    types = "(T, T, T) -> T where T: f32 f16 bf16 f64"

    def infer(a, b, c, alpha, beta, transpose_a, transpose_b):
        if a.ndim != 2 or b.ndim != 2:
            raise InvalidValue(
                f"gemm: the ranks of a and b are {a.ndim} and {b.ndim}",
                "gemm multiplies matrices, of rank 2",
                "call matmul",
            )
        check_depth(a, b, transpose_a, transpose_b)
        shape = product_shape(a, b, transpose_a, transpose_b)
        check_addend(c, shape)
        return a.like(shape)

    def work(a, b, c, alpha, beta, transpose_a, transpose_b):
        return work_of(a, b, product_shape(a, b, transpose_a, transpose_b), transpose_a)

    def oracle(a, b, c=None, alpha=1.0, beta=1.0, transpose_a=False, transpose_b=False):
        product = alpha * ((a.T if transpose_a else a) @ (b.T if transpose_b else b))
        return product if c is None else product + beta * c

    def samples(tensor):
        yield (tensor(5, 13), tensor(13, 7), tensor(7)), {"alpha": 0.5}
        yield (tensor(4, 3), tensor(6, 4)), {"transpose_a": True, "transpose_b": True}
        yield (tensor(1, 1), tensor(1, 1), tensor(1, 1)), {"beta": -2.0}

    tolerance = TOLERANCE
    kernel = cpp_kernel("product.cpp", "gemm", takes_strides=True)
    gradient, saved, wanted = GemmBackward, ("a", "b", "c"), ("a", "b", "c")
