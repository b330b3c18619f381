# SPDX-License-Identifier: Apache-2.0
"""Operators inside JAX: the same bits as on NumPy arrays, and errors as JAX's own."""

import threading

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

from jax_cases import (  # noqa: E402
    OPERATORS,
    Pieces,
    arrays,
    every_operator,
    in_jax,
    random,
    same,
)  # fmt: skip
from kinds_of_operators import RepeatRow, Scaled, WeightedSum  # noqa: E402

import pto  # noqa: E402
import pto.jax  # noqa: E402
from pto import _core, ops  # noqa: E402
from pto.errors import InvalidType, InvalidValue  # noqa: E402
from pto.language.op import op  # noqa: E402


@every_operator
def test_results_have_the_bits_of_those_on_numpy_arrays(operator):
    for shape in [(5, 13), (2, 3, 4), (7,), (0, 3), (1, 1)]:
        given = arrays(operator, shape)
        want = operator(*given)
        same(in_jax(operator)(*given), want)
        same(jax.jit(in_jax(operator))(*map(jnp.asarray, given)), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_every_floating_point_type_has_the_same_bits(dtype):
    with jax.enable_x64(dtype == "float64"):
        given = [a.astype(jnp.dtype(dtype)) for a in arrays(OPERATORS["layer_norm"])]
        same(pto.jax.layer_norm(*given, 0.1), ops.layer_norm(*given, 0.1))


def test_an_operator_is_a_function_of_pto_jax_and_of_pto_ops():
    x, y = jnp.asarray(random(3, 5)), jnp.asarray(random(5))
    assert isinstance(pto.jax.add(x, y), jax.Array)
    assert isinstance(ops.add(x, y), jax.Array)
    same(ops.add(x, y), pto.jax.add(np.asarray(x), y))
    assert "add(Tensor x, Tensor y) -> Tensor" in pto.jax.add.__doc__
    assert "add" in dir(pto.jax)


def test_a_name_that_no_operator_has_is_an_attribute_error():
    with pytest.raises(AttributeError, match="pto.jax has no gelou\n.*mean gelu"):
        pto.jax.gelou  # noqa: B018


def test_attributes_of_every_kind_arrive():
    x, b = random(3, 4), random(4)
    for keywords in [{}, {"alpha": 0.1}, {"alpha": jnp.float32(3)}, {"alpha": 7, "negate": True}]:
        plain = {k: float(v) if k == "alpha" else v for k, v in keywords.items()}
        same(pto.jax.kinds_scaled(x, b, **keywords), Scaled(x, b, **plain))
        same(pto.jax.kinds_scaled(x, **keywords), Scaled(x, **plain))
        same(pto.jax.kinds_scaled(x, None, **keywords), Scaled(x, None, **plain))
    xs = [random(3, seed=i) for i in range(3)]
    for weights, bias in [([1, 2, 3], None), ((4, -5, 1 << 20), 0.25)]:
        same(pto.jax.kinds_weighted_sum(xs, weights, bias), WeightedSum(xs, weights, bias))
    same(pto.jax.kinds_weighted_sum(xs[:1], weights=[2]), WeightedSum(xs[:1], [2]))
    for how in (None, "", '"quoted" \\ {text}, \u00e9\n'):
        same(pto.jax.jax_pieces(x, how=how), Pieces(x, how=how))
    lists, one = pto.jax.jax_pieces(x)
    assert len(lists) == 3 and one.shape == x.shape
    same(pto.jax.kinds_repeat_row(x[0], 3), RepeatRow(x[0], 3))
    same(pto.jax.gelu(x, approximate="tanh"), ops.gelu(x, approximate="tanh"))


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.uint64])
def test_a_number_of_numpy_is_one_of_python(kind):
    x = random(3, 4)
    same(pto.jax.softmax(x, kind(1)), pto.ops.softmax(x, 1))
    same(pto.jax.transpose(x, [kind(1), kind(0)]), x.T)
    same(pto.jax.kinds_repeat_row(x[0], kind(2)), np.stack([x[0]] * 2))


def test_an_error_names_the_line_of_the_user_and_none_of_jax():
    x = random(3, 4)
    for call in (lambda x: pto.jax.softmax(x, 7), jax.jit(lambda x: pto.jax.softmax(x, 7))):
        with pytest.raises(RuntimeError, match=r"test_jax_ops.py:\d+: softmax: there is no axis 7"):
            call(x)


def test_a_float_needs_no_new_program():
    x = jnp.asarray(random(3, 4))
    pto.jax.kinds_scaled(x, alpha=1.0)
    kernels, programs = _core.kernel_count(), pto.jax.kinds_scaled._cache_size()
    for alpha in (0.25, 7.0, float("inf"), float("nan")):
        same(pto.jax.kinds_scaled(x, alpha=alpha)[0], x * jnp.float32(alpha))
    assert (_core.kernel_count(), pto.jax.kinds_scaled._cache_size()) == (kernels, programs)


def test_mutable_arguments_come_back_as_results():
    x, y = random(3, 4), random(3, 4, seed=8)
    given = jnp.asarray(x)
    same(pto.jax.kinds_scale_(given, y), x * 2 + y)
    same(given, x)
    same(pto.jax.kinds_swap_(x, y), (y, x))


def test_an_operator_that_is_defined_later_is_there_at_once():
    @op("jax_later(Tensor x) -> Tensor")
    class Later:
        def build(x):
            return x + 3

    same(pto.jax.jax_later(random(4)), Later(random(4)))


def test_mistakes_are_errors_while_tracing():
    x = random(4)
    for call, kind, text in [
        (lambda: pto.jax.add(x, x[:3]), InvalidValue, "add: sizes 4 and 3 differ"),
        (lambda: pto.jax.jax_flat(x[:0]), InvalidValue, "jax_flat: amax over an axis of size 0"),
        (lambda: pto.jax.add(x), InvalidType, "add: called with 1 .* missing: y"),
        (lambda: pto.jax.add(x, np.arange(4)), Exception, "add: .*i32"),
        (lambda: pto.jax.softmax(x, dim="0"), InvalidType, "softmax: dim is '0'"),
        (lambda: pto.jax.add(x, None), InvalidType, "add: y is None"),
        (lambda: pto.jax.add(x, x.astype(complex)), InvalidType, "y has the dtype complex64"),
        (
            lambda: pto.jax.kinds_select(x, x.astype(jnp.int4)),
            InvalidType,
            r"it takes bool\n  fix: .* mask.astype\(jax.numpy.bool\)",
        ),
        (lambda: pto.jax.add(x, [x]), InvalidType, "add: y is of type list"),
        (lambda: pto.jax.kinds_scaled(x, alpha=x), InvalidType, "alpha is float32\\[4\\]"),
        (lambda: pto.jax.jax_count(x), InvalidType, "a result is int64.*\n.*jax_enable_x64"),
        (lambda: pto.jax.kinds_repeat_row(x, -1), InvalidValue, "shape \\[-1, 4\\]"),
    ]:
        with pytest.raises(kind, match=text):
            call()
    with jax.enable_x64(True):
        assert pto.jax.jax_count(x).dtype == jnp.int64


@pytest.mark.parametrize(("call", "text"), [
    (lambda x, n: pto.jax.softmax(x, n), "softmax: dim has a DynamicJaxprTracer"),
    (lambda x, n: pto.jax.top_k(x, k=n), "top_k: k has a DynamicJaxprTracer"),
    (lambda x, n: pto.jax.transpose(x, [n, 0]), "transpose: perm has a DynamicJaxprTracer"),
])  # fmt: skip
def test_a_traced_number_in_the_place_of_an_int_is_an_error_that_says_so(call, text):
    with pytest.raises(InvalidType, match=text) as caught:
        jax.jit(call)(jax.numpy.ones((4, 6)), 1)
    assert "static_argnames" in caught.value.fix


def test_calls_from_many_threads_and_large_ones_on_xlas_pool_are_right():
    x = random(2000, 513)
    want = ops.softmax(x)
    results = []

    def call():
        for _ in range(3):
            results.append(np.asarray(pto.jax.softmax(x)))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 9
    for result in results:
        np.testing.assert_array_equal(result, want)


def test_subnormal_numbers_survive_although_xla_flushes_them():
    tiny = np.full(4, 1e-40, np.float32)
    result = np.asarray(jax.jit(lambda x: pto.jax.add(x, x))(tiny))
    assert (result.view(np.uint32) == ops.add(tiny, tiny).view(np.uint32)).all()
    assert (result.view(np.uint32) != 0).all()


@op("jax_grown_rows(Tensor x, *, SymInt? more=None, SymInt rows=3) -> Tensor")
class GrownRows:
    def infer(x, more, rows):
        return x.like((rows if more is None else rows + more, *x.shape))

    def build(x, more, rows):
        return pto.broadcast_to(x * 1.0, (rows if more is None else rows + more, *x.shape))


def test_a_size_behind_one_that_is_left_out_keeps_its_place():
    for kwargs in ({"rows": 4}, {"more": 2, "rows": 4}, {}):
        want = GrownRows(random(5), **kwargs)
        same(pto.jax.jax_grown_rows(random(5), **kwargs), want)
