# SPDX-License-Identifier: Apache-2.0
"""my_add_relu in JAX: defined once, with a gradient; then jit, grad, vmap and a batch of any size.

Run it:

    python my_ops.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads
from numpy.typing import NDArray

import pto
import pto.jax
from pto import op


@op("my_add_relu(Tensor x, Tensor y) -> Tensor")
class MyAddRelu(pto.Definition):
    """max(x + y, 0); shapes broadcast."""

    def build(x: pto.Tensor, y: pto.Tensor) -> pto.Tensor:
        return pto.maximum(x + y, 0)

    def grad(ctx: pto.GradientContext, d_result: pto.Tensor) -> dict[str, pto.Tensor]:
        d = pto.where(ctx.saved("x") + ctx.saved("y") > 0, d_result, 0.0)
        return {"x": d, "y": d}

    def oracle(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(x + y, 0)

    tolerance = {pto.f32: 1e-6, pto.f64: 1e-14}


my_add_relu = pto.jax.my_add_relu  # jitted


def loss(weight: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(my_add_relu(x @ weight, jnp.ones(3)) ** 2)


if __name__ == "__main__":
    x, y = jnp.linspace(-2, 2, 12).reshape(4, 3), jnp.array([0.5, -1.0, 0.0])
    agrees = jnp.array_equal(my_add_relu(x, y), jax.nn.relu(x + y))
    print("equals jax.nn.relu(x + y):", agrees)
    rows = jax.vmap(my_add_relu, in_axes=(0, None))(x, y)
    print("one row at a time:", jnp.array_equal(rows, my_add_relu(x, y)))
    weight = jnp.ones((3, 3)) / 3
    check_grads(loss, (weight, x), order=1, modes=["rev"], rtol=1e-2)
    print("gradients agree with finite differences")
    print("a step of training:", float(loss(weight - 0.01 * jax.grad(loss)(weight, x), x)))
