# SPDX-License-Identifier: Apache-2.0
"""Cases for the tests of the JAX adapter: operators with all kinds of arguments, and arrays."""

import jax
import kinds_of_operators  # noqa: F401
import numpy as np
import pytest
from shaped_operators import OPERATORS, shapes

import pto
import pto.jax
from pto.language.op import op

jax.config.update("jax_num_cpu_devices", 2)
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


@op("jax_pieces(Tensor x, *, str? how=None) -> (Tensor[], Tensor)")
class Pieces:
    def build(x, how):
        return [x + 1, x * 2, x if how is None else -x], -x


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
