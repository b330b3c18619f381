# SPDX-License-Identifier: Apache-2.0
"""Operators of @op under torch.compile(backend="pto"): part of the program that stands around them,
with the values and gradients that they have in eager mode."""

import gc
import pickle
import re

import pytest
import torch
from compile_cases import assert_same, below_dynamo, run

import pto
import pto.torch
from pto import f32
from pto.adapters import build
from pto.adapters.torch.build import DIRECT

needs_torch_owners = pytest.mark.skipif(
    build.built(DIRECT) is None, reason="python -m pto adapters build torch"
)
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
    grad = "automatic"

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


@pytest.mark.parametrize("symbolic", [False, True], ids=["numbers", "symbols"])
def test_a_view_of_its_results_is_one_call(symbolic):
    def parts(x, w):
        heads = ops.linear(x, w).unflatten(-1, (3, 2, 4))
        q, k, v = (part.squeeze(-3) for part in heads.split(1, -3))
        numbers, scale = ops.quantize_rows(x)
        return (
            q.transpose(0, 1),
            k[1:, :, ::2],
            v.flatten(1),
            numbers.t()[1:],
            scale[2:].expand(3, -1),
        )

    x, w = torch.randn(5, 16), torch.randn(24, 16)
    graph = below_dynamo(parts, x, w, symbolic=symbolic)
    assert_same(run(graph, x, w), parts(x, w))
    called = [graph.replay.space[name] for name in re.findall(r"(k\d+)\(", graph.replay.source)]
    assert called == [ops.linear.default, ops.quantize_rows.default]
    assert graph.replay.source.count(".as_strided(") == 5 and ".view(" not in graph.replay.source


def test_a_view_that_our_operators_only_read_is_made_directly():
    def attended(x, w):
        q, k, v = ops.linear(x, w).unflatten(-1, (3, 2, 4)).unbind(-3)
        return ops.attention(q, k, v, layout="LHD"), k

    x, w = torch.randn(2, 5, 16), torch.randn(24, 16)
    graph = below_dynamo(attended, x, w)
    assert_same(run(graph, x, w), attended(x, w))
    assert graph.replay.source.count(" strided_view(") == 2  # q and v; the caller gets k
    assert graph.replay.source.count(".as_strided(") == 1


@pto.jit
def compiled_rows(x, d_w: pto.Constant):  # the schema calls d_w otherwise
    return pto.maximum(pto.matmul(x, d_w), 0)


class Layer(torch.nn.Module):
    def __init__(self, product):
        super().__init__()
        self.product = product
        self.w = torch.nn.Parameter(torch.randn(384, 512), requires_grad=False)

    def forward(self, x):
        return self.product(x * 2, self.w) + 1

    def exactly(self, x):
        return torch.relu(2 * x @ self.w) + 1


@needs_torch_owners
@pytest.mark.parametrize("product", [ops.compiled_product, compiled_rows], ids=["op", "jit"])
def test_its_constants_are_packed_where_they_are_weights(product):
    layer, x = Layer(product).eval(), torch.randn(64, 384)
    compiled, before = fresh(layer), pto.memory()["packed_weights"]
    for _ in range(3):
        found = compiled(x)
    assert pto.memory()["packed_weights"] - before >= layer.w.nbytes
    torch.testing.assert_close(found, layer.exactly(x), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        layer.w.mul_(2)
    torch.testing.assert_close(compiled(x), layer.exactly(x), rtol=1e-4, atol=1e-4)
    layer.w.data[3, 5] = 1e6  # past PyTorch's counting
    pto.repack(layer.w)
    torch.testing.assert_close(compiled(x), layer.exactly(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("product", [ops.compiled_product, compiled_rows], ids=["op", "jit"])
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_a_constant_may_require_a_gradient(product, is_compiled):
    layer, x = Layer(product).requires_grad_(True), torch.randn(64, 384)
    run = fresh(layer) if is_compiled else layer
    for factor in (1, 1, 0.5, 2):  # the second call may pack it
        with torch.no_grad():
            layer.w.mul_(factor)
        found, right = (torch.autograd.grad(f(x).square().mean(), layer.w)[0]
                        for f in (run, layer.exactly))  # fmt: skip
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)


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


class Bytes(torch.nn.Module):
    """Products by weights of bytes, one of which the model writes."""

    def __init__(self):
        super().__init__()
        for name in ("kept", "written"):
            numbers, scale = ops.quantize_rows(torch.randn(96, 64))
            self.register_buffer(name, numbers)
            self.register_buffer(f"{name}_scale", scale)

    def forward(self, x):
        self.written[0] += 1
        y = ops.linear_int8(x, self.kept, self.kept_scale)
        return y + ops.linear_int8(x, weight=self.written, scale=self.written_scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_weights_of_every_type_are_packaged(dtype, tmp_path):
    weight, x = torch.randn(24, 16).to(dtype), torch.randn(5, 16).to(dtype)
    layer = torch.nn.Linear(16, 24, dtype=dtype, bias=False)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.forward = lambda x: ops.linear(x, layer.weight, activation="gelu")
    pto.torch.package(torch.export.export(layer, (x,)), tmp_path / "m.pto")
    assert torch.equal(pto.load(tmp_path / "m.pto")(x), layer(x))


def test_a_packaged_model_gives_its_operators_constant_weights_packed(tmp_path):
    model, x = Bytes(), torch.randn(5, 64)
    pto.torch.package(torch.export.export(model, (x,)), tmp_path / "m.pto")
    calls = (x, x + 1, x)
    wanted = [model(one) for one in calls]
    loaded, before = pto.load(tmp_path / "m.pto"), pto.memory()["packed_weights"]
    for one, right in zip(calls, wanted, strict=True):
        assert torch.equal(loaded(one), right)
    assert 96 * 64 <= pto.memory()["packed_weights"] - before < 2 * 96 * 64  # of one
    again = pickle.loads(pickle.dumps(loaded))
    assert torch.equal(again(x), model(x))
    del loaded, again
    gc.collect()
    assert pto.memory()["packed_weights"] <= before
