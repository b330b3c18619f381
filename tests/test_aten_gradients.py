# SPDX-License-Identifier: Apache-2.0
"""Rows of gradients against finite differences of their rows, in f64: gradcheck of each pair.

The forward and the backward operator both run in our slot; the deep run has every pair.
"""

import pytest
import torch
from torch.autograd.gradcheck import GradcheckError

import pto.aten


def ours(name, *args):
    name, _, variant = name.partition(".")
    return pto.aten.family(name).overloads[variant or "default"](*args, slot=0)


# The forward call, and the gradient from that of the result, the argument and the result.
PAIRS = {
    "threshold": (lambda x: ours("threshold", x, 0.3, -1.0),
                  lambda d, x, y: ours("threshold_backward", d, x, 0.3)),
    "hardtanh": (lambda x: ours("hardtanh", x, -1.1, 0.9),
                 lambda d, x, y: ours("hardtanh_backward", d, x, -1.1, 0.9)),
    "hardshrink": (lambda x: ours("hardshrink", x, 0.4),
                   lambda d, x, y: ours("hardshrink_backward", d, x, 0.4)),
    "softshrink": (lambda x: ours("softshrink", x, 0.4),
                   lambda d, x, y: ours("softshrink_backward", d, x, 0.4)),
    "sigmoid": (lambda x: ours("sigmoid", x), lambda d, x, y: ours("sigmoid_backward", d, y)),
    "tanh": (lambda x: ours("tanh", x), lambda d, x, y: ours("tanh_backward", d, y)),
    "gelu": (lambda x: ours("gelu", x), lambda d, x, y: ours("gelu_backward", d, x)),
    "silu": (lambda x: ours("silu", x), lambda d, x, y: ours("silu_backward", d, x)),
    "mish": (lambda x: ours("mish", x), lambda d, x, y: ours("mish_backward", d, x)),
    "elu": (lambda x: ours("elu", x, 1.3, 1.1, 0.9),
            lambda d, x, y: ours("elu_backward", d, 1.3, 1.1, 0.9, False, x)),
    "elu of a negative scale": (
        lambda x: ours("elu", x, -2.0, 1.1, -0.5),
        lambda d, x, y: ours("elu_backward", d, -2.0, 1.1, -0.5, False, x)),
    "elu by its result": (lambda x: ours("elu", x, 1.3),
                          lambda d, x, y: ours("elu_backward", d, 1.3, 1, 1, True, y)),
    "leaky_relu": (lambda x: ours("leaky_relu", x, 0.2),
                   lambda d, x, y: ours("leaky_relu_backward", d, x, 0.2, False)),
    "hardswish": (lambda x: ours("hardswish", x),
                  lambda d, x, y: ours("hardswish_backward", d, x)),
    "softplus": (lambda x: ours("softplus", x, 1.5, 20),
                 lambda d, x, y: ours("softplus_backward", d, x, 1.5, 20)),
    "log_sigmoid": (lambda x: ours("log_sigmoid", x),
                    lambda d, x, y: ours("log_sigmoid_backward", d, x, torch.exp(-x.abs()))),
    "softmax": (lambda x: ours("_softmax", x, 1, False),
                lambda d, x, y: ours("_softmax_backward_data", d, y, 1, torch.float64)),
    "log_softmax": (lambda x: ours("_log_softmax", x, 0, False),
                    lambda d, x, y: ours("_log_softmax_backward_data", d, y, 0, torch.float64)),
    "mse_loss": (lambda x: ours("mse_loss", x, torch.ones_like(x), 1),
                 lambda d, x, y: ours("mse_loss_backward", d, x, torch.ones_like(x), 1)),
    "huber_loss": (lambda x: ours("huber_loss", x, torch.ones_like(x), 1, 0.7),
                   lambda d, x, y: ours("huber_loss_backward", d, x, torch.ones_like(x), 1, 0.7)),
    "smooth_l1_loss": (lambda x: ours("smooth_l1_loss", x, torch.ones_like(x), 2, 0.7),
                       lambda d, x, y: ours("smooth_l1_loss_backward", d, x, torch.ones_like(x),
                                            2, 0.7)),
    "soft_margin_loss": (lambda x: ours("soft_margin_loss", x, torch.ones_like(x), 1),
                         lambda d, x, y: ours("soft_margin_loss_backward", d, x,
                                              torch.ones_like(x), 1)),
    "binary_cross_entropy": (
        lambda x: ours("binary_cross_entropy", share(x), half(x), half(x)[0], 1),
        lambda d, x, y: slope(x) * ours("binary_cross_entropy_backward", d, share(x), half(x),
                                        half(x)[0], 1)),
    "logit": (lambda x: ours("logit", share(x), 0.01),
              lambda d, x, y: slope(x) * ours("logit_backward", d, share(x), 0.01)),
    "glu": (lambda x: ours("glu", torch.cat([x, x], 1), 1),
            lambda d, x, y: sum(ours("glu_backward", d, torch.cat([x, x], 1), 1).chunk(2, 1))),
    "log_sigmoid_forward": (
        lambda x: ours("log_sigmoid_forward", x)[0],
        lambda d, x, y: ours("log_sigmoid_backward", d, x, ours("log_sigmoid_forward", x)[1])),
    "reflection_pad1d": (lambda x: ours("reflection_pad1d", x, [2, 1]),
                         lambda d, x, y: ours("reflection_pad1d_backward", d, x, [2, 1])),
    "replication_pad1d": (lambda x: ours("replication_pad1d", x, [2, 1]),
                          lambda d, x, y: ours("replication_pad1d_backward", d, x, [2, 1])),
    "reflection_pad3d": (lambda x: ours("reflection_pad3d", cube(x), [1] * 6),
                         lambda d, x, y: flat(ours("reflection_pad3d_backward", d, cube(x),
                                                   [1] * 6))),
    "replication_pad3d": (lambda x: ours("replication_pad3d", cube(x), [1, 2] * 3),
                          lambda d, x, y: flat(ours("replication_pad3d_backward", d, cube(x),
                                                    [1, 2] * 3))),
}  # fmt: skip


def share(x):
    """Numbers from 0 to 1 whose slope is slope(x)."""
    return torch.sigmoid(x)


def slope(x):
    return share(x) * (1 - share(x))


def half(x):
    return torch.full_like(x, 0.4)


def cube(x):
    """A tensor of 5 axes with the elements of x more than once."""
    return torch.stack([torch.stack([x, 2 * x]), torch.stack([3 * x, x])])[None]


def flat(d):
    """The gradient of x from that of cube(x)."""
    return d[0, 0, 0] + 2 * d[0, 0, 1] + 3 * d[0, 1, 0] + d[0, 1, 1]


def of(pair):
    """The pair as a function of PyTorch's autograd."""
    forward, backward = PAIRS[pair]

    class Ours(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = forward(x.detach())
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, d):
            return backward(d.contiguous(), *(t.detach() for t in ctx.saved_tensors))

    return Ours.apply


@pytest.mark.parametrize("pair", PAIRS)
def test_a_row_of_a_gradient_is_that_of_its_row(pair, deep):
    if not deep and list(PAIRS).index(pair) % 4:
        pytest.skip("in ./dev test --deep")
    generator = torch.Generator().manual_seed(7)
    for shape in ((3, 4), (2, 5)):
        x = torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)
        assert torch.autograd.gradcheck(of(pair), (x,))


def test_a_wrong_gradient_fails(monkeypatch):
    forward, backward = PAIRS["tanh"]
    monkeypatch.setitem(PAIRS, "tanh", (forward, lambda d, x, y: backward(d, x, x)))
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    with pytest.raises(GradcheckError):
        torch.autograd.gradcheck(of("tanh"), (x,))


def test_the_gradients_of_layer_norm_are_those_of_its_row():
    x, w, b = (torch.randn(*n, dtype=torch.float64) for n in ((4, 6), (6,), (6,)))
    d = torch.randn(4, 6, dtype=torch.float64)
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    torch.nn.functional.layer_norm(leaves[0], [6], leaves[1], leaves[2], 1e-5).backward(d)
    _, mean, inverse = ours("native_layer_norm", x, [6], w, b, 1e-5)
    made = ours("native_layer_norm_backward", d, x, [6], mean, inverse, w, b, [True] * 3)
    for one, leaf in zip(made, leaves, strict=True):
        assert torch.allclose(one, leaf.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("training", [True, False])
def test_the_gradients_of_batch_norm_are_those_of_its_row(training):
    x, w, b = (torch.randn(*n, dtype=torch.float64) for n in ((4, 3, 5), (3,), (3,)))
    mean, variance = torch.randn(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64) + 1
    kept = [None, None] if training else [mean, variance]
    d = torch.randn(4, 3, 5, dtype=torch.float64)
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    torch.nn.functional.batch_norm(leaves[0], *kept, leaves[1], leaves[2], training).backward(d)
    _, *saved = ours("native_batch_norm", x, w, b, *kept, training, 0.1, 1e-5)
    made = ours("native_batch_norm_backward", d, x, w, *kept, *saved, training, 1e-5, [True] * 3)
    for one, leaf in zip(made, leaves, strict=True):
        assert torch.allclose(one, leaf.grad, rtol=1e-12, atol=1e-12)


def test_the_gradients_of_group_norm_are_those_of_its_row():
    x, w, b = (torch.randn(*n, dtype=torch.float64) for n in ((4, 6, 5), (6,), (6,)))
    d = torch.randn(4, 6, 5, dtype=torch.float64)
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    torch.nn.functional.group_norm(leaves[0], 2, leaves[1], leaves[2]).backward(d)
    _, mean, inverse = ours("native_group_norm", x, w, b, 4, 6, 5, 2, 1e-5)
    made = ours("native_group_norm_backward", d, x, mean, inverse, w, 4, 6, 5, 2, [True] * 3)
    for one, leaf in zip(made, leaves, strict=True):
        assert torch.allclose(one, leaf.grad, rtol=1e-12, atol=1e-12)


def test_a_result_of_elu_that_may_fall_is_the_error_of_aten():
    x = torch.linspace(-2, 2, 64)
    with pytest.raises(RuntimeError, match="negative slope"):
        pto.aten.elu_backward(x, -1.0, 1, 1, True, x)
    with pytest.raises(pto.Error, match="does not tell the sign"):
        ours("elu_backward", x, -1.0, 1, 1, True, x)
