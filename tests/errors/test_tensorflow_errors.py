# SPDX-License-Identifier: Apache-2.0
"""Errors inside TensorFlow: of its own types, with what, why and fix."""

import gc
import warnings
import weakref

import kinds_of_operators  # noqa: F401
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it is not built yet
    import pto.tensorflow as pto_tf
from pto.adapters.tensorflow import build  # noqa: E402
from pto.errors import Failure  # noqa: E402

build.build()


def run_in_function(call, *arguments):
    return tf.function(call, autograph=False)(*arguments)


def x(*shape, dtype=tf.float32):
    return tf.ones(shape, dtype)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pto_tf.add(x(2, 3), x(4)), "sizes 3 and 4 differ in"),
        (lambda: pto_tf.softmax(x(2), 5), "there is no axis 5"),
        (lambda: pto_tf.add(x(2), x(2, dtype=tf.float64)), "y is float64, another is float32"),
        (lambda: pto_tf.gelu(tf.constant("a")), "x is string"),
        (lambda: pto_tf.gelu(tf.constant([1 + 2j])), "x is complex128"),
        (lambda: pto_tf.gelu(x(2, dtype=tf.int32)), "x is int32"),
        (lambda: pto_tf.kinds_select(x(2), x(2)), r"takes bool\n  fix: .* tf.cast\(mask, tf.bool"),
        (lambda: pto_tf.gelu(tf.ragged.constant([[1.0], [2.0, 3.0]])), "x is ragged"),
        (lambda: pto_tf.gelu(tf.sparse.from_dense([[1.0, 0.0]])), "x is sparse"),
        (lambda: pto_tf.gelu(tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])), "x is resource"),
        (lambda: pto_tf.gelu(None), "x is None"),
        (lambda: pto_tf.gelu(x(*[1] * 9)), "9 axes"),
    ],
)
def test_a_wrong_tensor_is_refused_in_tensorflows_way(call, message):
    for run in (call, lambda: run_in_function(call)):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message) as it:
            run()
        assert "why:" in str(it.value) and "fix:" in str(it.value)
    with pytest.raises(tf.errors.InvalidArgumentError):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pto_tf.softmax(x(2), 1.5), "dim is 1.5"),
        (lambda: pto_tf.softmax(x(2), True), "dim is True"),
        (lambda: pto_tf.softmax(x(2), 2**63), "dim is 92233.*\n.*an integer of 64 bits"),
        (lambda: pto_tf.attention(*[x(1, 2, 8)] * 3, window=[1]), "a list of 2 integers"),
        (lambda: pto_tf.gelu(x(2), approximate=3), "approximate is 3"),
        (lambda: pto_tf.layer_norm(x(2), x(2), x(2), eps="small"), "eps is 'small'"),
    ],
)
def test_a_wrong_attribute_is_a_type_error_that_says_what_is_wanted(call, message):
    for run in (call, lambda: run_in_function(call), lambda: tf.function(call)()):
        with pytest.raises(TypeError, match=message) as it:
            run()
        assert "why: the graph stores" in str(it.value) and "fix:" in str(it.value)


def test_a_traced_number_cannot_be_an_attribute():
    with pytest.raises(
        TypeError, match="eps is <tf.Tensor .*>\n  why: the graph stores a real number"
    ):
        run_in_function(lambda e: pto_tf.rms_norm(x(2), x(2), e), tf.constant(0.5))


def test_sizes_that_only_the_call_knows_are_checked_there_too():
    traced = tf.function(pto_tf.add, input_signature=[tf.TensorSpec([None])] * 2, autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="sizes 3 and 4 differ in"):
        traced(x(3), x(4))
    assert np.array_equal(traced(x(3), x(1)), np.full(3, 2, np.float32))


def test_an_error_leaves_no_tensor_behind():
    y = x(3)
    alive = weakref.ref(y)
    for _ in range(20):
        with pytest.raises(tf.errors.InvalidArgumentError):
            pto_tf.add(y, x(4))
    del y
    gc.collect()
    assert alive() is None


def test_unknown_operators_and_wrong_signatures_are_pythons_errors():
    with pytest.raises(AttributeError, match="pto.tensorflow has no nothing\n"):
        pto_tf.nothing(x(2))
    for call in (lambda: pto_tf.add(x(2)), lambda: pto_tf.add(x(2), x(2), z=1)):
        with pytest.raises(TypeError, match="add\\(\\)"):
            call()


def test_a_library_for_another_version_is_refused_with_both():
    with pytest.raises(Failure, match=f"built for TensorFlow 1.15.0, this is {tf.__version__}"):
        pto_tf.check_version("1.15.0")
