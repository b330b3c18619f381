# SPDX-License-Identifier: Apache-2.0
"""Builds the parts of `python -m pto adapters build tensorflow` for the installed TensorFlow."""

import dataclasses
import pathlib

import tensorflow as tf
from pto.adapters import build as library

_HERE = pathlib.Path(__file__).resolve().parent

OPERATORS = library.Part(
    framework="tensorflow",
    name="operators",
    title="the TensorFlow adapter",
    without="without it TensorFlow has no operators of this library",
    version=tf.__version__,
    identity=(tf.version.GIT_VERSION, tf.version.COMPILER_VERSION),
    sources=(_HERE / "operators.cpp",),
    options=(
        "-std=c++17",
        f'-DPTO_TENSORFLOW_VERSION="{tf.__version__}"',
        f"-D_GLIBCXX_USE_CXX11_ABI={int(tf.sysconfig.CXX11_ABI_FLAG)}",
        "-DEIGEN_MAX_ALIGN_BYTES=64",  # what TensorFlow's own allocations have
    ),
    folders=(f"-isystem{tf.sysconfig.get_include()}",),
    links=tuple(tf.sysconfig.get_link_flags()),
)


_INCLUDE = pathlib.Path(tf.sysconfig.get_include())

XLA = dataclasses.replace(
    OPERATORS,
    name="xla",
    title="the TensorFlow adapter's part for XLA",
    without="without it functions with jit_compile=True cannot call operators",
    sources=(_HERE / "xla.cpp",),
    folders=(
        *OPERATORS.folders,
        f"-isystem{_INCLUDE / 'external/highwayhash'}",
        f"-isystem{_INCLUDE / 'external/farmhash_archive/src'}",
    ),
    links=(*OPERATORS.links, "-l:libtensorflow_cc.so.2"),
)


def build(force: bool = False) -> pathlib.Path:
    """Builds the library unless it is there; raises Failure where that cannot be done."""
    return library.build(OPERATORS, force)


def build_xla(force: bool = False) -> pathlib.Path:
    """Builds the part for jit_compile=True, in half a minute."""
    return library.build(XLA, force)
