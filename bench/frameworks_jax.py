# SPDX-License-Identifier: Apache-2.0
"""What a call costs inside JAX and on NumPy arrays, on 16 elements.

`call_jax`: a jitted operator against a jitted jax.numpy.add. `call_jax_chain`: a hundred of them in
one program, against sin(a) + b, which XLA fuses. `call_numpy`: pto.ops.NAME.
"""

import jax
import numpy as np
import pto.jax
from jax import numpy as jnp

from bench.runner import Setting, case
from pto import ops

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


@case("call_jax_chain", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_jax_chain(setting: Setting):
    x, y = jnp.ones(setting.size), jnp.ones(setting.size)
    theirs, ours = chained(lambda a, b: jnp.sin(a) + b), chained(pto.jax.add)
    yield "jax_sin_add", lambda: theirs(x, y).block_until_ready()
    yield "pto_jax", lambda: ours(x, y).block_until_ready()


@case("call_numpy", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_numpy(setting: Setting):
    x, y = np.ones(setting.size, np.float32), np.ones(setting.size, np.float32)
    operator = ops.add
    yield "numpy_add", lambda: np.add(x, y)
    yield "pto_numpy", lambda: operator(x, y)
