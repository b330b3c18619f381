# SPDX-License-Identifier: Apache-2.0
"""Steps of optimisers in torch.compile(backend="pto"): operators on lists of tensors, and what
Dynamo writes for updates with a factor, are parts of programs."""

import pytest
import torch
from compile_cases import assert_same, below_dynamo, captured, kinds, run
from torch.utils import _pytree as pytree

import pto.torch
from pto.adapters.torch.compile.compiled import graphs
from pto.adapters.torch.compile.foreach import of_lists

SHAPES = ((3, 4), (5, 5), (2, 1, 3))


def randn(*sizes, dtype=torch.float32):
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(1)).to(dtype) * 0.8 + 0.1


def argument_of(schema, one):
    if one.name == "ord":
        return 2
    shapes = [(4, 4)] * 3 if "_mm" in schema.name else SHAPES
    values = {"List[Tensor]": [randn(*shape) for shape in shapes], "List[number]": [0.5, 2, 0.25],
              "Tensor": torch.tensor(0.5), "number": 0.5}  # fmt: skip
    return values[str(one.type)]


@pytest.mark.parametrize("overload", of_lists(), ids=str)
def test_an_operator_on_lists_is_that_of_each_tensor(overload):
    schema = overload._schema
    given = [argument_of(schema, one) for one in schema.arguments
             if not one.kwarg_only and one.name not in ("dtype", "non_blocking")]  # fmt: skip
    wanted = overload(*given)
    leaves, spec = pytree.tree_flatten(given)
    tensors = [one for one in leaves if isinstance(one, torch.Tensor)]

    def function(*tensors):
        of_call = iter(tensors)
        own = [next(of_call) if isinstance(one, torch.Tensor) else one for one in leaves]
        return overload(*pytree.tree_unflatten(own, spec))

    module = captured(function, *tensors)
    assert not any("foreach" in str(node.target) for node in module.graph.nodes)
    assert_same(module(*tensors), wanted)


def test_tables_hold_the_operators_of_optimisers():
    names = {one.overloadpacket.__name__.removeprefix("_foreach_") for one in of_lists()}
    assert {"add", "addcdiv", "addcmul", "copy", "lerp", "maximum", "mul", "norm", "sqrt"} <= names


def moments(parameter, d, mean, spread):
    mean.lerp_(d, 0.1)
    spread.mul_(0.99).addcmul_(d, d, value=0.01)
    parameter.addcdiv_(mean, spread.sqrt() + 1e-3, value=-1e-2)


def moments_of_lists(parameter, d, mean, spread):
    torch._foreach_lerp_([mean], [d], 0.1)
    torch._foreach_mul_([spread], 0.99)
    torch._foreach_addcmul_([spread], [d], [d], 0.01)
    root = torch._foreach_sqrt([spread])
    torch._foreach_add_(root, 1e-3)
    torch._foreach_addcdiv_([parameter], [mean], root, -1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("step", [moments, moments_of_lists])
def test_an_update_of_moments_is_one_program_and_its_writes(step, dtype):
    torch._dynamo.reset()
    ours, theirs = ([randn(7, 9, dtype=dtype) for _ in range(4)] for _ in range(2))
    compiled = torch.compile(step, backend="pto")
    compiled(*ours), step(*theirs)
    assert_same(ours, theirs)
    kinds_of_steps = [one.kind for one in pto.torch.explain(compiled, *ours).steps]
    assert kinds_of_steps == ["program", *["write"] * 3]


def test_a_tensor_of_one_number_for_aten_has_its_type_and_number():
    def function(x):
        made = [torch.zeros(2, 3), torch.ones(3, dtype=torch.int64), torch.full((2,), True),
                torch.full((2, 2), -1.5, dtype=torch.float64), torch.full_like(x, 7),
                torch.ones_like(x, dtype=torch.bool), torch.scalar_tensor(3)]  # fmt: skip
        return [torch.sort(one)[0] for one in made], torch.sort(x)[0]

    x = torch.tensor([[2, 1], [4, 3]])
    graph = below_dynamo(function, x)
    assert "ATen" in kinds(graph)
    assert_same(run(graph, x), function(x))


def test_a_check_of_a_factorization_calls_its_operator():
    torch._dynamo.reset()
    x = randn(4, 4).double()
    compiled = torch.compile(lambda x: torch.linalg.cholesky(x) * 2, backend="pto")
    square = x @ x.T + torch.eye(4, dtype=torch.float64)
    assert_same(compiled(square), torch.linalg.cholesky(square) * 2)
    called = graphs()[-1].replay.space.values()
    assert not any(one is torch.ops.higher_order.with_effects for one in called)
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        compiled(-square)
