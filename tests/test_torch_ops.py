# SPDX-License-Identifier: Apache-2.0
"""Operators inside PyTorch: gradients, fake tensors, compile, export, threads, memory.

PyTorch's own checks of every operator stand in test_torch_checks.py.
"""

import gc
import threading

import pytest
import torch
from operator_cases import OPERATORS, tensors, torch_operator

import pto
from pto import _core
from pto.adapters.record import Record
from pto.adapters.torch import autograd, has_cpp_gradients
from pto.language.op import op

every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


BROADCASTS = {"add": [(3, 1), ()], "silu_mul": [(5,), (3, 1), ()], "bias_gelu": [(5,)]}


@pytest.mark.parametrize("name", BROADCASTS)
def test_the_gradient_of_a_broadcast_argument_has_its_shape(name):
    x = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    for shape in BROADCASTS[name]:
        y = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(torch_operator(OPERATORS[name]), (x, y))


@every_operator
def test_half_gradients_follow_those_of_double(operator):
    exact = tensors(operator, (6, 32), torch.float64, requires_grad=True)
    half = [x.detach().to(torch.bfloat16).requires_grad_() for x in exact]
    exact = [x.detach().double().requires_grad_() for x in half]
    d_result = torch.randn(6, 32).to(torch.bfloat16)
    torch_operator(operator)(*half).backward(d_result)
    torch_operator(operator)(*exact).backward(d_result.double())
    for a, b in zip(half, exact, strict=True):
        torch.testing.assert_close(a.grad.double(), b.grad, rtol=0.05, atol=0.1)


def test_only_the_gradients_that_are_needed_are_computed():
    x, weight, bias = tensors(OPERATORS["layer_norm"])
    weight.requires_grad_()
    torch.ops.pto.layer_norm(x, weight, bias).sum().backward()
    assert weight.grad is not None and x.grad is None
    with torch.no_grad():
        d_x, d_weight, d_bias = torch.ops.pto.layer_norm_backward(x, x, weight, bias, needs=2)
    assert d_x.numel() == d_bias.numel() == 0 and d_weight.shape == weight.shape


def test_a_third_derivative_is_refused():
    x = torch.randn(3, requires_grad=True)
    (d,) = torch.autograd.grad(torch.ops.pto.silu(x).sum(), x, create_graph=True)
    (d,) = torch.autograd.grad(d.sum(), x, create_graph=True)
    with pytest.raises(Exception, match="silu_backward_backward: (a )?tensor .*requires grad"):
        d.sum().backward()


@pytest.mark.skipif(not has_cpp_gradients(), reason="PyTorch: no functorch for Python gradients")
def test_functional_gradients_work():
    x = torch.randn(3, 4)
    want = torch.autograd.functional.jacobian(lambda x: torch.nn.functional.gelu(x).sum(), x)
    got = torch.func.grad(lambda x: torch.ops.pto.gelu(x).sum())(x)
    torch.testing.assert_close(got, want)


def test_gradients_through_python_are_the_same():
    """The route without the C++ part, through a second namespace of PyTorch."""
    if not has_cpp_gradients():
        pytest.skip("gradients go through Python here, so all other tests test them")
    record = Record(next(i for i in range(_core.operator_count())
                         if _core.operator_record(i)["name"] == "bias_add_layer_norm"))  # fmt: skip
    rules = autograd._Rules(record)

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(*args):
            return torch.ops.pto.bias_add_layer_norm(*args)

        setup_context = staticmethod(lambda ctx, inputs, output: rules.setup(ctx, inputs, output))
        backward = staticmethod(rules.backward)

    arguments = tensors(OPERATORS["bias_add_layer_norm"], (4, 6), requires_grad=True)
    d_result = torch.randn(4, 6)
    want = torch.autograd.grad(torch.ops.pto.bias_add_layer_norm(*arguments), arguments, d_result)
    got = torch.autograd.grad(Function.apply(*arguments), arguments, d_result)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)


def test_fake_tensors_have_the_shapes_and_types_of_real_ones():
    from torch._subclasses.fake_tensor import FakeTensorMode

    for operator in OPERATORS.values():
        for shape, dtype in [((4, 6), torch.float32), ((1, 3, 1), torch.bfloat16), ((0, 2), None)]:
            real = tensors(operator, shape, dtype or torch.float64)
            with FakeTensorMode() as mode:
                fake = torch_operator(operator)(*(mode.from_tensor(x) for x in real))
            want = torch_operator(operator)(*real)
            assert (fake.shape, fake.dtype) == (want.shape, want.dtype)
            assert fake.stride() == want.stride()


def test_meta_tensors_give_meta_tensors():
    y = torch.ops.pto.gelu(torch.empty(3, 4, device="meta"))
    assert y.device.type == "meta" and y.shape == (3, 4)


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        y = torch.ops.pto.bias_gelu(torch.mm(x, self.linear.weight), self.linear.bias)
        return torch.ops.pto.add_layer_norm(y, x, self.norm.weight, self.norm.bias, 1e-5)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_model_compiles_whole_with_its_gradient_and_any_batch(backend):
    torch._dynamo.reset()
    block = Block(16)
    compiled = torch.compile(block, fullgraph=True, dynamic=True, backend=backend)
    for rows in (5, 9):
        x = torch.randn(rows, 16, requires_grad=True)
        parameters = [x, *block.parameters()]
        want = torch.autograd.grad(block(x).square().sum(), parameters)
        got = torch.autograd.grad(compiled(x).square().sum(), parameters)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_export_keeps_a_dynamic_size():
    rows = torch.export.Dim("rows")
    program = torch.export.export(
        Block(8), (torch.randn(5, 8),), dynamic_shapes={"x": {0: rows}}
    ).module()
    assert program(torch.randn(11, 8)).shape == (11, 8)


def test_many_threads_may_call_first():
    results, x = [], torch.randn(50, 77)
    barrier = threading.Barrier(4)

    def call():
        barrier.wait()
        results.append(torch.ops.pto.rms_norm(x, torch.ones(77), 0.5))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(torch.equal(r, results[0]) for r in results)


def test_the_number_of_threads_changes_no_bit():
    before = torch.get_num_threads()
    arguments = tensors(OPERATORS["layer_norm"], (3000, 257))
    results = []
    try:
        for threads, host in [(1, False), (2, False), (2, True)]:
            torch.set_num_threads(threads)
            pto.torch.use_host_pool(host)
            results.append(torch.ops.pto.layer_norm(*arguments))
    finally:
        torch.set_num_threads(before)
        pto.torch.use_host_pool(pto.torch.HOST_POOL)
    assert all(torch.equal(r, results[0]) for r in results)


def test_large_outputs_come_from_recycled_memory_and_go_back():
    x = torch.randn(1024, 1024)
    gelu = torch.ops.pto.gelu.default
    gelu(x)
    gc.collect()
    before = _core.memory_stats()
    addresses = {gelu(x).data_ptr() for _ in range(5)}
    assert len(addresses) == 1
    kept = gelu(x)
    now = _core.memory_stats()
    assert now["live_bytes"] - before["live_bytes"] == x.nbytes
    assert now["maps"] == before["maps"]
    view = kept[3:].t()
    del kept
    torch.testing.assert_close(view.t(), torch.nn.functional.gelu(x)[3:])
    del view
    assert _core.memory_stats()["live_bytes"] == before["live_bytes"]


def test_results_are_ordinary_tensors():
    y = torch.ops.pto.silu(torch.randn(600, 700))
    y.add_(1).resize_(2, 3)
    assert torch.equal(torch.as_tensor(y.numpy()), y)
    assert y.is_contiguous() and not y.requires_grad and y.grad_fn is None


@op(
    "test_scaled(Tensor x, Tensor? bias, *, float alpha=2.0, bool negate=False) -> (Tensor, Tensor)"
)
class Scaled:
    """alpha * x + bias, and the maximum of its rows."""

    def build(x, bias, alpha, negate):
        y = alpha * (-x if negate else x)
        y = y if bias is None else y + bias
        return y, pto.sum(y, -1)

    def grad(ctx, d_result0, d_result1):
        sign = -1.0 if ctx.attribute("negate") else 1.0
        d = d_result0 + d_result1.unsqueeze(-1)
        bias = ctx.saved("bias")
        gradients = {"x": d * (ctx.attribute("alpha") * sign), "bias": d}
        return gradients if bias is not None else {**gradients, "bias": d}

    saved = ("bias",)


def test_a_users_operator_has_optional_tensors_flags_and_several_outputs():
    scaled = torch.ops.pto.test_scaled
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
    y, total = scaled(x, bias, alpha=0.5, negate=True)
    torch.testing.assert_close(y, -0.5 * x + bias)
    torch.testing.assert_close(total, y.sum(-1))
    y, total = scaled(x, None)
    torch.testing.assert_close(y, 2 * x)
    assert torch.autograd.gradcheck(lambda x, b: scaled(x, b, alpha=0.5, negate=True), (x, bias))
    assert torch.autograd.gradcheck(lambda x: scaled(x, None, alpha=3.0), (x,))
    assert torch.autograd.gradcheck(lambda x: scaled(x, bias.detach())[1], (x,))  # one output only


def test_a_float_attribute_is_a_number_of_the_call():
    scaled = torch.ops.pto.test_scaled
    x = torch.ones(3, 4)
    scaled(x, None, alpha=1.0)
    kernels = _core.kernel_count()
    for alpha in (0.25, 7.0):
        assert torch.equal(scaled(x, None, alpha=alpha)[0], x * alpha)
    assert _core.kernel_count() == kernels
