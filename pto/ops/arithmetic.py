# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on whole tensors; shapes broadcast."""

import numpy as np

from pto.language.dtypes import bf16, f16, f32, f64
from pto.language.elementwise import maximum, relu, where, zeros_like
from pto.language.infer import broadcast
from pto.language.op import op
from pto.language.types import cast, wide

TOLERANCE = {f64: 1e-15, f32: 1e-7, f16: 1e-3, bf16: 8e-3}
NUMBERS = "(T, T) -> T where T: number"


@op("add(Tensor x, Tensor y) -> Tensor", NUMBERS)
class Add:
    """x + y."""

    def build(x, y):
        return x + y

    def grad(ctx, d_result):
        return d_result, d_result

    def oracle(x, y):
        return x + y

    tolerance = {f64: 0, f32: 1e-7, f16: 1e-3, bf16: 8e-3}


@op("mul(Tensor x, Tensor y) -> Tensor", NUMBERS)
class Mul:
    """x * y."""

    def build(x, y):
        return x * y

    def grad(ctx, d_result):
        return d_result * ctx.saved("y"), d_result * ctx.saved("x")

    def oracle(x, y):
        return x * y

    tolerance = TOLERANCE


@op("mul_scalar(Tensor x, Scalar factor) -> Tensor")
class MulScalar:
    """factor * x; the factor is a number of the call."""

    inplace = True

    def build(x, factor):
        return x * factor

    def grad(ctx, d_result):
        return d_result * ctx.attribute("factor")

    def oracle(x, factor):
        return x * factor

    def samples(tensor):
        yield (tensor(5, 13), 2.5), {}
        yield (tensor(7), -1.0), {}

    tolerance = TOLERANCE


@op("relu(Tensor x) -> Tensor", "T -> T where T: number")
class Relu:
    """The larger of x and 0; NaN stays."""

    inplace = True

    def build(x):
        return relu(x)

    def grad(ctx, d_result):
        return where(ctx.saved("result") > 0, d_result, zeros_like(d_result))

    def oracle(x):
        return np.maximum(x, 0)

    tolerance = {f64: 0, f32: 0, f16: 0, bf16: 0}


@op("fused_add_relu(Tensor x, Tensor y, *, float alpha=1.0) -> Tensor")
class FusedAddRelu:
    """max(x + alpha * y, 0)."""

    def infer(x, y, alpha):
        return broadcast(x, y)

    def build(x, y, alpha):
        return cast(maximum(wide(x) + alpha * wide(y), 0.0), x.dtype)

    def grad(ctx, d_result):
        d = wide(where(ctx.saved("result") > 0, d_result, zeros_like(d_result)))
        return {
            "x": cast(d, d_result.dtype),
            "y": cast(d * ctx.attribute("alpha"), d_result.dtype),
        }

    def oracle(x, y, alpha=1.0):
        return np.maximum(x + alpha * y, 0)

    def samples(tensor):
        yield (tensor(5, 13), tensor(5, 13)), {}
        yield (tensor(4, 1, 6), tensor(3, 1)), {"alpha": -0.5}

    tolerance = TOLERANCE
