# SPDX-License-Identifier: Apache-2.0
"""Gradients of linear layers with weights of 8 and 4 bits, by x, bias and residual: their bits are
those of the widened weight, which is a constant."""

import pytest
import torch
from test_quantized import EPS, TORCH, every_type, int4_layer, int8_layer, widened
from torch.nn import functional as F

from pto import _core

ACTIVATIONS = ["none", "relu", "silu", "gelu", "gelu_tanh"]


def gradients(layer, given, d):
    given = [one.clone().requires_grad_() for one in given]
    return torch.autograd.grad(layer(*given), given, d)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("size", [(3, 96, 40), (70, 256, 67), (300, 32, 9)], ids=str)
def test_gradients_have_the_bits_of_those_with_the_widened_weight(size, activation):
    """Where floats are multiplied in parts `linear` gives other bits: its sums of some thousand,
    which bytes make, differ by some thousandths, and with them the slope of an activation."""

    def agree(got, wanted):
        if _core.way_of_floats() == "multiply-adds of f32":
            return torch.equal(got, wanted)
        atol = (1e-5 if activation in ("none", "relu") else 2e-3) * float(wanted.abs().max())
        return torch.allclose(got, wanted, rtol=1e-5, atol=atol)

    x, w, _, b, r = int8_layer(*size)
    one, d = torch.ones(size[2]), torch.randn(size[0], size[2])
    wide = w.float()
    got = gradients(
        lambda *t: TORCH.linear_int8(t[0], w, one, *t[1:], activation=activation), (x, b, r), d
    )
    wanted = gradients(
        lambda *t: TORCH.linear(t[0], wide, *t[1:], activation=activation), (x, b, r), d
    )
    assert all(map(agree, got, wanted))
    x, w, scale, zero, b, r = int4_layer(*size, 32)
    for z in (None, zero):
        wide = widened(w, scale, z, 32)
        got = gradients(
            lambda *t, w=w, z=z, scale=scale: TORCH.linear_int4(
                t[0], w, scale, z, *t[1:], group=32, activation=activation
            ),
            (x, b, r),
            d,
        )
        wanted = gradients(
            lambda *t, wide=wide: TORCH.linear(t[0], wide, *t[1:], activation=activation),
            (x, b, r),
            d,
        )
        assert all(map(agree, got, wanted))


@every_type
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_are_those_of_the_formula_in_every_type(dtype, activation):
    act = {
        "none": lambda y: y, "relu": torch.relu, "silu": F.silu, "gelu": F.gelu,
        "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
    }[activation]  # fmt: skip
    x, w, scale, b, r = int8_layer(50, 96, 70, dtype)
    x.mul_(0.1)
    d = torch.randn(50, 70).to(dtype)
    got = gradients(
        lambda *t: TORCH.linear_int8(t[0], w, scale, *t[1:], activation=activation), (x, b, r), d
    )
    wide = [one.double() for one in (x, b, r)]
    weight = w.double() * scale.double()[:, None]
    wanted = gradients(lambda x, b, r: act(x @ weight.t() + b) + r, wide, d.double())
    for one, right in zip(got, wanted, strict=True):
        error = EPS[dtype] * right.abs().max()
        assert one.dtype == dtype and (one.double() - right).abs().max() <= 10 * error


def test_gradients_of_layers_with_batches_without_rows_and_on_two_threads():
    x, w, scale, b, _ = int8_layer(60, 64, 33)
    x, d = x.view(3, 20, 64), torch.randn(3, 20, 33)
    layer = lambda x, b: TORCH.linear_int8(x, w, scale, b, activation="silu")  # noqa: E731
    wanted = gradients(layer, (x, b), d)
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        got = gradients(layer, (turned, b), d.transpose(0, 1).contiguous().transpose(0, 1))
    finally:
        torch.set_num_threads(threads)
    assert all(map(torch.equal, got, wanted))
    (d_x,) = gradients(lambda x: TORCH.linear_int8(x, w, scale), (x[:, :0],), d[:, :0])
    assert d_x.shape == (3, 0, 64)
    (d_b,) = gradients(lambda b: TORCH.linear_int8(x[:, :0], w, scale, b), (b,), d[:, :0])
    assert torch.equal(d_b, torch.zeros(33))


def test_codes_and_scales_have_no_gradient_and_say_so():
    x, w, scale, _, _ = int8_layer(2, 32, 8)
    with pytest.raises(RuntimeError, match="linear_int8: tensor scale requires grad.*gradient by"):
        TORCH.linear_int8(x, w, scale.requires_grad_())
    x, w, scale, zero, _, _ = int4_layer(2, 32, 8, 32)
    for given in ((scale.clone().requires_grad_(), zero), (scale, zero.clone().requires_grad_())):
        with pytest.raises(RuntimeError, match="requires grad, but .* no gradient by it"):
            TORCH.linear_int4(x, w, *given, group=32)
    with pytest.raises(RuntimeError, match="floating point"):
        w.requires_grad_()  # PyTorch's own words: codes are integers
