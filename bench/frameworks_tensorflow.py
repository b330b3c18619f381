# SPDX-License-Identifier: Apache-2.0
"""Measures a call inside TensorFlow on 16 elements, and a fused operator on a million.

`call_tf`: an eager operator against raw_ops.AddV2 and tf.add. `call_tf_chain`: two
hundred of them in one function; the difference divided by 200 is what a node costs more.
`fused_tf`: fused.py, eager.
TensorFlow is imported by the first of these cases that runs, with one thread in each of its pools.
"""

import functools
import importlib
from typing import Any

from bench.fused import ELEMENTS, arrays, expected
from pto.bench.runner import Setting, case

CHAIN = 200


@functools.cache
def _tensorflow() -> tuple[Any, Any]:
    tf = importlib.import_module("tensorflow")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    # Without this a chain of AddV2 becomes one AddN: fewer nodes, another rounding.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    return tf, importlib.import_module("pto.tensorflow")


def _agree(first: Any, second: Any) -> None:
    if (first.numpy() != second.numpy()).any():
        raise ValueError(f"{first} and {second} differ")


@case("call_tf", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_tensorflow(setting: Setting):
    tf, adapter = _tensorflow()
    x, y = tf.random.normal(setting.size), tf.random.normal(setting.size)
    theirs, ours = tf.raw_ops.AddV2, adapter.add
    _agree(ours(x, y), theirs(x=x, y=y))
    yield "tensorflow_AddV2", lambda: theirs(x=x, y=y)
    yield "tensorflow_add", lambda: tf.add(x, y)
    yield "pto_tensorflow", lambda: ours(x, y)


@case("call_tf_chain", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_tensorflow_chain(setting: Setting):
    tf, adapter = _tensorflow()
    x, y = tf.random.normal(setting.size), tf.random.normal(setting.size)

    def chained(operator):
        def run(x, y):
            for _ in range(CHAIN):
                x = operator(x, y)
            return x

        return tf.function(run, autograph=False)

    theirs, ours = chained(lambda x, y: tf.raw_ops.AddV2(x=x, y=y)), chained(adapter.add)
    _agree(ours(x, y), theirs(x, y))
    yield "tensorflow_AddV2", lambda: theirs(x, y)
    yield "pto_tensorflow", lambda: ours(x, y)


@case("fused_tf", sizes=[ELEMENTS], dtypes=["f32"], threads=(1,))
def fused_tensorflow(setting: Setting):
    tf, adapter = _tensorflow()
    a, b = arrays(setting)
    x, y = tf.constant(a), tf.constant(b)
    ours = adapter.fused_add_relu
    yield "tensorflow_add_relu", lambda: tf.nn.relu(tf.add(x, y))
    yield "pto_tensorflow", lambda: ours(x, y)
    yield from expected(a, b, "pto_tensorflow", "tensorflow_add_relu")
