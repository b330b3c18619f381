# SPDX-License-Identifier: Apache-2.0
"""MindSpore's graphs and gradients: every way to differentiate, unknown shapes, export."""

import numpy as np
import pytest
from mindspore_cases import (
    OPERATORS,
    X,
    Y,
    arrays_for,
    attributes,
    deep_map,
    eager,
    elsewhere,
    function,
    ms,
    ops,
    plain_operators,
    primitive,
    pto,
    same,
    samples,
)

nn = ms.nn


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """MindSpore writes files of failed graphs into the current folder."""
    monkeypatch.chdir(tmp_path)


def loss_of(name, seeds, keywords):
    """The sum over the operator's results times seeds, as a function of its tensors."""
    called = function(name)

    def loss(*tensors):
        results = called(*tensors, **keywords)
        if not isinstance(results, tuple):
            results = (results,)
        total = 0
        for i in range(len(results)):
            total = total + (results[i] * seeds[i]).sum()
        return total

    return loss


def difference_quotients(operator, arrays, keywords, seed):
    """The gradients of the oracle's result times seed, element by element, in double."""
    step = 1e-6

    def loss(i, place, change):
        moved = [a.copy() for a in arrays]
        moved[i][place] += change
        return (operator.member("oracle")(*moved, **keywords) * seed).sum()

    gradients = [np.empty_like(a) for a in arrays]
    for i, gradient in enumerate(gradients):
        for place in np.ndindex(gradient.shape):
            gradient[place] = (loss(i, place, step) - loss(i, place, -step)) / (2 * step)
    return gradients


def eager_grad(loss, positions):
    return ms.grad(loss, positions)


def graph_grad(loss, positions):
    return ms.jit(ms.grad(loss, positions))


def grad_of_graph(loss, positions):
    return ms.grad(ms.jit(loss), positions)


GRADIENTS = {
    "eager": eager_grad,
    "a graph of the gradient": graph_grad,
    "the gradient of a graph": grad_of_graph,
}
every_gradient = pytest.mark.parametrize("way", GRADIENTS.values(), ids=GRADIENTS)


@every_gradient
@plain_operators
def test_gradients_are_those_of_difference_quotients(operator, way):
    arrays = arrays_for(operator, (3, 5), np.float64)
    keywords = attributes(operator)
    seed = np.random.default_rng(1).standard_normal((3, 5))
    loss = loss_of(operator.name, [ms.Tensor(seed)], keywords)
    got = way(loss, tuple(range(len(arrays))))(*map(ms.Tensor, arrays))
    want = difference_quotients(operator, arrays, keywords, seed)
    for a, b in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b, rtol=1e-5, atol=1e-7)


@pytest.fixture
def no_extension(monkeypatch):
    """Calls as they are where eager.cpp was not built."""
    for index in pto.mindspore._indices.values():
        monkeypatch.setattr(eager.eager(index), "_target", eager.eager(index).primitive)


DIFFERENTIABLE = {
    n: o for n, o in OPERATORS.items() if primitive.record(pto.mindspore._indices[n]).gradient >= 0
}


@pytest.mark.parametrize("operator", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_gradients_have_the_same_bits_in_every_way(operator, request):
    of = primitive.record(pto.mindspore._indices[operator.name])
    called = function(operator.name)
    arguments, keywords = next(samples(operator, "f32"))
    is_list = isinstance(arguments[0], list | tuple)
    rest = deep_map(ms.Tensor, list(arguments[1:]))
    given = deep_map(ms.Tensor, arguments[0] if is_list else arguments[:1])

    def loss(*tensors):
        first = tensors if is_list else tensors[0]
        results = called(first, *rest, **keywords)
        if not isinstance(results, tuple):
            return (results * results).sum()
        total = 0
        for result in results:
            total = total + (result * result).sum()
        return total

    if 0 not in of.wanted:
        pytest.skip("its first argument has no gradient")
    places = tuple(range(len(given)))
    results = [way(loss, places)(*given) for way in GRADIENTS.values()]
    request.getfixturevalue("no_extension")
    results.append(eager_grad(loss, places)(*given))
    results = [r if isinstance(r, tuple) else (r,) for r in results]
    want = [r.asnumpy() for r in results[0]]
    assert all(same(r, want) for r in results)
    assert any(np.any(w != 0) for w in want)


@every_gradient
def test_gradients_pass_through_optionals_flags_and_several_outputs(way):
    x, y = ms.Tensor(X), ms.Tensor(Y)
    seeds = [ms.Tensor(X * X), ms.Tensor(Y[:3])]
    d = -0.5 * (X * X + Y[:3, None])
    loss = loss_of("kinds_scaled", seeds, {"alpha": 0.5, "negate": True})
    got = way(loss, (0, 1))(x, y)
    np.testing.assert_allclose(got[0].asnumpy(), d)
    np.testing.assert_allclose(got[1].asnumpy(), (-2 * d).sum(0))
    np.testing.assert_allclose(way(loss, 0)(x).asnumpy(), d)


@every_gradient
def test_gradients_pass_through_results_of_rank_0(way):
    x = ms.Tensor(X)
    loss = loss_of("ms_total", [3.0], {})
    assert same(way(loss, 0)(x), np.full_like(X, 3))
    assert same(way(loss, 0)(ms.Tensor(X[0, 0])), np.asarray(np.float32(3)))


def seconds(loss):
    """The gradients of a sum of products of the gradients of a function of two tensors."""
    first = ms.grad(loss, (0, 1))

    def mixed(x, y):
        d_x, d_y = first(x, y)
        return (d_x * d_y).sum() + d_x.sum()

    return ms.grad(mixed, (0, 1))


def ours_scaled(x, y):
    return (pto.mindspore.silu_mul(x, y) * y).sum()


def theirs_scaled(x, y):
    return (x * ms.ops.sigmoid(x) * y * y).sum()


def ours_cubed(x, y):
    return pto.mindspore.ms_cubed([x, y, x]).sum()


def theirs_cubed(x, y):
    return (2 * x * x * x + y * y * x).sum()


@pytest.mark.parametrize("ours, theirs", [(ours_scaled, theirs_scaled), (ours_cubed, theirs_cubed)])
def test_gradients_are_differentiated_again(mode, ours, theirs):
    x, y = ms.Tensor(X / 4), ms.Tensor(X[::-1] / 8 + 1)
    for got, want in zip(seconds(ours)(x, y), seconds(theirs)(x, y), strict=True):
        assert np.abs(want.asnumpy()).max() > 0.1
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-4, atol=1e-5)


@every_gradient
def test_the_gradient_of_a_broadcast_argument_has_its_shape(way):
    for shape in ((4,), (3, 1), (1,), ()):
        y = ms.Tensor(np.ones(shape, np.float32))
        d_x, d_y = way(loss_of("add", [ms.Tensor(X)], {}), (0, 1))(ms.Tensor(X), y)
        want = X.sum(tuple(range(2 - len(shape))))
        want = want.sum(tuple(a for a, n in enumerate(shape) if n == 1), keepdims=True)
        assert same(d_x, X) and d_y.shape == shape
        np.testing.assert_allclose(d_y.asnumpy(), want, rtol=1e-5)


@every_gradient
def test_gradients_pass_through_lists(way):
    def weighted(x, y):
        return pto.mindspore.kinds_weighted_sum([x, y, x], [1, 2, 3]).sum()

    got = way(weighted, (0, 1))(ms.Tensor(X), ms.Tensor(Y))
    assert got[0].asnumpy().tolist() == np.full_like(X, 4).tolist()
    assert got[1].asnumpy().tolist() == [6, 6, 6, 6]

    def both(x, y):
        a, b = pto.mindspore.ms_both(x, y, swap=True)
        return a.sum() + 3 * b.sum()

    got = way(both, (0, 1))(ms.Tensor(X), ms.Tensor(Y))
    assert got[0].asnumpy().tolist() == np.full_like(X, 3).tolist()
    assert got[1].asnumpy().tolist() == [2, 2, 2, 2]


class Layer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(ms.Tensor(Y + 1.5), name="weight")
        self.bias = ms.Parameter(ms.Tensor(Y), name="bias")

    def construct(self, x):
        y = pto.mindspore.layer_norm(x, self.weight, self.bias, eps=1e-3)
        return pto.mindspore.gelu(y, approximate="tanh")


class SameLayer(Layer):
    """Layer by MindSpore's own operators."""

    def construct(self, x):
        c = x - x.mean(-1, keep_dims=True)
        y = c / (c.square().mean(-1, keep_dims=True) + 1e-3).sqrt() * self.weight + self.bias
        return ms.ops.gelu(y, approximate="tanh")


def loss_and_gradients(layer, x):
    def loss(x):
        return (layer(x) ** 2).sum()

    return ms.value_and_grad(loss, None, layer.trainable_params())(x)


@pytest.fixture(params=[ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["PyNative", "graph"])
def mode(request):
    ms.set_context(mode=request.param)
    yield request.param
    ms.set_context(mode=ms.PYNATIVE_MODE)


def test_a_cell_has_the_gradients_of_its_parameters_in_both_modes(mode):
    x = ms.Tensor(X)
    value, grads = loss_and_gradients(Layer(), x)
    want_value, want = loss_and_gradients(SameLayer(), x)
    np.testing.assert_allclose(value.asnumpy(), want_value.asnumpy(), rtol=1e-5)
    for a, b in zip(grads, want, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-4, atol=1e-5)


def test_an_optimizer_lowers_the_loss(mode):
    layer, x = Layer(), ms.Tensor(X)
    optimizer = nn.SGD(layer.trainable_params(), 0.05)
    losses = []
    for _ in range(4):
        loss, grads = loss_and_gradients(layer, x)
        optimizer(grads)
        losses.append(float(loss.asnumpy()))
    assert losses == sorted(losses, reverse=True) and losses[3] < losses[0]


def test_only_what_is_asked_for_gets_a_gradient():
    x, weight, bias = ms.Tensor(X), ms.Tensor(Y), ms.Tensor(Y)
    all_three = ms.grad(pto.mindspore.layer_norm, (0, 1, 2))(x, weight, bias)
    one = ms.grad(pto.mindspore.layer_norm, 1)(x, weight, bias)
    assert same(one, all_three[1].asnumpy())


@every_gradient
@pytest.mark.parametrize("name, rest", [("kinds_repeat_row", (3,)), ("kinds_scale_", (1,))])
def test_an_operator_without_gradient_refuses_one(way, name, rest):
    """Also one that replaces its argument, whose new elements MindSpore has as a result."""
    called = function(name)
    more = tuple(ms.Tensor(Y) if name == "kinds_scale_" else n for n in rest)

    def loss(row):
        return called(row, *more).sum()

    with pytest.raises(Exception, match=f"{name}: its gradient is asked for"):
        way(loss, (0,))(ms.Tensor(Y)).asnumpy()


@every_gradient
def test_a_gradient_by_a_tensor_that_the_operator_lacks_is_zero(way):
    """MindSpore does not tell which ones are asked for: every argument of a function counts."""
    q, slopes = ms.Tensor(np.ones((2, 5, 8), np.float32)), ms.Tensor(np.ones(2, np.float32))

    def loss(q, slopes):
        return pto.mindspore.attention(q, q, q, None, None, slopes).sum()

    assert same(way(loss, (0, 1))(q, slopes)[1], np.zeros(2, np.float32))


class Dynamic(nn.Cell):
    def construct(self, x, y):
        z = pto.mindspore.add(x, y)
        return pto.mindspore.softmax(z), pto.mindspore.ms_total(x)


UNKNOWN = {"sizes": [None, None], "one size": [None, 4], "the rank": None}


@pytest.mark.parametrize("shape", UNKNOWN.values(), ids=UNKNOWN)
def test_a_graph_is_compiled_once_for_shapes_that_are_not_known(mode, shape):
    net = Dynamic()
    net.set_inputs(
        ms.Tensor(shape=shape, dtype=ms.float32), ms.Tensor(shape=[None], dtype=ms.float32)
    )
    for rows in (3, 1, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        got = net(ms.Tensor(x), ms.Tensor(Y))
        assert same(got[0], ops.softmax(ops.add(x, Y)))
        np.testing.assert_allclose(got[1].asnumpy(), x.sum(), rtol=1e-5)


@pytest.mark.parametrize("shape", UNKNOWN.values(), ids=UNKNOWN)
def test_gradients_pass_through_shapes_that_are_not_known(mode, shape):
    class Loss(nn.Cell):
        def construct(self, x, y):
            return (pto.mindspore.silu_mul(x, y) * x).sum() * pto.mindspore.ms_total(x)

    def known(x, y):
        return (pto.mindspore.silu_mul(x, y) * x).sum() * pto.mindspore.ms_total(x)

    net = Loss()
    net.set_inputs(
        ms.Tensor(shape=shape, dtype=ms.float32), ms.Tensor(shape=[None], dtype=ms.float32)
    )
    gradient = ms.grad(net, (0, 1))
    for rows in (3, 2):
        x = ms.Tensor(X[:rows])
        got = gradient(x, ms.Tensor(Y))
        want = ms.grad(known, (0, 1))(x, ms.Tensor(Y))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5)


LOADED = """
import numpy as np, mindspore as ms, sys
if sys.argv[2] == "yes":
    import pto.mindspore
net = ms.nn.GraphCell(ms.load(sys.argv[1]))
x, y = (np.load(sys.argv[1] + name) for name in (".x.npy", ".y.npy"))
for part, got in enumerate(net(ms.Tensor(x), ms.Tensor(y))):
    np.save(sys.argv[1] + f".{part}.npy", got.asnumpy())
"""


class Exported(nn.Cell):
    def construct(self, x, y):
        z = pto.mindspore.bias_gelu(x, y, approximate="tanh")
        return pto.mindspore.layer_norm(z, y, y, eps=1e-3), pto.mindspore.softmax(z)


def test_an_exported_graph_runs_in_another_process(tmp_path):
    x, y = ms.Tensor(shape=[None, 4], dtype=ms.float32), ms.Tensor(Y)
    path = str(tmp_path / "net.mindir")
    ms.export(Exported(), x, y, file_name=path, file_format="MINDIR")
    np.save(path + ".x.npy", X)
    np.save(path + ".y.npy", Y)
    done = elsewhere("-c", LOADED, path, "yes")
    assert done.returncode == 0, done.stderr
    z = ops.bias_gelu(X, Y, approximate="tanh")
    for part, want in enumerate((ops.layer_norm(z, Y, Y, 1e-3), ops.softmax(z))):
        assert np.load(f"{path}.{part}.npy").tobytes() == want.tobytes()
    done = elsewhere("-c", LOADED, path, "no")
    assert done.returncode == 1
    assert "the graph calls the operator bias_gelu, which this process does not know" in done.stderr
    assert "fix: import pto.mindspore" in done.stderr
