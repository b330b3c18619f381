# SPDX-License-Identifier: Apache-2.0
"""Operators of @op under torch.compile(backend="pto"): part of the program that stands around them,
with the values and gradients that they have in eager mode."""

import pytest
import torch

import pto
import pto.torch
from pto import f32

ops = torch.ops.pto


@pto.op('compiled_gate(Tensor x, Tensor y, *, float scale=2.0, str side="left") -> Tensor')
class CompiledGate:
    def build(x, y, scale, side):
        return pto.sigmoid(x) * y * scale if side == "left" else x * pto.sigmoid(y) * scale

    def grad(ctx, d_result):
        s, y, scale = pto.sigmoid(ctx.saved("x")), ctx.saved("y"), ctx.attribute("scale")
        if ctx.attribute("side") != "left":
            return {}
        return {"x": d_result * y * scale * s * (1 - s), "y": d_result * s * scale}

    tolerance = {f32: 1e-6}


@pto.op("compiled_halves(Tensor x) -> (Tensor, Tensor)")
class CompiledHalves:
    def build(x):
        return x * 0.5, pto.amax(x, -1, keepdim=True)


@pto.op("compiled_product(Tensor x, Tensor w) -> Tensor")
class CompiledProduct:
    constants = ("w",)

    def build(x, w):
        return pto.maximum(pto.matmul(x, w), 0)


@pto.jit
def compiled_shares(x, w: pto.Constant):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return pto.matmul(e / pto.sum(e, -1, keepdim=True), w)


def fresh(function):
    torch._dynamo.reset()
    return torch.compile(function, backend="pto")


def normalised(x, r, w, b):
    return torch.relu(ops.add_layer_norm(x * 2, r, w, b, 1e-5)) + 1


def gated(x, y):
    return ops.compiled_gate(x + 1, y.abs(), scale=3.0, side="right") * 2


def halved(x):
    half, most = ops.compiled_halves(x.exp())
    return half / most + 1


def shared(x, w):
    return compiled_shares(x * 2, w) + 1


CASES = {
    "a norm of the library": (normalised, [(6, 40), (6, 40), (40,), (40,)]),
    "an own one with attributes": (gated, [(6, 40), (40,)]),
    "an own one with two results": (halved, [(6, 40)]),
    "a jitted function": (shared, [(6, 40), (40, 24)]),
}


@pytest.mark.parametrize("case", CASES)
def test_an_operator_is_part_of_a_program(case):
    function, shapes = CASES[case]
    tensors = [torch.randn(shape) for shape in shapes]
    assert [step.kind for step in pto.torch.explain(function, *tensors).steps] == ["program"]
    compiled = fresh(function)
    for rows in (6, 1, 0, 9):
        given = [x if x.shape[0] != 6 else torch.randn(rows, x.shape[1]) for x in tensors]
        torch.testing.assert_close(compiled(*given), function(*given), rtol=1e-6, atol=1e-6)


def test_its_gradients_are_those_of_eager_mode():
    def gate(x, y):
        return (ops.compiled_gate(x.tanh(), y) ** 2).sum()

    eager = [torch.randn(5, 33, requires_grad=True) for _ in range(2)]
    compiled = [x.detach().clone().requires_grad_() for x in eager]
    gate(*eager).backward()
    fresh(gate)(*compiled).backward()
    for a, b in zip(eager, compiled, strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-5, atol=1e-6)


def test_a_kernel_in_cpp_stays_a_step_of_its_own():
    def layer(x, w):
        return torch.relu(ops.linear(x * 2, w)) + 1

    x, w = torch.randn(4, 24), torch.randn(8, 24)
    report = pto.torch.explain(layer, x, w)
    assert [step.kind for step in report.steps] == ["program", "operator", "program"]
    assert report.steps[1].why == "it is a kernel in C++"
    torch.testing.assert_close(fresh(layer)(x, w), layer(x, w), rtol=1e-6, atol=1e-6)


def test_its_constants_are_packed_where_they_are_weights():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(384, 512), requires_grad=False)

        def forward(self, x):
            return ops.compiled_product(x * 2, self.w) + 1

    layer, x = Layer().eval(), torch.randn(64, 384)
    compiled, before = fresh(layer), pto.memory()["packed_weights"]
    for _ in range(3):
        found = compiled(x)
    assert pto.memory()["packed_weights"] - before >= 384 * 512 * 4
    torch.testing.assert_close(found, torch.relu(2 * x @ layer.w) + 1, rtol=1e-4, atol=1e-4)


def test_a_namesake_in_aten_is_none_of_ours():
    [step] = pto.torch.explain(
        torch.nn.functional.silu, torch.randn(4, 3).to(torch.complex64)
    ).steps
    assert step.kind == "ATen"


def test_who_compiled_an_operator_keeps_it_when_it_is_defined_anew():
    def define(factor):
        @pto.op("compiled_again(Tensor x) -> Tensor")
        class Again:
            def build(x):
                return x * factor

    def function(x):
        return ops.compiled_again(x) + 1

    define(2)
    compiled = fresh(function)
    ones = torch.ones(3, 4)
    assert torch.equal(compiled(ones), ones * 3)
    define(5)
    assert torch.equal(function(ones), ones * 6)
    assert torch.equal(compiled(ones), ones * 3)
    assert torch.equal(fresh(function)(ones), ones * 6)
