# SPDX-License-Identifier: Apache-2.0
"""Unit tests of the extension, as its user writes them: python -m pytest test_my_ops.py"""

import my_ops
import pytest
import torch

DEVICES = ["cpu", *(["npu"] if hasattr(torch, "npu") else [])]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 1025)])
def test_add_is_addition(device: str, shape: tuple[int, ...]) -> None:
    x, y = torch.randn(shape, device=device), torch.randn(shape, device=device)
    assert torch.equal(my_ops.my_add(x, y), x + y)


def test_relu_in_place_returns_its_argument(device: str) -> None:
    x = torch.randn(3, 4, device=device)
    want = torch.relu(x)
    assert my_ops.my_relu_(x) is x and torch.equal(x, want)


def test_the_parts_of_a_split_are_the_whole(device: str) -> None:
    x = torch.randn(6, 4, device=device)
    assert torch.equal(torch.cat(my_ops.my_split(x, 3)), x)


def test_gradients_flow_through_a_convolution(device: str) -> None:
    x = torch.randn(1, 2, 5, 5, device=device, requires_grad=True)  # a leaf, made on the device
    weight = torch.randn(3, 2, 3, 3, device=device, requires_grad=True)
    my_ops.my_conv(x, weight, padding=1).square().sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape
    assert weight.grad is not None and weight.grad.abs().sum() > 0
