# SPDX-License-Identifier: Apache-2.0
"""my_add and my_add_relu of TensorFlow: builds the library for the installed version, and gives
the operators their gradients.

    >>> import my_ops; my_ops.my_add_relu(tf.ones([2, 3]), tf.ones([3]))
    python my_ops.py out.so        only builds
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from pto import build_config

HERE = Path(__file__).resolve().parent


def build(library: Path) -> None:
    """Compiles my_ops.cpp; some ten seconds."""
    command = [
        *("g++", "-shared", "-fPIC", "-O2", "-g0", "-w", *build_config.target_flags()),
        *(*tf.sysconfig.get_compile_flags(), f"-I{build_config.include_dir()}"),
        *(HERE / "my_ops.cpp", "-o", library),
        *(*tf.sysconfig.get_link_flags(), *build_config.ldflags()),
    ]
    subprocess.run([str(part) for part in command], check=True)


def load(library: Path) -> Any:
    """The module of the generated functions, with gradients."""
    if not library.exists():
        build(library)
    return tf.load_op_library(str(library))


def _summed_to(d: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """The gradient of an input that may have been broadcast."""
    lengths = tf.shape(like)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=lengths, s1=tf.shape(d))
    return tf.reshape(tf.reduce_sum(d, axes), lengths)


@tf.RegisterGradient("MyAdd")
def _my_add_gradient(op: tf.Operation, d: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return _summed_to(d, op.inputs[0]), _summed_to(d, op.inputs[1])


@tf.RegisterGradient("MyAddRelu")
def _my_add_relu_gradient(op: tf.Operation, d: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    d = tf.where(op.outputs[0] > 0, d, tf.zeros_like(d))
    return _summed_to(d, op.inputs[0]), _summed_to(d, op.inputs[1])


if __name__ == "__main__":
    build(Path(sys.argv[1]))
else:
    _library = load(Path(os.environ.get("MY_OPS_TENSORFLOW", HERE / "my_ops.so")))
    my_add, my_add_relu = _library.my_add, _library.my_add_relu
