# SPDX-License-Identifier: Apache-2.0
"""Models with operators outside the program that defined them: export, TorchScript, AOTInductor."""

import io

import children
import pytest
import torch
from operator_cases import OPERATORS, tensors
from torch._dynamo import compiled_autograd

import pto.torch  # noqa: F401
from pto.adapters.torch import has_cpp_gradients

ops = torch.ops.pto


class Model(torch.nn.Module):
    """Uses every operator of one shape once, in a row."""

    def __init__(self):
        super().__init__()
        self.constants = torch.nn.ParameterList(
            torch.nn.Parameter(x, requires_grad=False)
            for operator in OPERATORS.values()
            for x in tensors(operator, (3, 8))[1:]
        )

    def forward(self, x):
        constants = iter(self.constants)
        for operator in OPERATORS.values():
            rest = [next(constants) for _ in operator.tensor_names[1:]]
            x = getattr(ops, operator.name)(x, *rest)
        return x


class Small(torch.nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = torch.ops.pto.gelu(x, approximate="tanh")
        return torch.ops.pto.rms_norm(y, weight, 1e-6) + torch.ops.pto.softmax(x, 0)


def small_arguments():
    return torch.randn(3, 8), torch.rand(8)


def test_an_exported_program_is_saved_and_loaded():
    model, x = Model(), torch.randn(3, 8)
    file = io.BytesIO()
    torch.export.save(torch.export.export(model, (x,)), file)
    file.seek(0)
    program = torch.export.load(file)
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert {f"pto.{name}.default" for name in OPERATORS} <= names
    torch.testing.assert_close(program.module()(x), model(x))


def test_a_program_decomposes_and_keeps_the_operators():
    program = torch.export.export(Small(), small_arguments()).run_decompositions()
    assert "pto.gelu.default" in program.graph_module.code.replace("torch.ops.", "")


def test_scripted_and_traced_models_call_the_operators():
    arguments = small_arguments()
    want = Small()(*arguments)
    for made in (torch.jit.script(Small()), torch.jit.trace(Small(), arguments)):
        assert "pto::rms_norm" in str(made.graph)
        file = io.BytesIO()
        torch.jit.save(made, file)
        file.seek(0)
        torch.testing.assert_close(torch.jit.load(file)(*arguments), want)


CHILD = """
import sys, torch, pto.torch
model = torch._inductor.aoti_load_package(sys.argv[1])
x, want = torch.load(sys.argv[2])
torch.testing.assert_close(model(x), want)
print("the same")
"""


def test_a_package_of_aotinductor_runs_in_another_process(tmp_path):
    model, x = Model(), torch.randn(3, 8)
    package = torch._inductor.aoti_compile_and_package(
        torch.export.export(model, (x,)), package_path=str(tmp_path / "model.pt2")
    )
    torch.save((x, model(x)), tmp_path / "data.pt")
    done = children.run("-c", CHILD, package, tmp_path / "data.pt")
    assert done.stdout.strip() == "the same", done.stderr


def test_functional_transforms_compose():
    x, weight = (t.double() for t in small_arguments())

    def f(x, w):
        return ops.rms_norm(ops.gelu(x), w, 1e-6).square().sum()

    def reference(x, w):
        y = torch.nn.functional.gelu(x)
        return torch.nn.functional.rms_norm(y, (8,), w, 1e-6).square().sum()

    for transform in (
        torch.func.grad,
        torch.func.jacrev,
        lambda f: torch.vmap(torch.func.grad(f), (0, None)),
        lambda f: torch.vmap(torch.func.jacrev(torch.func.grad(f)), (0, None)),
        lambda f: torch.func.grad(lambda x, w: torch.vmap(f, (0, None))(x, w).square().sum()),
    ):
        torch.testing.assert_close(transform(f)(x, weight), transform(reference)(x, weight))


def test_a_compiled_backward_pass_gives_the_gradient_or_says_why_not():
    torch._dynamo.reset()
    x = torch.randn(4, requires_grad=True)
    want = torch.func.grad(lambda x: torch.nn.functional.silu(x).sum())(x.detach())
    total = torch.ops.pto.silu(x).sum()
    with compiled_autograd._enable(lambda graph: torch.compile(graph, backend="aot_eager")):
        if has_cpp_gradients():
            with pytest.raises(RuntimeError, match=r"silu: its gradient cannot(.*\n)+  fix: "):
                total.backward()
            return
        total.backward()
    torch.testing.assert_close(x.grad, want)


def test_the_backward_pass_of_a_compiled_function_is_compiled_under_compiled_autograd():
    torch._dynamo.reset()
    x = torch.randn(4, requires_grad=True)
    want = torch.func.grad(lambda x: torch.nn.functional.silu(x).sum())(x.detach())
    total = torch.compile(lambda x: torch.ops.pto.silu(x).sum(), backend="aot_eager")(x)
    with compiled_autograd._enable(lambda graph: torch.compile(graph, backend="aot_eager")):
        total.backward()
    torch.testing.assert_close(x.grad, want)
