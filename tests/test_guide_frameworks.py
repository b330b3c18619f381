# SPDX-License-Identifier: Apache-2.0
"""The guide's programs for TensorFlow, ONNX Runtime, JAX and MindSpore (examples/frameworks)."""

import os
import subprocess
import sys
import threading

import extensions
import numpy as np
import pytest

FOLDER = extensions.ROOT / "examples/frameworks"
PAIRS = [((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((2, 3, 1030), (3, 1030)), ((), (5,)),
         ((0, 4), (4,)), ((1,), (1,)), ((6, 2), ())]  # fmt: skip


@pytest.mark.parametrize("framework", ["onnxruntime", "jax", "mindspore"])
def test_a_program_of_the_guide_runs_and_agrees(framework, tmp_path):
    pytest.importorskip(framework)
    if framework == "onnxruntime":
        pytest.importorskip("onnx")
    paths = os.pathsep.join([str(extensions.ROOT), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, FOLDER / framework / "my_ops.py"], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    assert "True" in run.stdout and "False" not in run.stdout, run.stdout


@pytest.fixture(scope="module")
def my_ops():
    tf = pytest.importorskip("tensorflow")
    folder = FOLDER / "tensorflow"

    def build(kept):
        paths = os.pathsep.join([str(extensions.ROOT), os.environ.get("PYTHONPATH", "")])
        run = subprocess.run(
            [sys.executable, folder / "my_ops.py", kept / "my_ops_tensorflow.so"], text=True,
            capture_output=True, env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        assert run.returncode == 0, run.stderr[-3000:]

    sources = [folder / "my_ops.cpp", folder / "my_ops.py", FOLDER / "torch/kernels.hpp"]
    os.environ["MY_OPS_TENSORFLOW"] = str(
        extensions.kept("my_ops_tensorflow", sources, build, tf.__version__)
    )
    return extensions.module("my_ops_of_tensorflow", folder / "my_ops.py")


def made(shape, dtype):
    return np.random.default_rng(7).integers(-9, 10, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("left, right", PAIRS)
def test_tensorflow_adds_and_broadcasts(my_ops, left, right, dtype):
    x, y = made(left, dtype), made(right, dtype)
    assert np.array_equal(my_ops.my_add(x, y).numpy(), x + y)
    assert np.array_equal(my_ops.my_add_relu(x, y).numpy(), np.maximum(x + y, 0))


def test_tensorflow_has_gradients_graphs_and_unknown_sizes(my_ops):
    import tensorflow as tf

    x, y = tf.constant(made((3, 4), np.float32)), tf.constant(made((4,), np.float32))
    for function in (my_ops.my_add, my_ops.my_add_relu):
        difference = tf.test.compute_gradient(function, [x, y + 0.5])
        for theory, numbers in zip(*difference, strict=True):
            np.testing.assert_allclose(theory, numbers, atol=1e-2)
    traced = tf.function(my_ops.my_add_relu, input_signature=[
        tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec(None, tf.float32)])  # fmt: skip
    for rows in (1, 5):
        z = traced(tf.ones([rows, 4]), y)
        assert z.shape == (rows, 4)
    concrete = tf.function(my_ops.my_add).get_concrete_function(
        tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([4], tf.float32)
    )
    assert concrete.output_shapes.as_list() == [None, 4]


def test_tensorflow_gets_errors_of_its_own_type(my_ops):
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match="my_add: shapes .*\n  why: "):
        my_ops.my_add(np.ones((3, 1), np.float32), np.ones((1, 4), np.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="float, int32"):
        my_ops.my_add(np.ones(3), np.ones(3))


def test_tensorflow_calls_from_many_threads(my_ops):
    x = made((300, 70), np.float32)
    results = []

    def call():
        results.extend(np.array_equal(my_ops.my_add(x, x).numpy(), x + x) for _ in range(10))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 40


TILES = """
import tensorflow as tf, numpy as np
operators = tf.load_op_library({library!r})
for shape in [(100, 100), (1, 7), (16, 256), (4097,)]:
    x, y = (np.random.default_rng(3).random(shape, np.float32) for _ in range(2))
    assert np.array_equal(operators.tile_sum(x=x, y=y).numpy(), x + y)
parts = tf.split(tf.ones([4, 50]), 4)
assert (operators.tile_sum(x=parts[1], y=parts[3]).numpy() == 2).all()
print("no finding")
"""


def test_plain_pointers_of_a_tensorflow_kernel_are_bounded_by_its_tensors(tmp_path):
    tf = pytest.importorskip("tensorflow")
    from pto import build_config

    library, address = tmp_path / "tiles.so", ["-fsanitize=address", "-fno-omit-frame-pointer"]
    command = [
        *("g++", "-std=c++17", "-O1", "-shared", "-fPIC", *address, "-isystem",
          tf.sysconfig.get_include(), *tf.sysconfig.get_compile_flags()),
        *(*build_config.cxxflags(), f"-I{build_config.compat_dir()}"),
        *(extensions.ROOT / "tests/cpp_route/tensorflow_tiles.cpp", "-o", library),
        *(*tf.sysconfig.get_link_flags(), *build_config.ldflags()),
    ]  # fmt: skip
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    preloaded = []  # the C++ library too, whose throws the sanitizer follows
    for name in ("libasan.so", "libstdc++.so"):
        found = subprocess.run(["g++", f"-print-file-name={name}"], text=True, capture_output=True)
        preloaded.append(found.stdout.strip())
    run = subprocess.run(
        [sys.executable, "-c", TILES.format(library=str(library))], text=True, capture_output=True,
        env={**os.environ, "LD_PRELOAD": " ".join(preloaded), "ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip
    assert run.stdout == "no finding\n", run.stderr[-3000:]
