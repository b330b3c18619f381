# SPDX-License-Identifier: Apache-2.0
"""Operators inside TensorFlow: eager, graphs, shapes, gradients, saved models, threads, errors."""

import functools
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it is not built yet
    import pto.tensorflow as pto_tf
from shaped_operators import OPERATORS, shapes  # noqa: E402

from pto import ops  # noqa: E402
from pto.adapters.tensorflow import build  # noqa: E402
from pto.adapters.tensorflow.node import TensorFlowNode  # noqa: E402
from pto.language.op import op  # noqa: E402
from pto.language.samples import samples  # noqa: E402

build.build()
SAMPLED = [name for name in ops.__all__ if getattr(ops, name).member("samples")]
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
DTYPES = (tf.float64, tf.float32, tf.float16, tf.bfloat16)


def arrays(operator, shape=(5, 13), dtype=tf.float32, seed=0):
    """Random NumPy arguments for an input of this shape."""
    random = np.random.default_rng(seed)
    return [
        random.standard_normal(size).astype(dtype.as_numpy_dtype)
        for size in shapes(operator, shape)
    ]


def function(operator):
    return getattr(pto_tf, operator.name)


def same_bits(got, want):
    got = got.numpy() if isinstance(got, tf.Tensor) else got
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def run_in_function(call, *arguments, **options):
    return tf.function(call, autograph=False, **options)(*arguments)


# --- results ------------------------------------------------------------------------------------


@every_operator
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_results_are_those_of_numpy_to_the_bit(operator, dtype):
    for shape in [(5, 13), (3, 1000), (1, 9), (4, 1), (7,), (2, 3, 5), (0, 4), (2, 0, 4)]:
        arguments = arrays(operator, shape, dtype)
        want = operator(*arguments)
        tensors = [tf.constant(x) for x in arguments]
        assert same_bits(function(operator)(*tensors), want)
        assert same_bits(run_in_function(function(operator), *tensors), want)


@pytest.mark.parametrize("name", SAMPLED)
def test_the_samples_of_a_definition_give_the_bits_of_numpy(name):
    operator = getattr(ops, name)
    for dtype in set(operator.types[0]) & {"f64", "f32", "bf16", "i32", "i64"}:
        for args, keywords in samples(operator, dtype):
            want = tf.nest.flatten(operator(*args, **keywords))
            call = functools.partial(getattr(pto_tf, name), *args, **keywords)
            for result in (call(), run_in_function(lambda call=call: call())):
                for one, other in zip(tf.nest.flatten(result), want, strict=True):
                    assert same_bits(one, other)


def test_strings_numbers_and_defaults_are_passed_on():
    def with_eps(eps):
        return lambda *tensors: pto_tf.layer_norm(*tensors, eps=eps)

    x, weight, bias = arrays(ops.layer_norm, dtype=tf.float64)
    for eps in (1e-5, 0.1, np.float64(1) / 3, 2):
        want = ops.layer_norm(x, weight, bias, float(eps))
        assert same_bits(pto_tf.layer_norm(x, weight, bias, eps), want)
        assert same_bits(run_in_function(with_eps(eps), x, weight, bias), want)
    assert not same_bits(pto_tf.layer_norm(x, weight, bias), ops.layer_norm(x, weight, bias, 0.1))
    for text in ("none", "tanh"):
        assert same_bits(pto_tf.gelu(x, approximate=text), ops.gelu(x, approximate=text))
    assert same_bits(pto_tf.softmax(x, 0), ops.softmax(x, 0))
    assert same_bits(pto_tf.softmax(x, dim=np.int64(0)), ops.softmax(x, 0))


def test_a_tensor_without_axes_and_what_is_not_finite_are_as_in_numpy():
    for value in (1.5, np.nan, np.inf, -0.0):
        x = np.float32(value).reshape(())
        assert same_bits(pto_tf.silu(x), np.asarray(ops.silu(x)))


def test_subnormal_numbers_are_kept_though_tensorflow_flushes_its_own():
    x = np.full(40, 1e-40, np.float32)
    assert same_bits(run_in_function(pto_tf.add, tf.constant(x), tf.constant(x)), x + x)


def test_variables_lists_and_arrays_are_arguments_too():
    x = np.ones((2, 2), np.float32)
    for argument in (tf.Variable(x), x, x.tolist(), x[:, ::-1], x.T, tf.constant(x)):
        assert same_bits(pto_tf.add(argument, x), x + x)
        assert same_bits(run_in_function(lambda a=argument: pto_tf.add(a, x)), x + x)
    assert pto_tf.add(tf.constant(x, tf.float64), x).dtype == tf.float64
    assert run_in_function(lambda: pto_tf.add(tf.constant(x, tf.float64), x)).dtype == tf.float64


def test_large_tensors_run_on_tensorflows_threads():
    arguments = arrays(ops.layer_norm, (3000, 257))
    want = ops.layer_norm(*arguments)
    assert same_bits(pto_tf.layer_norm(*arguments), want)
    assert same_bits(run_in_function(pto_tf.layer_norm, *map(tf.constant, arguments)), want)


def test_an_output_in_the_memory_of_an_input_is_right():
    x = np.random.default_rng(3).standard_normal((300, 400)).astype(np.float32)
    weight = np.ones(400, np.float32)

    def chain(x):  # each intermediate result dies with its use
        y = pto_tf.softmax(x)
        for _ in range(3):
            y = pto_tf.rms_norm(pto_tf.add(y, y), weight)
        return y

    y = ops.softmax(x)
    for _ in range(3):
        y = ops.rms_norm(ops.add(y, y), weight)
    before = tf.constant(x)
    assert same_bits(run_in_function(chain, before), y)
    assert same_bits(before, x)


def test_many_threads_may_call_first():
    x, results = np.random.default_rng(1).standard_normal((50, 77)).astype(np.float32), []
    weight, barrier = np.ones(77, np.float32), threading.Barrier(4)

    def call():
        barrier.wait()
        results.append(pto_tf.rms_norm(x, weight, 0.25))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    want = ops.rms_norm(x, weight, 0.25)
    assert len(results) == 4 and all(same_bits(r, want) for r in results)


# --- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "want"),
    [
        ([None, 4], [3, 4], [3, 4]),
        ([None, 4], [1, 4], [None, 4]),
        ([None, 1], [4], [None, 4]),
        ([None], [None], [None]),
        ([2, None], [], [2, None]),
        (None, [3], None),
    ],
)
def test_unknown_sizes_and_ranks_stay_unknown_only_where_they_must(left, right, want):
    signature = [tf.TensorSpec(left, tf.float32), tf.TensorSpec(right, tf.float32)]
    traced = tf.function(pto_tf.add, input_signature=signature, autograph=False)
    shape = traced.get_concrete_function().output_shapes
    assert shape.rank is None if want is None else shape.as_list() == want


@every_operator
def test_a_function_of_unknown_sizes_serves_all(operator):
    arguments = arrays(operator)
    for rank_is_known in (True, False):
        signature = [
            tf.TensorSpec([None] * x.ndim if rank_is_known else None, tf.float32) for x in arguments
        ]
        traced = tf.function(function(operator), input_signature=signature, autograph=False)
        for shape in [(5, 13), (2, 1), (1, 1)]:
            some = arrays(operator, shape)
            assert same_bits(traced(*some), operator(*some))


# --- gradients ----------------------------------------------------------------------------------


def gradients(call, arguments, d_result):
    variables = [tf.constant(x) for x in arguments]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        result = call(*variables)
    return tape.gradient(result, variables, output_gradients=tf.constant(d_result))


def gradients_of_torch(operator, arguments, d_result):
    """The gradients by the gradient operator, in PyTorch, on the same memory."""
    torch = pytest.importorskip("torch")
    import pto.torch  # noqa: F401

    named = dict(zip(operator.tensor_names, arguments, strict=True))
    named["result"] = operator(*arguments)
    rule = operator.gradient
    tensors = [torch.from_numpy(a) for a in (d_result, *(named[name] for name in rule.saved))]
    found = getattr(torch.ops.pto, rule.operator.name)(*tensors)
    found = found if isinstance(found, tuple | list) else [found]
    return {name: t.numpy() for name, t in zip(rule.wanted, found, strict=True)}


@every_operator
def test_gradients_are_those_of_pytorch_to_the_bit(operator):
    for dtype in (tf.float64, tf.float32, tf.float16):
        arguments = arrays(operator, dtype=dtype)
        d_result = arrays(operator, dtype=dtype, seed=1)[0]
        want = gradients_of_torch(operator, arguments, d_result)
        for call in (function(operator), tf.function(function(operator), autograph=False)):
            got = gradients(call, arguments, d_result)
            for name, gradient in zip(operator.tensor_names, got, strict=True):
                assert same_bits(gradient, want[name]), name


@pytest.mark.parametrize("name", ["gelu", "add", "layer_norm", "softmax"])
def test_the_gradient_is_that_of_finite_differences(name):
    arguments = arrays(OPERATORS[name], (3, 5), tf.float64)
    theory, numeric = tf.test.compute_gradient(function(OPERATORS[name]), arguments, 1e-5)
    for a, b in zip(theory, numeric, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_the_gradient_of_a_broadcast_argument_has_its_shape():
    x, d = np.ones((4, 3, 5), np.float32), np.ones((4, 3, 5), np.float32)
    for shape in [(5,), (3, 1), ()]:
        got = gradients(pto_tf.silu_mul, [x, np.ones(shape, np.float32)], d)
        assert got[1].shape == shape


def test_gradients_pass_through_control_flow_and_attributes_of_the_call():
    x = np.random.default_rng(5).standard_normal((3, 4))

    @tf.function
    def repeated(x):
        for i in tf.range(3):
            x = pto_tf.gelu(x, approximate="tanh") if i > 0 else pto_tf.add(x, x)
        return x

    theory, numeric = tf.test.compute_gradient(repeated, [x], 1e-5)
    np.testing.assert_allclose(theory[0], numeric[0], rtol=1e-6, atol=1e-7)


def test_only_the_gradients_that_are_needed_are_computed(monkeypatch):
    x, weight, bias = (tf.constant(a) for a in arrays(ops.layer_norm))
    asked, emit = [], TensorFlowNode.emit

    def spy(node, groups, attributes, *rest):
        asked.append(attributes["needs"])
        return emit(node, groups, attributes, *rest)

    monkeypatch.setattr(TensorFlowNode, "emit", spy)
    with tf.GradientTape() as tape:
        tape.watch(weight)
        result = pto_tf.layer_norm(x, weight, bias)
    assert tape.gradient(result, weight).shape == weight.shape
    assert asked == [1 << ops.layer_norm.gradient.wanted.index("weight")]


def twice(function, x):
    """The second derivative of an element-wise function."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        d = inner.gradient(y, x)
    return outer.gradient(d, x)


def test_second_derivatives_are_those_of_tensorflow():
    x = tf.constant([-3.0, -0.5, 0.0, 1.0, 2.0], tf.float64)
    np.testing.assert_allclose(twice(pto_tf.silu, x), twice(tf.nn.silu, x), rtol=1e-12)


# --- graphs -------------------------------------------------------------------------------------


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(tf.ones(4))

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def known(self, x):
        return pto_tf.rms_norm(pto_tf.gelu(x, approximate="tanh"), self.weight, eps=1e-3)

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def unknown(self, x):
        return pto_tf.softmax(x, 0)


def test_a_saved_model_comes_back_with_its_gradients_and_any_size(tmp_path):
    model = Model()
    tf.saved_model.save(model, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for rows in (2, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        want = ops.rms_norm(ops.gelu(x, approximate="tanh"), np.ones(4, np.float32), 1e-3)
        assert same_bits(loaded.known(x), want)
        assert same_bits(loaded.unknown(x), ops.softmax(x, 0))
        d = np.ones_like(x)
        for a, b in zip(
            gradients(loaded.known, [x], d), gradients(model.known, [x], d), strict=True
        ):
            assert same_bits(a, b.numpy())
    assert loaded.known.concrete_functions[0].output_shapes.as_list() == [None, 4]


def test_vectorized_map_and_autograph_work():
    x = np.random.default_rng(7).standard_normal((3, 4)).astype(np.float32)
    assert same_bits(tf.vectorized_map(pto_tf.silu, tf.constant(x)), ops.silu(x))

    @tf.function
    def branch(x):
        if tf.reduce_sum(x) > 0:
            return pto_tf.silu(x)
        return pto_tf.gelu(x)

    assert same_bits(branch(abs(x)), ops.silu(abs(x)))
    assert same_bits(branch(-abs(x)), ops.gelu(-abs(x)))


def test_a_graph_of_version_one_runs_in_a_session():
    x = np.random.default_rng(8).standard_normal((3, 4)).astype(np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        place = tf.compat.v1.placeholder(tf.float32, [None, 4])
        result = pto_tf.gelu(place, name="first")
        assert result.op.name == "first"
        [gradient] = tf.compat.v1.gradients(result, [place])
        got, d = session.run([result, gradient], {place: x})
    assert same_bits(got, ops.gelu(x))
    assert same_bits(d, gradients_of_torch(ops.gelu, [x], np.ones_like(x))["x"])


# --- definitions of the user --------------------------------------------------------------------


@op("tf_scaled(Tensor x, Tensor? bias, *, float alpha=2.0, bool negate=False) -> (Tensor, Tensor)")
class Scaled:
    """alpha * x + bias, and the sums of its rows."""

    def build(x, bias, alpha, negate):
        y = alpha * (-x if negate else x)
        y = y if bias is None else y + bias
        return y, y.sum(-1)

    def grad(ctx, d_result0, d_result1):
        sign = -1.0 if ctx.attribute("negate") else 1.0
        d = d_result0 + d_result1.unsqueeze(-1)
        ctx.saved("bias")  # its shape
        return {"x": d * (ctx.attribute("alpha") * sign), "bias": d}

    saved = ("bias",)


def test_a_users_operator_has_optional_tensors_flags_and_several_outputs():
    x, bias = np.random.default_rng(9).standard_normal((2, 3, 4))
    for call in (pto_tf.tf_scaled, tf.function(pto_tf.tf_scaled, autograph=False)):
        for keywords in ({}, {"alpha": 0.1}, {"negate": True, "alpha": -3}):
            for second in (None, bias):
                got, want = call(x, second, **keywords), Scaled(x, second, **keywords)
                assert len(got) == 2 and all(map(same_bits, got, want))
    theory, numeric = tf.test.compute_gradient(
        lambda x, b: pto_tf.tf_scaled(x, b, negate=True, alpha=0.5)[0], [x, bias], 1e-5
    )
    for a, b in zip(theory, numeric, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


THREADS = """
import os, numpy as np, tensorflow as tf, pto.tensorflow
x = tf.constant(np.random.default_rng(0).standard_normal((4000, 1000)), tf.float32)
tf.reduce_sum(tf.nn.softmax(x)), pto.tensorflow.softmax(x[:1])
before = len(os.listdir("/proc/self/task"))
for _ in range(3):
    y = pto.tensorflow.softmax(x)
print(len(os.listdir("/proc/self/task")) - before, float(tf.reduce_sum(y)))
"""


def test_no_thread_of_ours_stands_beside_those_of_tensorflow():
    run = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    more, total = run.stdout.split()
    assert int(more) == 0 and abs(float(total) - 4000) < 0.1
