# SPDX-License-Identifier: Apache-2.0
"""Measures a call inside JAX on 16 elements, and a fused operator on a million.

`call_jax`: a jitted operator against a jitted jax.numpy.add. `call_jax_chain`: a hundred of them in
one program, against sin(a) + b, which XLA fuses. `fused_jax`: fused.py.
"""

import jax
from jax import numpy as jnp

import pto.jax
from bench.fused import ELEMENTS, arrays, expected
from pto.bench.runner import Goal, Setting, case

CHAIN = 100


def chained(operator):
    def run(x, y):
        for _ in range(CHAIN):
            x = operator(x, y)
        return x

    return jax.jit(run)


@case("call_jax", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_jax(setting: Setting):
    x, y = jnp.ones(setting.size), jnp.ones(setting.size)
    theirs, ours = jax.jit(jnp.add), pto.jax.add
    yield "jax_add", lambda: theirs(x, y)
    yield "pto_jax", lambda: ours(x, y)
    yield Goal("pto_jax", "jax_add", at_most=1.1)


@case("call_jax_chain", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_jax_chain(setting: Setting):
    x, y = jnp.ones(setting.size), jnp.ones(setting.size)
    theirs, ours = chained(lambda a, b: jnp.sin(a) + b), chained(pto.jax.add)
    yield "jax_sin_add", lambda: theirs(x, y).block_until_ready()
    yield "pto_jax", lambda: ours(x, y).block_until_ready()


@case("fused_jax", sizes=[ELEMENTS], dtypes=["f32"], threads=(1,))
def fused_jax(setting: Setting):
    a, b = arrays(setting)
    x, y = jnp.asarray(a), jnp.asarray(b)
    ours = pto.jax.fused_add_relu
    yield "jax_add_relu", lambda: jax.nn.relu(jnp.add(x, y)).block_until_ready()
    yield "pto_jax", lambda: ours(x, y).block_until_ready()
    yield from expected(a, b, "pto_jax", "jax_add_relu")
