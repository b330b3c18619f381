# SPDX-License-Identifier: Apache-2.0
"""Operators in TensorFlow functions with jit_compile=True: refused, or custom calls of XLA."""

import functools
import warnings

import numpy as np
import pytest
from shaped_operators import OPERATORS, shapes

tf = pytest.importorskip("tensorflow")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it is not built yet
    import pto.tensorflow as pto_tf
from pto import ops  # noqa: E402
from pto.adapters.record import Record  # noqa: E402
from pto.adapters.tensorflow import build  # noqa: E402
from pto.adapters.tensorflow.node import TensorFlowNode  # noqa: E402
from pto.language.op import op  # noqa: E402
from pto.language.samples import samples  # noqa: E402

build.build()
pto_tf.add  # noqa: B018  # loads it, where it was not built before
SAMPLED = [  # sizes that a run decides are refused: test_bounded_sizes.py
    name
    for name in ops.__all__
    if getattr(ops, name).member("samples") and not Record(getattr(ops, name).index).is_bounded
]
with_xla = pytest.mark.skipif(
    not TensorFlowNode.compiles_for_xla, reason="run: python -m pto adapters build tensorflow --xla"
)


@op("tf_xla_kinds(Tensor[] xs, Tensor? y, int[] by, str text, float? a, bool b) -> Tensor[]")
class Kinds:
    """Every kind of argument."""

    def build(xs, y, by, text, a, b):
        factor = len(text) if b else -1
        xs = [x * (n * factor) for x, n in zip(xs, by, strict=True)]
        xs = xs if a is None else [x + a for x in xs]
        return xs if y is None else [*xs, y * 1.0]


def compiled(call, *arguments):
    return tf.function(call, autograph=False, jit_compile=True)(*arguments)


def same_bits(got, want):
    return got.numpy().tobytes() == want.tobytes() and got.shape == want.shape


def arrays(operator, shape=(5, 13), dtype=np.float32):
    random = np.random.default_rng(0)
    return [random.standard_normal(size).astype(dtype) for size in shapes(operator, shape)]


def test_a_function_is_refused_while_the_part_is_not_built(monkeypatch):
    monkeypatch.setattr(TensorFlowNode, "compiles_for_xla", False)
    with pytest.raises(tf.errors.UnimplementedError, match="jit_compile=True cannot call") as it:
        compiled(pto_tf.silu, tf.ones(3))
    assert "python -m pto adapters build tensorflow --xla" in str(it.value)
    assert same_bits(tf.function(pto_tf.silu)(tf.zeros(3)), np.zeros(3, np.float32))


@with_xla
@pytest.mark.parametrize("name", [*OPERATORS, *SAMPLED])
def test_compiled_results_are_those_of_numpy_to_the_bit(name):
    operator = getattr(ops, name)
    for dtype in ("f32", "bf16"):
        if dtype not in operator.types[0]:
            continue
        for args, keywords in samples(operator, dtype):
            call = functools.partial(getattr(pto_tf, name), *args, **keywords)
            got = tf.nest.flatten(compiled(lambda call=call: call()))
            for one, other in zip(got, tf.nest.flatten(operator(*args, **keywords)), strict=True):
                assert same_bits(one, other)


@with_xla
def test_operators_stand_among_those_of_tensorflow():
    [x] = arrays(ops.gelu)

    def call(x):
        return pto_tf.softmax(tf.transpose(pto_tf.gelu(x, approximate="tanh")) * 2.0, 0)

    want = ops.softmax(np.ascontiguousarray(ops.gelu(x, approximate="tanh").T * np.float32(2)), 0)
    assert same_bits(compiled(call, x), want)


@with_xla
def test_a_gradient_compiles():
    x, weight = arrays(ops.rms_norm)

    def call(x, weight):
        with tf.GradientTape() as tape:
            tape.watch([x, weight])
            y = pto_tf.rms_norm(x, weight, 0.1)
        return tape.gradient(y, [x, weight])

    eager = call(tf.constant(x), tf.constant(weight))
    for a, b in zip(compiled(call, x, weight), eager, strict=True):
        assert same_bits(a, b.numpy())


@with_xla
def test_every_kind_of_argument_reaches_the_kernel():
    xs = [np.full(3, n, np.float32) for n in (1, 2)]
    for y, text, a, b in (
        (None, "", None, False),
        (xs[0], 'a "quoted"\\ text, \n {} = ünïcode', 1 / 3, True),
        (None, "\x00\x7f", -np.inf, True),
    ):
        call = functools.partial(pto_tf.tf_xla_kinds, xs, y, [3, -4], text, a, b)
        eager, got = call(), compiled(lambda call=call: call())
        assert len(got) == len(eager) == (2 if y is None else 3)
        for one, other in zip(got, eager, strict=True):
            assert same_bits(one, other.numpy())


@with_xla
def test_an_operator_that_is_defined_after_the_first_compilation_compiles():
    compiled(pto_tf.silu, tf.ones(3))

    @op("tf_xla_late(Tensor x) -> Tensor")
    class Late:
        def build(x):
            return x * 3.0

    assert same_bits(compiled(pto_tf.tf_xla_late, tf.ones(3)), np.full(3, 3, np.float32))


@with_xla
def test_wrong_sizes_are_an_error_with_our_text():
    signature = [tf.TensorSpec([None])] * 2
    traced = tf.function(pto_tf.add, signature, autograph=False, jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="sizes 3 and 4 differ in broadc"):
        traced(tf.ones(3), tf.ones(4))
    assert traced(tf.ones(3), tf.ones(1)).shape == [3]


@with_xla
def test_an_error_of_the_kernel_becomes_one_of_xla():
    with pytest.raises((tf.errors.OpError, ValueError), match="there is no axis 5"):
        compiled(lambda x: pto_tf.softmax(x, 5), tf.ones(3))
