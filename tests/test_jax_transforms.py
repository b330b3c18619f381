# SPDX-License-Identifier: Apache-2.0
"""Operators under JAX's transformations: grad, vmap, scan, shard_map, export."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

from jax_cases import (  # noqa: E402
    OPERATORS,
    arrays,
    every_operator,
    in_jax,
    random,
    same,
)  # fmt: skip
from kinds_of_operators import RepeatRow  # noqa: E402
from shaped_operators import shapes  # noqa: E402

import pto.jax  # noqa: E402
from pto import ops  # noqa: E402
from pto.adapters.jax import batching  # noqa: E402
from pto.errors import InvalidValue  # noqa: E402


@every_operator
def test_gradients_are_those_of_finite_differences(operator):
    from jax.test_util import check_grads

    with jax.enable_x64(True):
        given = arrays(operator, (3, 5), "float64")
        check_grads(in_jax(operator), given, order=1, modes=["rev"])


@every_operator
def test_gradients_under_every_transformation_are_equal(operator):
    given = [jnp.asarray(a) for a in arrays(operator)]
    every = tuple(range(len(given)))

    def loss(*arrays):
        return jnp.sum(jnp.sin(in_jax(operator)(*arrays)))

    want = jax.grad(loss, every)(*given)
    same(jax.jit(jax.grad(loss, every))(*given), want)
    same(jax.grad(jax.jit(loss), every)(*given), want)
    same(jax.grad(jax.checkpoint(loss), every)(*given), want)
    _, back = jax.vjp(loss, *given)
    same(back(jnp.float32(1)), want)


def test_gradients_of_lists_options_and_of_one_output_of_two():
    x, b = jnp.asarray(random(3, 4)), jnp.asarray(random(4))
    d_x, d_b = jax.grad(lambda x, b: pto.jax.kinds_scaled(x, b, alpha=0.5)[1].sum(), (0, 1))(x, b)
    same((d_x, d_b), (np.full((3, 4), 0.5, "f4"), np.full(4, 3, "f4")))
    alpha = jnp.float32(3)  # traced, and not differentiated
    d_x = jax.jit(jax.grad(lambda x, a: pto.jax.kinds_scaled(x, alpha=a, negate=True)[0].sum()))
    same(d_x(x, alpha), np.full((3, 4), -3, "f4"))
    xs = [x, x + 1, x + 2]
    d_xs = jax.grad(lambda xs: pto.jax.kinds_weighted_sum(xs, [1, 2, 3], 0.5).sum())(xs)
    same(d_xs, [np.full((3, 4), w, "f4") for w in (1, 2, 3)])


@pytest.mark.parametrize("shape", [(5,), (3, 1), (1, 1, 5), ()], ids=str)
def test_the_gradient_of_a_broadcast_argument_has_its_shape(shape):
    x, y = jnp.asarray(random(4, 3, 5)), jnp.asarray(np.float32(random(*shape)))

    def gradient(add):
        return jax.grad(lambda x, y: jnp.sin(add(x, y)).sum(), (0, 1))

    for one, other in ((x, y), (y, x)):
        got, want = gradient(pto.jax.add)(one, other), gradient(jnp.add)(one, other)
        for a, b in zip(got, want, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    rows = jax.vmap(gradient(pto.jax.add), (0, None))(x, y.reshape(-1)[:1])[1]
    np.testing.assert_allclose(rows.sum(0), jnp.cos(x + y.reshape(-1)[0]).sum()[None], rtol=1e-4)


def test_only_the_gradients_that_are_needed_are_computed():
    def text(which):
        given = arrays(OPERATORS["layer_norm"])
        gradient = jax.grad(lambda *a: pto.jax.layer_norm(*a).sum(), which)
        return jax.jit(gradient).lower(*given).as_text()

    assert "needs = 1 : i64" in text(0) and "needs = 6 : i64" in text((1, 2))


def test_what_has_no_gradient_says_so():
    x = jnp.asarray(random(3, 4))
    with pytest.raises(
        InvalidValue, match="kinds_swap_: its gradient is asked for, but .* has none"
    ):
        jax.grad(lambda x: pto.jax.kinds_swap_(x, x)[0].sum())(x)

    def once(f):
        return lambda x: jax.grad(f)(x).sum()

    with pytest.raises(InvalidValue, match="silu_backward_backward: its gradient is asked for"):
        jax.grad(once(once(lambda x: pto.jax.silu(x).sum())))(x)
    with pytest.raises(InvalidValue, match="kinds_scaled: .* by an attribute is asked for: alpha"):
        jax.grad(lambda a: pto.jax.kinds_scaled(x, alpha=a)[0].sum())(2.0)
    with pytest.raises(TypeError, match="forward-mode .*custom_vjp"):
        jax.jvp(pto.jax.silu, (x,), (x,))


def test_a_tensor_without_a_gradient_is_refused():
    q, slopes = jnp.ones((2, 5, 8)), jnp.zeros(2)
    jax.grad(lambda q: pto.jax.attention(q, q, q, None, None, slopes).sum())(q)
    with pytest.raises(InvalidValue, match="gradient by slopes is asked for, but .* none by it"):
        jax.grad(lambda slopes: pto.jax.attention(q, q, q, None, None, slopes).sum())(slopes)


def test_a_mask_of_numbers_has_a_gradient_and_one_of_bool_needs_none():
    q, mask = jnp.asarray(random(2, 5, 8)), jnp.asarray(random(5, 5))

    def loss(attend):
        return lambda q, mask: jnp.square(attend(q, mask)).sum()

    def composed(q, mask):
        scores = q @ q.swapaxes(-1, -2) / 8**0.5
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
        return jax.nn.softmax(scores) @ q

    ours = loss(lambda q, mask: pto.jax.attention(q, q, q, mask))
    for found, want in zip(
        jax.grad(ours, (0, 1))(q, mask), jax.grad(loss(composed), (0, 1))(q, mask), strict=True
    ):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    hides = jnp.tri(5, dtype=bool)
    found, want = (jax.grad(f)(q, hides) for f in (ours, loss(composed)))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_second_derivatives_are_those_of_jax():
    x = jnp.asarray(random(3, 4))

    def second(f):
        return jax.grad(lambda x: jnp.square(jax.grad(lambda x: f(x).sum())(x)).sum())(x)

    np.testing.assert_allclose(second(pto.jax.silu), second(jax.nn.silu), rtol=1e-4, atol=1e-5)


def rows_of(function, batched, *given):
    """vmap by hand: the stacked results of one call for each element."""
    size = next(a.shape[0] for a, b in zip(given, batched, strict=True) if b)
    rows = [
        function(*(a[i] if b else a for a, b in zip(given, batched, strict=True)))
        for i in range(size)
    ]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


@pytest.fixture
def sequential(monkeypatch):
    """Counts the calls that were mapped one after another."""
    calls = []
    one_by_one = batching._one_by_one
    monkeypatch.setattr(batching, "_one_by_one", lambda *a: calls.append(1) or one_by_one(*a))
    jax.clear_caches()
    return calls


@every_operator
def test_vmap_is_one_call_with_the_batch_in_front(operator, sequential):
    for size in (4, 1):
        given = [jnp.asarray(a) for a in arrays(operator, (3, 5))]
        batched = [len(axes) > 1 for axes in shapes(operator)]
        given = [
            jnp.stack([a + i for i in range(size)]) if b else a
            for a, b in zip(given, batched, strict=True)
        ]
        axes = tuple(0 if b else None for b in batched)
        want = rows_of(in_jax(operator), batched, *given)
        same(jax.vmap(in_jax(operator), axes)(*given), want)
        same(jax.jit(jax.vmap(in_jax(operator), axes))(*given), want)
    assert not sequential


def test_vmap_over_any_axis_and_twice(sequential):
    x = jnp.asarray(random(2, 3, 4, 5))
    want = pto.jax.softmax(x)
    same(jax.vmap(jax.vmap(pto.jax.softmax))(x), want)
    same(jax.vmap(pto.jax.softmax, 2, 2)(x), want)
    assert not sequential


def test_vmap_of_what_mixes_axes_is_one_call_after_another(sequential):
    x = jnp.asarray(random(4, 3, 5))
    same(jax.vmap(pto.jax.jax_flat)(x), rows_of(pto.jax.jax_flat, [True], x))
    assert len(sequential) == 1
    first = lambda x: pto.jax.softmax(x, 0)  # noqa: E731
    same(jax.vmap(first)(x), rows_of(first, [True], x))
    w = jnp.asarray(random(4, 5))
    given = (x, w, w + 1)
    same(jax.vmap(pto.jax.layer_norm)(*given), rows_of(pto.jax.layer_norm, [True] * 3, *given))
    assert len(sequential) == 3
    same(jax.vmap(pto.jax.jax_flat)(x[:0]), x[:0])


def test_vmap_over_numbers_lists_and_several_results():
    x, alpha = jnp.asarray(random(4, 3)), jnp.arange(4.0)
    scaled = lambda x, a: pto.jax.kinds_scaled(x, alpha=a)  # noqa: E731
    same(jax.vmap(scaled)(x, alpha), rows_of(scaled, [True, True], x, alpha))
    weighted = lambda x, y: pto.jax.kinds_weighted_sum([x, y], [1, 2])  # noqa: E731
    same(jax.vmap(weighted, (0, None))(x, x[0]), rows_of(weighted, [True, False], x, x[0]))
    same(jax.vmap(pto.jax.jax_pieces)(x), rows_of(pto.jax.jax_pieces, [True], x))
    same(jax.vmap(lambda r: pto.jax.kinds_repeat_row(r, 2))(x),
         rows_of(lambda r: pto.jax.kinds_repeat_row(r, 2), [True], x))  # fmt: skip


@every_operator
def test_vmap_and_gradient_in_both_orders_agree(operator):
    given = [jnp.stack([jnp.asarray(a) + i for i in range(3)]) for a in arrays(operator, (2, 5))]
    every = tuple(range(len(given)))

    def loss(*arrays):
        return jnp.sum(jnp.sin(in_jax(operator)(*arrays)))

    each = rows_of(jax.grad(loss, every), [True] * len(given), *given)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)  # noqa: E731
    jax.tree.map(close, jax.vmap(jax.grad(loss, every))(*given), each)
    total = lambda *a: jax.vmap(loss)(*a).sum()  # noqa: E731
    jax.tree.map(close, jax.grad(total, every)(*given), each)


def test_scan_carries_a_call_and_its_gradient():
    x = jnp.asarray(random(6))

    def run(x):
        step = lambda c, _: (pto.jax.silu(c) + 1, pto.jax.softmax(c))  # noqa: E731
        carry, each = jax.lax.scan(step, x, None, length=3)
        return carry.sum() + each[0, 0]

    def by_hand(x):
        each = [x]
        for _ in range(3):
            each.append(pto.jax.silu(each[-1]) + 1)
        return each[-1].sum() + pto.jax.softmax(x)[0]

    np.testing.assert_allclose(jax.grad(run)(x), jax.grad(by_hand)(x), rtol=1e-6)


@pytest.mark.skipif(len(jax.devices("cpu")) < 2, reason="JAX was started with one device")
def test_shard_map_splits_a_call_and_sums_the_gradient_of_what_is_shared():
    mesh = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec
    x, w = jnp.asarray(random(6, 5)), jnp.asarray(random(5))

    def sharded(x, w):
        norm = jax.shard_map(
            lambda x, w: pto.jax.rms_norm(x, w, 0.1),
            mesh=mesh, in_specs=(spec("rows"), spec()), out_specs=spec("rows"),
        )  # fmt: skip
        return norm(x, w)

    same(jax.jit(sharded)(x, w), ops.rms_norm(np.asarray(x), np.asarray(w), 0.1))
    got = jax.jit(jax.grad(lambda x, w: jnp.sin(sharded(x, w)).sum(), (0, 1)))(x, w)
    want = jax.grad(lambda x, w: jnp.sin(pto.jax.rms_norm(x, w, 0.1)).sum(), (0, 1))(x, w)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, want)
    placed = jax.device_put(x, jax.NamedSharding(mesh, spec("rows")))
    same(jax.jit(pto.jax.softmax)(placed), ops.softmax(np.asarray(x)))


def exported(function, *shapes, scope=None):
    checks = [jax.export.DisabledSafetyCheck.custom_call("pto_xla_call")]
    return jax.export.export(jax.jit(function), disabled_checks=checks)(
        *(jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes)
    )


def test_an_exported_program_serves_every_size():
    n, m = jax.export.symbolic_shape("n, m")
    layer = lambda x, w: pto.jax.layer_norm(x, w, w, 1e-3)  # noqa: E731
    program = exported(layer, (n, m), (m,))
    assert program.out_avals[0].shape == (n, m)
    for shape in [(2, 3), (5, 7), (1, 4)]:
        x, w = random(*shape), random(shape[1])
        same(program.call(x, w), ops.layer_norm(x, w, w, 1e-3))
    softmax = exported(pto.jax.softmax, (n, m))  # whose maximum needs an element
    same(softmax.call(random(3, 4)), ops.softmax(random(3, 4)))
    gradient = exported(jax.grad(lambda x: pto.jax.softmax(x)[0, 0]), (n, m))
    same(gradient.call(random(3, 4)), jax.grad(lambda x: pto.jax.softmax(x)[0, 0])(random(3, 4)))
    repeat = exported(lambda x: pto.jax.kinds_repeat_row(x[0], x.shape[0]), (n, 3))
    assert repeat.out_avals[0].shape == (n, 3)
    x = random(4, 3)
    same(repeat.call(x), RepeatRow(x[0], 4))


def test_symbolic_sizes_that_may_differ_are_refused_with_the_constraint_to_add():
    n, m = jax.export.symbolic_shape("n, m")
    with pytest.raises(InvalidValue, match="n and m are not known .*(?s:.*)constraints=..n == m"):
        exported(pto.jax.add, (n,), (m,))
