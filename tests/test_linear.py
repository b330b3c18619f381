# SPDX-License-Identifier: Apache-2.0
"""Linear layers with what follows them in the same pass, and their gradients."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import pto.torch  # noqa: F401 registers torch.ops.pto
from pto import ops
from pto.errors import Error
from pto.ops.linear import MatMulPacked, PackWeight

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
# Rows, inputs, outputs: one, less and more than a vector, several strips of a packed weight.
SIZES = [(1, 1, 1), (3, 7, 19), (16, 384, 1536), (97, 521, 769), (0, 4, 3), (4, 0, 3), (5, 6, 0)]


def linear(*args, **kwargs):
    return torch.ops.pto.linear(*args, **kwargs)


def layer(m, k, n, dtype=torch.float32):
    torch.manual_seed(m * k + n)
    return [torch.randn(size).to(dtype) for size in ((m, k), (n, k), (n,), (m, n))]


def reference(x, w, b, r, activation):
    y = ACTIVATIONS[activation](F.linear(x.double(), w.double(), None if b is None else b.double()))
    return y if r is None else y + r.double()


def assert_near(got, want, depth):
    eps = {torch.float64: 1e-15, torch.float32: 1e-7, torch.float16: 1e-3, torch.bfloat16: 8e-3}
    tolerance = eps[got.dtype] * (4 + 3 * depth**0.5 if got.dtype.itemsize > 2 else 4)
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=8 * tolerance)


@every_activation
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_layer_is_its_product_then_bias_activation_and_residual(size, activation):
    x, w, b, r = layer(*size)
    for bias, residual in ((b, None), (None, r), (b, r), (None, None)):
        got = linear(x, w, bias, residual, activation=activation)
        assert_near(got, reference(x, w, bias, residual, activation), size[1])


@every_activation
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_every_type_is_computed_wide_and_rounded_once(dtype, activation):
    for size in [(5, 13, 7), (100, 60, 800)]:
        x, w, b, r = layer(*size, dtype)
        got = linear(x, w, b, r, activation=activation)
        assert got.dtype == dtype
        assert_near(got, reference(x, w, b, r, activation), size[1])


@pytest.mark.parametrize("size", [*SIZES, (200, 1030, 40)], ids=str)
def test_a_packed_weight_gives_the_same_bits(size):
    x, w, b, r = layer(*size)
    for weight in (w, w.t().contiguous().t(), torch.stack([w, w], 2)[:, :, 0]):
        packed = torch.from_numpy(PackWeight(weight.numpy()))
        for activation in ("none", "gelu"):
            plain = linear(x, weight, b, r, activation=activation)
            got = linear(x, weight, b, r, packed=packed, activation=activation)
            assert torch.equal(got, plain)
    assert torch.equal(linear(x, w), torch.ops.pto.matmul(x, w, transpose_b=True))


def test_a_row_has_the_bits_that_it_has_alone_and_on_any_number_of_threads():
    x, w, b, r = layer(300, 300, 900)
    threads = torch.get_num_threads()
    packed = torch.from_numpy(PackWeight(w.numpy()))
    whole = linear(x, w, b, r, activation="gelu")
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            for rows in (slice(0, 1), slice(3, 9), slice(7, 107)):
                for own in (None, packed):
                    part = linear(x[rows], w, b, r[rows], packed=own, activation="gelu")
                    assert torch.equal(part, whole[rows])
    finally:
        torch.set_num_threads(threads)


def test_layouts_do_not_matter():
    x, w, b, r = layer(24, 12, 20)
    want = linear(x, w, b, r, activation="silu")
    wide = torch.randn(2, 3, 9, 30)
    view = wide[:, :, 1::2, 3:27:2]
    view.copy_(x.view(2, 3, 4, 12))
    others = torch.randn(40, 2)
    others[::2, 1] = b
    residual = r.t().contiguous().t().view(2, 3, 4, 20)
    got = linear(view, w.t().contiguous().t(), others[::2, 1], residual, activation="silu")
    assert torch.equal(got.view(24, 20), want)
    turned = x.view(4, 6, 12).transpose(0, 1)
    got = linear(turned, w, b, r.view(4, 6, 20).transpose(0, 1), activation="silu")
    assert torch.equal(got.transpose(0, 1).reshape(24, 20), want)
    assert torch.equal(linear(x[0], w, b, r[0], activation="silu"), want[0])
    assert torch.equal(
        linear(x, w, b, r[0].expand(24, 20)), linear(x, w, b, r[0].expand(24, 20).contiguous())
    )


@every_activation
@pytest.mark.parametrize("has_more", [True, False])
def test_gradients_are_those_of_pytorch(activation, has_more):
    x, w, b, r = layer(6, 5, 7, torch.float64)
    given = [x.view(2, 3, 5), w, *((b, r.view(2, 3, 7)) if has_more else ())]
    given = [t.clone().requires_grad_() for t in given]
    d = torch.randn(2, 3, 7, dtype=torch.float64)
    linear(*given, activation=activation).backward(d)
    got = [t.grad for t in given]
    for t in given:
        t.grad = None
    y = ACTIVATIONS[activation](F.linear(given[0], given[1], given[2] if has_more else None))
    (y + given[3] if has_more else y).backward(d)
    for one, t in zip(got, given, strict=True):
        torch.testing.assert_close(one, t.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_gradients_sum_over_many_rows(dtype):
    given = [t.requires_grad_() for t in layer(1500, 70, 100, dtype)]
    linear(*given, activation="gelu").backward(given[3].detach())
    wide = [t.detach().double().requires_grad_() for t in given]
    reference(*wide, "gelu").backward(wide[3].detach())
    for one, other in zip(given, wide, strict=True):
        scale = other.grad.abs().max().item()
        eps = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=eps, atol=eps * scale)


def test_only_the_gradients_that_are_asked_for_are_computed():
    x, w, b, r = layer(6, 5, 7)
    for chosen in (x, w, b, r):
        given = [t.clone().requires_grad_(t is chosen) for t in (x, w, b, r)]
        linear(*given, activation="silu").sum().backward()
        assert [t.grad is not None for t in given] == [t is chosen for t in (x, w, b, r)]


def test_a_layer_is_traced_by_torch_compile():
    x, w, b, r = layer(9, 8, 7)
    fast = torch.compile(lambda *t: linear(*t, activation="gelu") * 2, fullgraph=True)
    torch.testing.assert_close(fast(x, w, b, r), linear(x, w, b, r, activation="gelu") * 2)


def test_numpy_arrays_are_taken_too():
    x, w, b, r = layer(9, 8, 7)
    got = ops.linear(x.numpy(), w.numpy(), b.numpy(), r.numpy(), activation="relu")
    np.testing.assert_array_equal(got, linear(x, w, b, r, activation="relu").numpy())


@pytest.mark.parametrize(
    "change, message",
    [
        ({"x": (4, 6)}, "linear: sizes 6 and 5 differ in x and weight"),
        ({"weight": (7, 5, 1)}, "linear: weight has 3 axes"),
        ({"bias": (6,)}, "linear: sizes 6 and 7 differ in bias and weight"),
        ({"residual": (4, 6)}, "linear: sizes 6 and 7 differ in residual"),
        ({"x": ()}, "linear: x has no axes"),
        ({"activation": "tanh"}, "linear: activation is 'tanh'"),
        ({"packed": (99,)}, "the packed matrix has another number of rows or columns"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    sizes = {"x": (4, 5), "weight": (7, 5), "bias": (7,), "residual": (4, 7)} | change
    given = {k: v if isinstance(v, str) else np.zeros(v, "f4") for k, v in sizes.items()}
    with pytest.raises(Error, match=message) as raised:
        ops.linear(**given)
    assert raised.value.why and raised.value.fix


@pytest.mark.parametrize("rows", [1, 3])
def test_threads_share_a_few_rows_as_the_weight_is_large(rows):
    """Their time is that of reading the weight, which grows with it and not with the rows."""
    x, small, large = np.zeros((rows, 512)), np.zeros((64, 512)), np.zeros((2048, 512))
    more = (None, None, None, "none")
    for weight in (small, large):
        bytes_read = weight.size * 2  # of bf16
        assert ops.linear.definition.work(x, weight, *more)[1] >= bytes_read
        assert ops.matmul.definition.work(x, weight.T, False, False)[1] >= bytes_read
        packed = np.zeros(weight.size)
        assert MatMulPacked.definition.work(x, packed, len(weight))[1] >= bytes_read
