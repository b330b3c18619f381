# SPDX-License-Identifier: Apache-2.0
"""Memory of tensors of PyTorch: misaligned arguments, results that get other memory."""

import pytest
import torch
from torch.nn import functional as F

import pto
import pto.aten
import pto.torch


def misaligned(x):
    """The same elements behind an odd address."""
    made = torch.frombuffer(bytearray(x.nbytes + 8), dtype=x.dtype, count=x.numel(), offset=1)
    return made.view(x.shape).copy_(x)


@pto.jit
def put(x, values):
    x[2:4] = values
    return x * 2


def scaled(x, values):
    x.mul_(2)
    x[2:4] = values
    return torch.sigmoid(x) + x.sum()


CALLS = {
    "compiled": torch.compile(scaled, backend="pto"),
    "strided": torch.compile(lambda x, v: torch.tanh(x[::2]) * v[-1] + x.flip(0)[:4],
                             backend="pto"),
    "jitted": put,
    "operator": lambda x, v: torch.ops.pto.gelu(x),
    "operator with gaps": lambda x, v: torch.ops.pto.gelu(x[::2]),
    "operator in place": lambda x, v: torch.ops.pto.relu_(x),
    "operator in place with gaps": lambda x, v: torch.ops.pto.relu_(x[::2]),
    "operator with out": lambda x, v: torch.ops.pto.gelu.out(x + 1, out=x),
    "product": lambda x, v: torch.ops.pto.linear(x.view(4, 2), v.view(1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_misaligned_tensors_are_read_and_written_as_others_are(name, dtype, seed=7):
    generator = torch.Generator().manual_seed(seed)
    x, v = (torch.randn(n, generator=generator).to(dtype) for n in (8, 2))
    odd_x, odd_v = misaligned(x), misaligned(v)
    want, got = CALLS[name](x, v), CALLS[name](odd_x, odd_v)
    assert torch.equal(got, want) and torch.equal(odd_x, x) and torch.equal(odd_v, v)


def test_a_misaligned_weight_keeps_its_gradient():
    w = misaligned(torch.randn(3, 4)).requires_grad_()
    x = misaligned(torch.randn(2, 4))
    torch.compile(F.linear, backend="pto")(x, w).square().sum().backward()
    (want,) = torch.autograd.grad(F.linear(x, w).square().sum(), w)
    torch.testing.assert_close(w.grad, want)


class Named(torch.Tensor):
    """A class of a user's that sees the functions that PyTorch calls."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


def test_a_compiled_graph_takes_tensors_of_a_class_that_sees_functions():
    x = torch.randn(3, 4)
    y = torch.compile(lambda x: x * 2 + 1, backend="pto")(x.as_subclass(Named))
    assert type(y) is Named and torch.equal(y.as_subclass(torch.Tensor), x * 2 + 1)


RESULTS = {
    "operator": torch.ops.pto.gelu,
    "jitted": pto.jit(lambda x: x * 2),
    "compiled": torch.compile(lambda x: torch.sigmoid(x) * 2, backend="pto"),
    "row": lambda x: pto.aten.exp(x, slot=0),
}


@pytest.mark.parametrize("elements", [4, 1 << 18])
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_gets_other_memory_as_one_of_pytorchs_does(name, elements):
    x = torch.randn(elements)
    made, kept = RESULTS[name](x), RESULTS[name](x)
    made.resize_(2 * elements)
    assert torch.equal(made[:elements], kept)
    torch.add(x[:3], 1, out=made.resize_(0))
    assert torch.equal(made, x[:3] + 1)
    kept.untyped_storage().resize_(0)
    assert kept.untyped_storage().nbytes() == 0
