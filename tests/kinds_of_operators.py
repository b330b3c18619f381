# SPDX-License-Identifier: Apache-2.0
"""Operators of the kinds that a schema can say, which the tests of every framework call."""

import pto
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op

__all__ = ["RepeatRow", "Scale", "Scaled", "Select", "SplitRows", "Swap", "WeightedSum"]


@op("kinds_scaled(Tensor x, Tensor? bias=None, *, float alpha=2.0, bool negate=False)"
    " -> (Tensor, Tensor)")  # fmt: skip
class Scaled:
    """alpha * x + bias, and the sums of its rows."""

    def build(x, bias, alpha, negate):
        y = alpha * (-x if negate else x)
        y = y if bias is None else y + bias
        return y, pto.sum(y, -1)

    def grad(ctx, d_result0, d_result1):
        sign = -1.0 if ctx.attribute("negate") else 1.0
        d = d_result0 + d_result1.unsqueeze(-1)
        ctx.saved("bias")
        return {"x": d * (ctx.attribute("alpha") * sign), "bias": d}

    saved = ("bias",)


@op("kinds_weighted_sum(Tensor[] xs, int[] weights, float? bias=None) -> Tensor")
class WeightedSum:
    def build(xs, weights, bias):
        total = xs[0] * weights[0]
        for x, w in zip(xs[1:], weights[1:], strict=True):
            total = total + x * w
        return total if bias is None else total + bias

    def grad(ctx, d_result):
        ctx.saved("xs")  # their shapes
        return {"xs": [d_result * w for w in ctx.attribute("weights") or [1, 1]]}


@op("kinds_repeat_row(Tensor row, SymInt rows) -> Tensor")
class RepeatRow:
    def infer(row, rows):
        return row.like((rows, *row.shape))

    def build(row, rows):
        return pto.broadcast_to(row * 1.0, (rows, *row.shape))


@op("kinds_scale_(Tensor(a!) x, Tensor y, *, float factor=2.0) -> Tensor(a!)")
class Scale:
    def build(x, y, factor):
        return x * factor + y


@op("kinds_swap_(Tensor(a!) x, Tensor(b!) y) -> ()")
class Swap:
    def build(x, y):
        return y * 1.0, x * 1.0


@op("kinds_select(Tensor x, Tensor mask) -> (Tensor, Tensor)")
class Select:
    types = "(T, bool) -> (T, bool) where T: f32 f64 i32 u8 i64"

    def build(x, mask):
        return pto.where(mask, x, pto.zeros_like(x)), pto.logical_not(mask)


@op("kinds_split_rows(Tensor x, int[] sizes) -> Tensor[]")
class SplitRows:
    types = "T -> T where T: any"

    def infer(x, sizes):
        total = 0
        for size in sizes:
            total = total + size
        pto.require_equal(total, x.shape[0], "splitting")
        return [x.like((size, *x.shape[1:])) for size in sizes]

    kernel = cpp_kernel("kernels_of_operators.cpp", "split_rows")
