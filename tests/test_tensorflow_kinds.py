# SPDX-License-Identifier: Apache-2.0
"""All that a schema may say, in TensorFlow: lists, optional values, sizes, mutation, types."""

import re
import warnings

import kinds_of_operators  # noqa: F401
import numpy as np
import pytest

import pto
from pto.errors import InvalidValue

tf = pytest.importorskip("tensorflow")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it is not built yet
    import pto.tensorflow as pto_tf
from pto.adapters.tensorflow import build  # noqa: E402
from pto.language.op import op  # noqa: E402

build.build()


@op("tf_both(Tensor x, Tensor? y=None, *, bool swap=False) -> Tensor[]")
class Both:
    def build(x, y, swap):
        pair = [x + 1, x if y is None else y]
        return pair[::-1] if swap else pair

    def grad(ctx, d_result):
        first, second = d_result[::-1] if ctx.attribute("swap") else d_result
        if ctx.saved("y") is None:
            return {"x": first + second, "y": second}
        return {"x": first, "y": second}

    saved = ("y",)


@op("tf_fans(Tensor[] xs, Tensor y) -> (Tensor[], Tensor, Tensor[])")
class Fans:
    def build(xs, y):
        return [x + y for x in xs], y * 2.0, [y, y]


@op("tf_repeat_row(Tensor row, SymInt rows, SymInt? more=None) -> Tensor")
class RepeatRow:
    def infer(row, rows, more):
        return row.like((rows if more is None else rows + more, *row.shape))

    def build(row, rows, more):
        rows = rows if more is None else rows + more
        return pto.broadcast_to(row * 1.0, (rows, *row.shape))


@op("tf_shrink(Tensor x, int[2] by=1, str? how=None, int? power=None) -> (Tensor, Tensor)")
class Shrink:
    def build(x, by, how, power):
        last = x * (1.0 / by[1]) if how is None else -x
        return x * (1.0 / by[0]), last if power is None else last * power


@op("tf_odd(Tensor X, float lambda_=1.0, *, int name=2, bool _hidden=True) -> Tensor")
class OddNames:
    def build(X, lambda_, name, _hidden):
        return X * lambda_ * name if _hidden else X


def x(*shape, dtype=np.float32, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 4).astype(dtype)


def both_ways(call):
    """The result of a call, which is the same in a function."""
    eager, traced = call(), tf.function(call, autograph=False)()
    tf.nest.assert_same_structure(eager, traced)
    for a, b in zip(tf.nest.flatten(eager), tf.nest.flatten(traced), strict=True):
        assert a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes()
    return eager


def test_lists_of_tensors_and_numbers_go_in():
    a, b, c = x(3, 4), x(3, 4, seed=1), x(4, seed=2)
    for bias in (None, 0.1):
        got = both_ways(lambda bias=bias: pto_tf.kinds_weighted_sum([a, b, c], [1, 2, -3], bias))
        want = a * 1 + b * 2 + c * -3
        np.testing.assert_allclose(got, want + (bias or 0), rtol=1e-5, atol=1e-5)
    for n in (1, 2, 5):
        got = both_ways(lambda n=n: pto_tf.kinds_weighted_sum((a,) * n, tuple(range(n))))
        np.testing.assert_allclose(got, a * sum(range(n)), rtol=1e-6)


def test_lists_of_tensors_come_out():
    a, b = x(3, 4), x(2, seed=1)
    for keywords in ({}, {"swap": True}):
        got = both_ways(lambda keywords=keywords: pto_tf.tf_both(a, b, **keywords))
        want = [a + 1, b][:: -1 if keywords else 1]
        assert isinstance(got, list) and len(got) == 2
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(both_ways(lambda: pto_tf.tf_both(a))) == 2


def test_lists_stand_between_other_outputs():
    xs, y = [x(3), x(2, 3), x(1)], x(3, seed=5)
    sums, double, pair = both_ways(lambda: pto_tf.tf_fans(xs, y))
    assert len(sums) == 3 and len(pair) == 2
    for total, one in zip(sums, xs, strict=True):
        np.testing.assert_array_equal(total, one + y)
    np.testing.assert_array_equal(double, y * 2)
    np.testing.assert_array_equal(pair[1], y)


def test_the_gradient_of_a_list_is_a_list():
    arguments = [x(3, 4, dtype=np.float64), x(3, 4, dtype=np.float64, seed=1)]
    theory, numeric = tf.test.compute_gradient(
        lambda *xs: pto_tf.kinds_weighted_sum(xs, [3, -2]), arguments, 1e-4
    )
    for a, b in zip(theory, numeric, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)
    for given in (arguments, arguments[:1]):
        theory, numeric = tf.test.compute_gradient(
            lambda *xs: tf.add_n(pto_tf.tf_both(*xs, swap=True)), given, 1e-4
        )
        for a, b in zip(theory, numeric, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-7)


@pytest.mark.parametrize("shape", [(5,), (3, 1), (1, 1, 5), ()], ids=str)
def test_the_gradient_of_a_broadcast_argument_has_its_shape(shape):
    a, b = tf.constant(x(4, 3, 5)), tf.constant(x(*shape))

    def gradients(add, signature=None):
        return tf.function(lambda a, b: tf.gradients(tf.sin(add(a, b)), [a, b]), autograph=False,
                           input_signature=signature)(a, b)  # fmt: skip

    for signature in (None, [tf.TensorSpec(None)] * 2):
        for got, want in zip(gradients(pto_tf.add, signature), gradients(tf.add), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    with tf.GradientTape() as tape:
        tape.watch(b)
        result = pto_tf.add(a, b)
    assert tape.gradient(result, b).shape == shape


def test_the_gradient_of_one_result_alone_takes_zeros_for_the_others():
    a, b = tf.constant(x(3)), tf.constant(x(3, seed=1))

    def gradients(a, b):
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            first, _ = pto_tf.tf_both(a, b)
        return tape.gradient(first, [a, b])

    for call in (gradients, tf.function(gradients, autograph=False)):
        d_a, d_b = call(a, b)
        np.testing.assert_array_equal(d_a, np.ones(3))
        assert d_b is None or not np.any(d_b)


def test_sizes_of_the_call_need_no_tensor():
    row = x(4)
    for rows, more in ((3, None), (0, 2), (5, 0)):
        got = both_ways(lambda rows=rows, more=more: pto_tf.tf_repeat_row(row, rows, more))
        np.testing.assert_array_equal(got, np.broadcast_to(row, (rows + (more or 0), 4)))
    assert pto_tf.tf_repeat_row(row, np.int32(2)).shape == (2, 4)
    signature = [tf.TensorSpec([None])]
    traced = tf.function(lambda row: pto_tf.tf_repeat_row(row, 3), input_signature=signature)
    assert traced.get_concrete_function().output_shapes.as_list() == [3, None]


def test_an_error_names_the_line_of_the_user_and_none_of_tensorflow():
    def call(a):
        return pto_tf.softmax(a, 7)

    for one in (call, tf.function(call), tf.function(call, autograph=False)):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)) as raised:
            one(x(3))
        [place] = re.findall(r"(\S+):\d+: softmax: there is no axis 7", str(raised.value))
        assert place.endswith("test_tensorflow_kinds.py")


@pytest.mark.parametrize("value", ["2", b"2", 10**400], ids=["text", "bytes", "beyond 64 bits"])
def test_what_is_no_real_number_is_refused(value):
    def call(a):
        return pto_tf.mul_scalar(a, value)

    for one in (call, tf.function(call)):
        with pytest.raises(TypeError, match="mul_scalar: factor is .*\n.* a real number"):
            one(x(3))


@pytest.mark.parametrize("value", [None, 3.0, np.ones((2, 3))], ids=["none", "number", "array"])
def test_a_list_of_tensors_is_no_other_value(value):
    for one in (value, x(2, 3)):
        wrong = "concat: tensors is of type .*\n.* a list"
        with pytest.raises(tf.errors.InvalidArgumentError, match=wrong):
            pto_tf.concat(one)


def test_a_negative_size_is_refused():
    def call():
        return pto_tf.tf_repeat_row(x(4), -3)

    with pytest.raises(tf.errors.InvalidArgumentError, match="-3"):
        call()
    with pytest.raises(ValueError, match="size 0 of output 0 is -3"):
        tf.function(call, autograph=False)()


def test_optional_attributes_are_none_or_a_value():
    a = x(3)
    for by, how, power in ((2, None, None), ([2, 4], None, 3), ((1, 8), "negate", None)):
        first, last = both_ways(
            lambda by=by, how=how, power=power: pto_tf.tf_shrink(a, by, how, power)
        )
        pair = [by, by] if isinstance(by, int) else by
        np.testing.assert_array_equal(first, a / pair[0])
        want = -a if how else a / pair[1]
        np.testing.assert_array_equal(last, want if power is None else want * power)


def test_mutable_arguments_come_back_as_results():
    a, b = x(3), x(3, seed=1)
    keep = a.copy()
    np.testing.assert_array_equal(both_ways(lambda: pto_tf.kinds_scale_(a, b)), a * 2 + b)
    first, second = both_ways(lambda: pto_tf.kinds_swap_(a, b))
    np.testing.assert_array_equal(first, b)
    np.testing.assert_array_equal(second, a)
    np.testing.assert_array_equal(a, keep)
    constant = tf.constant(a)
    pto_tf.kinds_scale_(constant, b)
    np.testing.assert_array_equal(constant, keep)


def test_element_types_are_those_of_the_definition():
    mask = np.array([True, False, True])
    for dtype in (np.float32, np.float64, np.int32):
        chosen, rest = both_ways(lambda d=dtype: pto_tf.kinds_select(x(3, dtype=d), mask))
        assert chosen.dtype == dtype and rest.dtype == tf.bool
        np.testing.assert_array_equal(rest, ~mask)
    for call in (
        lambda: pto_tf.kinds_select(tf.constant(x(3)), tf.constant(x(3))),
        lambda: pto_tf.kinds_select(tf.cast(x(3), tf.int16), mask),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="it takes"):
            call()


def test_any_name_of_an_argument_will_do():
    a = x(3)
    got = both_ways(lambda: pto_tf.tf_odd(X=a, lambda_=0.5, name=6, _hidden=True))
    np.testing.assert_array_equal(got, a * 0.5 * 6)


def test_a_list_in_a_graph_of_unknown_rank_says_what_it_lacks():
    traced = tf.function(pto_tf.tf_both, input_signature=[tf.TensorSpec(None)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="the rank of a tensor is unknown"):
        traced.get_concrete_function()


def test_a_saved_model_keeps_lists_and_attributes(tmp_path):
    module = tf.Module()
    module.call = tf.function(
        lambda a, b: pto_tf.tf_both(pto_tf.kinds_weighted_sum([a, b], [2, 3], 0.1), b),
        input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([3])],
        autograph=False,
    )
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    a, b = x(2, 3), x(3, seed=1)
    for got, want in zip(loaded.call(a, b), module.call(a, b), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_saved_graph_refuses_an_operator_with_other_tensors():
    """A node holds its tensors by their places: another version would read one as another."""
    kind = tf.TensorSpec([3])
    traced = tf.function(lambda x, y: pto_tf.add(x, y), input_signature=[kind, kind])
    saved = traced.get_concrete_function().graph.as_graph_def()
    [node] = [node for node in saved.node if node.op == "Pto_add"]
    node.attr["S"].s = node.attr["S"].s.replace(b"x y", b"y x")
    want = "add: the node has the tensors y x -> .*, not x y -> .*\n  why: (.|\n)*  fix: "
    with tf.Graph().as_default(), pytest.raises(ValueError, match=want):
        tf.import_graph_def(saved, name="")


def test_a_mask_of_numbers_has_a_gradient_and_one_of_bool_has_none():
    random = np.random.default_rng(4)
    q, mask = random.random((2, 3, 5, 8), np.float32), random.random((5, 5), np.float32)
    for given in (mask, mask > 0.5):
        tensors = [tf.constant(q), tf.constant(given)]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            result = tf.square(pto_tf.attention(tensors[0], tensors[0], tensors[0], tensors[1]))
        d_q, d_mask = tape.gradient(result, tensors)
        assert d_q.shape == q.shape
        assert np.any(d_mask) and d_mask.shape == mask.shape if given is mask else d_mask is None


def test_a_gradient_that_the_operator_lacks_is_an_error_and_in_graphs_none():
    """A graph asks for the gradients of all that goes in."""
    q, slopes = tf.random.stateless_normal((2, 5, 8), (1, 2)), tf.constant([0.5, 0.25])

    def attend(q, slopes):
        return pto_tf.attention(q, q, q, None, None, slopes)

    def gradients(call, wanted):
        with tf.GradientTape() as tape:
            tape.watch(wanted)
            result = call(q, slopes)
        return tape.gradient(result, wanted)

    [expected] = gradients(attend, [q])
    with pytest.raises(InvalidValue, match="attention: the gradient by slopes .*none by it\n"):
        gradients(attend, [q, slopes])
    stopped = gradients(lambda q, x: attend(q, tf.stop_gradient(x)), [q, slopes])
    traced = gradients(tf.function(attend, autograph=False), [q, slopes])
    for found in (stopped, traced):
        np.testing.assert_array_equal(found[0], expected)
        assert found[1] is None


def test_the_gradient_of_an_operator_without_one_is_an_error():
    x = tf.ones((2, 3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = pto_tf.quantize_rows(x)[1]
    with pytest.raises(LookupError, match="quantize_rows: .*\n  why: .*\n  fix: "):
        tape.gradient(result, x)
