# SPDX-License-Identifier: Apache-2.0
"""Products of floats by bytes, which count as numbers of the type of the floats."""

import pytest
import torch

import pto
import pto.torch  # noqa: F401 traced functions take tensors of PyTorch
from pto.errors import Error

FLOATS = [torch.float32, torch.bfloat16, torch.float16]


@pto.jit
def product(a, b):
    return pto.matmul(a, b, pto.f32)


@pto.jit
def by_columns(a, b):
    return pto.matmul(a, b, pto.f32, b_trans=True)


@pto.jit
def narrow(a, b):
    return pto.matmul(a, b)


def operands(dtype, left, right):
    torch.manual_seed(sum(left) + sum(right))
    b = torch.randint(-128, 128, right, dtype=torch.int8)
    return torch.randn(left).to(dtype), b


def assert_is_product(found, a, b):
    exact, absolute = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    bound = absolute * (a.shape[-1] + 2) * 2.0**-23
    assert ((found.double() - exact).abs() <= bound).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 5), (5, 1)), ((3, 7), (7, 1)), ((1, 64), (64, 33)), ((5, 0), (0, 3)), ((0, 4), (4, 3)),
        ((40, 65), (65, 48)), ((2, 4, 32), (2, 32, 16)), ((3, 2, 4, 16), (16, 9)),
    ],
)  # fmt: skip
def test_bytes_on_the_right_are_numbers_of_the_left(dtype, left, right):
    a, b = operands(dtype, left, right)
    assert_is_product(product(a, b), a, b)
    turned = b.mT.contiguous()
    assert torch.equal(by_columns(a, turned), product(a, b))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("rows", [1, 4, 16, 17])
def test_a_few_rows_by_bytes_of_one_of_several_heads(dtype, rows):
    for keys, width in ((1, 128), (5, 80), (128, 128), (300, 64), (33, 40)):
        q, cache = operands(dtype, (3, rows, width), (keys, 3, width))
        k = cache.transpose(0, 1)
        scores = by_columns(q, k)
        assert_is_product(scores, q, k.mT)
        assert torch.equal(scores, by_columns(q, k.contiguous()))
        weights = torch.randn(3, rows, keys).to(dtype)
        found = product(weights, k)
        assert_is_product(found, weights, k)
        assert torch.equal(found, product(weights, k.contiguous()))


def test_the_result_may_be_of_the_type_of_the_floats():
    a, b = operands(torch.bfloat16, (5, 40), (40, 24))
    assert narrow(a, b).dtype == torch.bfloat16
    torch.testing.assert_close(narrow(a, b), product(a, b).bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_interpreter_bounds_the_error(dtype):
    a, b = operands(torch.float32, (4, 9), (9, 6))
    report = pto.verify(product, a.numpy().astype(dtype), b.numpy())
    assert report.is_equal, report


def test_a_constant_of_bytes_is_read_as_it_lies():
    @pto.jit
    def by_weight(x, w: pto.Constant):
        return pto.matmul(x, w, pto.f32)

    a, b = operands(torch.bfloat16, (4, 64), (64, 48))
    for _ in range(3):
        assert torch.equal(by_weight(a, b), product(a, b))


def test_the_floats_have_a_gradient():
    @pto.op("product_by_bytes(Tensor x, Tensor w) -> Tensor")
    class ProductByBytes:
        """x times bytes."""

        types = "(f32, i8) -> f32"
        grad = "automatic"

        def build(x, w):
            return pto.matmul(x, w)

    a, b = operands(torch.float32, (3, 8), (8, 5))
    a.requires_grad_()
    torch.ops.pto.product_by_bytes(a, b).sum().backward()
    torch.testing.assert_close(a.grad, b.float().sum(1).expand(3, 8))


@pytest.mark.parametrize(
    ("left", "right"),
    [(torch.int8, torch.float32), (torch.float64, torch.int8), (torch.float32, torch.int16)],
    ids=str,
)
def test_other_types_do_not_mix(left, right):
    with pytest.raises(Error, match="different element types"):
        narrow(torch.ones(2, 3).to(left), torch.ones(3, 2).to(right))
