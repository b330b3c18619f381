# SPDX-License-Identifier: Apache-2.0
"""Automatic gradients: each rule against PyTorch's derivative, and what has none."""

import numpy as np
import pytest
import torch

import pto
import pto.torch  # noqa: F401
from pto import _core
from pto.language.differentiate import _RULES, differentiate
from pto.language.op import op
from pto.language.trace import Trace

# Each function for traced tensors and for torch's; its derivative jumps nowhere near the random
# points, unless the row says so.
ROWS = {
    "abs": (lambda x, y: abs(x) + y, None),
    "negation": (lambda x, y: -x * y, None),
    "relu": (lambda x, y: x.relu() * y, None),
    "exponential": (lambda x, y: (x * y).exp(), None),
    "logarithm": (lambda x, y: abs(x).log() * y, None),
    "square root": (lambda x, y: abs(x).sqrt() * y, None),
    "reciprocal square root": (lambda x, y: abs(x).rsqrt() * y, None),
    "reciprocal": (lambda x, y: x.reciprocal() * y, None),
    "sine and cosine": (lambda x, y: x.sin() * y.cos(), None),
    "tanh": (lambda x, y: x.tanh() * y, None),
    "sigmoid": (lambda x, y: x.sigmoid() * y, None),
    "erf": (lambda x, y: x.erf() * y, None),
    "rounding": (lambda x, y: x.floor() * y + x.ceil() + x.round() + x.trunc(), None),
    "difference and quotient": (lambda x, y: (x - y) / (y * y + 1), None),
    "maximum": (lambda x, y: pto.maximum(x, y) * x, lambda x, y: torch.maximum(x, y) * x),
    "minimum": (lambda x, y: pto.minimum(x, y) * x, lambda x, y: torch.minimum(x, y) * x),
    "power": (lambda x, y: abs(x) ** y, None),
    "remainders": (
        lambda x, y: pto.fmod(x, y) + pto.remainder(x, y),
        lambda x, y: torch.fmod(x, y) + torch.remainder(x, y),
    ),
    "choice": (lambda x, y: pto.where(x > y, x * y, y), lambda x, y: torch.where(x > y, x * y, y)),
    "sum": (lambda x, y: x * (x * y).sum(0, True), lambda x, y: x * (x * y).sum(0, True)),
    "all sums": (lambda x, y: x * (x * y).sum(), None),
    "largest": (lambda x, y: y * pto.amax(x * y, 1, True), lambda x, y: y * (x * y).amax(1, True)),
    "smallest": (lambda x, y: y * pto.amin(x, 0), lambda x, y: y * x.amin(0)),
    "new axes": (lambda x, y: x.unsqueeze(1) * y.unsqueeze(0), None),
    "transposed": (
        lambda x, y: (x * y).transpose(0, 1).exp(),
        lambda x, y: (x * y).transpose(0, 1).exp(),
    ),
    "parts": (
        lambda x, y: pto.view(x * y, [2, 3], [1, 0]) * y[:1, :1],
        lambda x, y: (x * y)[1:3, :3] * y[:1, :1],
    ),
    "joined": (lambda x, y: pto.concat([x, x * y], 1), lambda x, y: torch.cat([x, x * y], 1)),
    "padded": (
        lambda x, y: pto.pad(x, (1, 0, 2, 1), 5.0) * y.sum(),
        lambda x, y: torch.nn.functional.pad(x, (1, 0, 2, 1), value=5.0) * y.sum(),
    ),
    "rows at positions": (
        lambda x, y: x[pto.one_hot(pto.arange(4) % 2, 3).sum(1) * 2] * y.sum(),
        lambda x, y: x[[2, 2, 2, 2]] * y.sum(),
    ),
    "gathered": (
        lambda x, y: pto.gather(x, 1, pto.argsort(x, 1)[:, :2] * 0 + 1) * y.sum(),
        lambda x, y: torch.gather(x, 1, torch.ones(3, 2, dtype=torch.int64)) * y.sum(),
    ),
    "scattered": (
        lambda x, y: pto.scatter(x * y, 0, pto.argsort(x, 0)[1:], (x * x)[1:]),
        lambda x, y: (x * y).scatter(0, x.argsort(0)[1:], (x * x)[1:]),
    ),
    "added at positions": (
        lambda x, y: (x * y).index_add(0, pto.arange(4) % 2, pto.concat([x, x[:1]])),
        lambda x, y: (x * y).index_add(0, torch.tensor([0, 1, 0, 1]), torch.cat([x, x[:1]])),
    ),
    "sorted": (lambda x, y: (x * y).sort(0, True).values * x, None),
    "largest two": (lambda x, y: pto.topk(x * y, 2).values, lambda x, y: (x * y).topk(2).values),
    "running sum": (lambda x, y: (x * y).cumsum(1) * x, None),
    "triangle": (lambda x, y: pto.tril(x) * y, lambda x, y: torch.tril(x) * y),
    "products of batches": (lambda x, y: (x * y).unsqueeze(0) @ x.unsqueeze(2), None),
    "used twice": (lambda x, y: (x * y) * (x * y) + x, None),
    "only one": (lambda x, y: x * x, lambda x, y: x * x + 0 * y),
}
SHAPES = [((3, 4), (3, 4)), ((3, 4), (1, 4)), ((3, 4), (3, 1)), ((3, 4), (1, 1))]


def gradients(function, x, y, d):
    """The gradients by x and y of a traced function, evaluated by the interpreter."""
    trace = Trace("f")
    tensors = [trace.input(name, "f64", a.shape) for name, a in [("x", x), ("y", y)]]
    with trace.active():
        result = function(*tensors)
        given = trace.input("d", "f64", result.shape)
        graph, _ = trace.finish(differentiate([result], [given], tensors))
    return [np.asarray(a) for a in pto.interpret(graph, x, y, d)]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("row", ROWS)
def test_each_rule_gives_the_derivative_of_pytorch(row, shapes):
    ours, theirs = ROWS[row]
    generator = torch.Generator().manual_seed(3)
    x, y = (
        torch.randn(s, dtype=torch.float64, generator=generator).requires_grad_() for s in shapes
    )
    result = (theirs or ours)(x, y)
    d = torch.randn(result.shape, dtype=torch.float64, generator=generator)
    want = torch.autograd.grad(result, (x, y), d)
    got = gradients(ours, x.detach().numpy(), y.detach().numpy(), d.numpy())
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-9, atol=1e-9)


def test_where_the_derivative_jumps_it_is_that_of_pytorch():
    x = torch.tensor([[0.0, 1.0, 1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[0.0, 1.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    for name, d in [("abs", 1.0), ("relu", 1.0), ("maximum", 3.0), ("largest", 1.0)]:
        ours, theirs = ROWS[name]
        result = (theirs or ours)(x, y)
        want = torch.autograd.grad(result, (x, y), torch.full_like(result, d))
        got = gradients(
            ours, x.detach().numpy(), y.detach().numpy(), np.full(tuple(result.shape), d)
        )
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b.numpy(), err_msg=name)


ODD = ("atan", "asin", "sinh", "asinh", "atanh", "tan", "sign", "tanh", "erf", "expm1", "log1p",
       "cosh", "acos")  # fmt: skip


def test_at_zero_functions_made_of_pieces_have_the_slope_of_pytorch():
    x = torch.tensor([[0.0, -0.0, 1e-9, -1e-9]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[2.0, 2.0, -3.0, 0.5]], dtype=torch.float64, requires_grad=True)
    scaled = lambda function: lambda x, y: function(x) * y  # noqa: E731
    rows = {name: (scaled(getattr(pto, name)), scaled(getattr(torch, name))) for name in ODD}
    rows["elu"] = lambda x, y: pto.elu(x) * y, lambda x, y: torch.nn.functional.elu(x) * y
    rows["height"] = lambda x, y: pto.atan2(x, y), torch.atan2
    rows["width"] = lambda x, y: pto.atan2(y, x), lambda x, y: torch.atan2(y, x)
    for name, (ours, theirs) in rows.items():
        result = theirs(x, y)
        d = torch.ones_like(result)
        want = torch.autograd.grad(result, (x, y), d)
        got = gradients(ours, x.detach().numpy(), y.detach().numpy(), d.numpy())
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-9, atol=1e-9, err_msg=name)


ENDS = {  # of the domain, and of what the compositions divide by
    "asin": [-1, 1],
    "acos": [-1, 1],
    "atanh": [-1, 1, -2, 3, np.inf, -np.inf],
    "acosh": [1, np.inf],
    "log1p": [-1, -2, np.inf, 1e30],
    "asinh": [np.inf, -np.inf],
    "atan": [np.inf, -np.inf],
}


def slopes_of_pytorch(name, x):
    given = torch.from_numpy(x).requires_grad_()
    return torch.autograd.grad(getattr(torch, name)(given).sum(), given)[0].numpy()


@pytest.mark.parametrize("name", ENDS)
def test_at_the_ends_of_its_domain_a_function_has_the_slope_of_pytorch(name):
    x = np.array([ENDS[name]], "f8")
    factor = np.full_like(x, -2)
    got, _ = gradients(lambda x, y: getattr(pto, name)(x) * y, x, factor, np.ones_like(x))
    np.testing.assert_allclose(got, -2 * slopes_of_pytorch(name, x), rtol=1e-12)


def test_compiled_slopes_at_the_ends_are_infinite_too():
    x = torch.tensor([-1.0, 1.0], requires_grad=True)
    (got,) = torch.autograd.grad(
        pto.jit(lambda x: pto.asin(x) - pto.acos(x) + pto.atanh(x))(x).sum(), x
    )
    assert got.tolist() == [np.inf, np.inf]


def test_powers_of_zero_have_finite_derivatives():
    x, y = np.array([[0.0, 0.0]]), np.array([[2.0, 0.0]])
    by_x, by_y = gradients(lambda x, y: pto.pow(x, y), x, y, np.ones((1, 2)))
    assert by_x.tolist() == [[0, 0]] and by_y.tolist() == [[0, 0]]


def test_every_operation_has_a_rule_no_derivative_or_a_refusal():
    differentiable = {name for name, _, family, *_, types in _core.operations()
                      if types in ("Float", "Arithmetic", "Ordered")
                      and family in ("unary", "binary", "reduce")}  # fmt: skip
    assert differentiable - _RULES.keys() == {"prod"}


@op("differentiate_smooth(Tensor x, Tensor? w, Tensor[] zs, *, float a=2.0) -> (Tensor, Tensor)")
class Smooth:
    grad = "automatic"

    def build(x, w, zs, a):
        y = pto.exp(x * a) if w is None else pto.exp(x) * w
        return y + zs[0] * zs[1], pto.sum(y, -1)


@op("differentiate_product(Tensor x) -> Tensor")
class Product:
    grad = "automatic"

    def build(x):
        return pto.prod(x, -1)


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_an_operator_gets_its_gradient_from_its_build():

    smooth = torch.ops.pto.differentiate_smooth
    x, w, a, b = random(2, 3), random(3), random(2, 3), random(1, 3)
    assert torch.autograd.gradcheck(lambda x, w, a, b: smooth(x, w, [a, b]), (x, w, a, b))
    assert torch.autograd.gradgradcheck(lambda x, a, b: smooth(x, None, [a, b], a=0.5), (x, a, b))
    assert smooth(x, None, [a, b])[1].requires_grad


def test_an_operation_without_a_rule_is_named():
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="the derivative of prod is not known"):
        torch.ops.pto.differentiate_product(x).sum().backward()


def test_a_function_that_reads_at_positions_has_pytorchs_gradients():
    @pto.jit
    def chosen(x, rows):
        return pto.cumsum(x[rows] * 2, 1), pto.topk(x, 2).values

    x, rows = random(4, 3), torch.tensor([1, 1, 3])
    found = torch.autograd.grad([y.sum() for y in chosen(x, rows)], x)
    want = torch.autograd.grad([(x[rows] * 2).cumsum(1).sum(), x.topk(2).values.sum()], x)
    assert torch.equal(found[0], want[0])
