# SPDX-License-Identifier: Apache-2.0
"""Cases for the tests of the JAX adapter: operators with all kinds of arguments, and arrays."""

import jax
import numpy as np
import pto.jax
import pytest
from shaped_operators import OPERATORS, shapes

import pto
from pto.language.op import op

jax.config.update("jax_num_cpu_devices", 2)
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


@op("jax_scaled(Tensor x, Tensor? bias=None, *, float alpha=2.0, bool negate=False) "
    "-> (Tensor, Tensor)")  # fmt: skip
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


@op("jax_weighted(Tensor[] xs, int[] weights, float? bias=None) -> Tensor")
class Weighted:
    def build(xs, weights, bias):
        total = xs[0] * weights[0]
        for x, w in zip(xs[1:], weights[1:], strict=True):
            total = total + x * w
        return total if bias is None else total + bias

    def grad(ctx, d_result):
        return {"xs": [d_result * w for w in ctx.attribute("weights") or [1, 1]]}


@op("jax_pieces(Tensor x, *, str? how=None) -> (Tensor[], Tensor)")
class Pieces:
    def build(x, how):
        return [x + 1, x * 2, x if how is None else -x], -x


@op("jax_repeat(Tensor row, SymInt rows) -> Tensor")
class Repeat:
    def build(row, rows):
        return pto.broadcast_to(row * 1.0, (rows, *row.shape))


@op("jax_scale_(Tensor(a!) x, Tensor y, *, float factor=2.0) -> Tensor(a!)")
class Scale:
    def build(x, y, factor):
        return x * factor + y


@op("jax_swap_(Tensor(a!) x, Tensor(b!) y) -> ()")
class Swap:
    def build(x, y):
        return y * 1.0, x * 1.0


@op("jax_count(Tensor x) -> Tensor", "T -> i64 where T: float")
class Count:
    def build(x):
        return pto.cast(x, pto.i64)


@op("jax_flat(Tensor x) -> Tensor")
class Flat:
    """The largest of all elements: mixes every axis."""

    def build(x):
        return x - pto.amax(x)


def random(*shape, dtype="float32", seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def arrays(operator, shape=(5, 13), dtype="float32"):
    return [random(*size, dtype=dtype, seed=i) for i, size in enumerate(shapes(operator, shape))]


def in_jax(operator):
    return getattr(pto.jax, operator.name)


def same(got, want):
    """Equal to the last bit, types too."""
    got, want = jax.tree.leaves(got), jax.tree.leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
