# SPDX-License-Identifier: Apache-2.0
"""Cases for tests over all operators of the library: arguments made from the schema."""

import torch
from shaped_operators import OPERATORS, shapes

import pto.torch  # noqa: F401

__all__ = ["OPERATORS", "assert_agrees", "attributes", "tensors", "tolerance", "torch_operator"]

# Values of str attributes.
TEXTS = {"activation": ["none", "gelu"], "approximate": ["none", "tanh"], "layout": ["HLD"]}
TOLERANCE = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16"}
TOLERANCE[torch.bfloat16] = "bf16"


def tensors(operator, shape=(5, 13), dtype=torch.float32, requires_grad=False):
    """Random tensor arguments for an input of this shape."""
    return [
        torch.randn(size, dtype=torch.float64).to(dtype).requires_grad_(requires_grad)
        for size in shapes(operator, shape)
    ]


def attributes(operator):
    """One dict of keyword arguments for each value of a str attribute; {} without such."""
    names = [a.name for a in operator.attributes if a.kind == "str"]
    return [{names[0]: value} for value in TEXTS[names[0]]] if names else [{}]


def torch_operator(operator):
    return getattr(torch.ops.pto, operator.name).default


def tolerance(operator, dtype):
    by_name = {str(kind): value for kind, value in operator.member("tolerance").items()}
    return by_name[TOLERANCE[dtype]]


def assert_agrees(operator, got, arguments, keywords):
    """The result is the oracle's, evaluated in double on the same inputs."""
    want = operator.member("oracle")(*(a.detach().double().numpy() for a in arguments), **keywords)
    assert got.dtype == arguments[0].dtype
    allowed = tolerance(operator, got.dtype)
    torch.testing.assert_close(
        got.double(), torch.as_tensor(want), rtol=allowed, atol=allowed, equal_nan=True
    )
