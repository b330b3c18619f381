# SPDX-License-Identifier: Apache-2.0
"""torch.vmap of operators: the law that it is a loop over rows, and that it rarely has to loop."""

import warnings

import pytest
import torch
from operator_cases import OPERATORS, tensors, torch_operator

import pto.torch
from pto.adapters.torch.batching import BatchingRule
from pto.language.op import op

ROWS = 5
ops = torch.ops.pto


@pytest.fixture(autouse=True)
def no_warning():
    """PyTorch warns where it has to loop over an operator without a rule."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.fixture
def never_row_by_row(monkeypatch):
    def refuse(*_):
        raise AssertionError("looped over the rows")

    monkeypatch.setattr(BatchingRule, "_row_by_row", refuse)


def looped(function, in_dims, arguments):
    """The law: vmap is one call for each row, and the results on top of one another."""
    rows = [
        function(*(x if dim is None else x.select(dim, row)
                   for x, dim in zip(arguments, in_dims, strict=True)))
        for row in range(next(x.shape[d] for x, d in zip(arguments, in_dims, strict=True)
                              if d is not None))
    ]  # fmt: skip
    return torch.utils._pytree.tree_map(lambda *xs: torch.stack(xs), *rows)


def assert_is_a_loop(function, in_dims, arguments):
    got = torch.vmap(function, in_dims)(*arguments)
    torch.testing.assert_close(got, looped(function, in_dims, arguments))


def with_batch(operator, batched, shape=(3, 4)):
    """Random arguments, those marked in `batched` with a batch in front; and vmap's in_dims."""
    arguments = tensors(operator, shape)
    arguments = [
        torch.randn(ROWS, *x.shape) if b else x for x, b in zip(arguments, batched, strict=True)
    ]
    return arguments, tuple(0 if b else None for b in batched)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_any_argument_may_have_the_batch_and_none_needs_a_loop(operator, never_row_by_row, deep):
    count = len(operator.tensor_names)
    single = [[i == j for j in range(count)] for i in range(count)]
    # Quick: the last alone; the first alone has the batch in the next test.
    for batched in [[True] * count, *(single if deep else single[-1:])]:
        arguments, in_dims = with_batch(operator, batched)
        assert_is_a_loop(torch_operator(operator), in_dims, arguments)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_gradients_of_samples_need_no_loop(operator, never_row_by_row):
    names = operator.tensor_names
    arguments, in_dims = with_batch(
        operator, [name not in (operator.member("vectors") or ()) for name in names]
    )
    gradient = torch.func.grad(
        lambda *args: torch_operator(operator)(*args).square().sum(), tuple(range(len(names)))
    )
    assert_is_a_loop(gradient, in_dims, arguments)


@pytest.mark.parametrize("dims", [(0, 0), (1, 2), (-1, 0), (2, None), (None, 1)])
def test_the_batch_may_be_any_axis(dims, never_row_by_row):
    def shape(rank_one, dim):
        sizes = list(rank_one)
        if dim is not None:
            sizes.insert(dim if dim >= 0 else len(sizes) + 1 + dim, ROWS)
        return sizes

    arguments = [torch.randn(shape((3, 4), dims[0])), torch.randn(shape((3, 4), dims[1]))]
    dims = tuple(d if d is None or d >= 0 else x.ndim + d
                 for x, d in zip(arguments, dims, strict=True))  # fmt: skip
    assert_is_a_loop(ops.silu_mul, dims, arguments)


@pytest.mark.parametrize("shapes", [((4,), (3, 4)), ((3, 4), (4,)), ((), (4,)), ((1, 4), (3, 1))])
def test_rows_broadcast_as_they_do_alone(shapes, never_row_by_row):
    x, y = (torch.randn(ROWS, *shape) for shape in shapes)
    assert_is_a_loop(ops.add, (0, 0), [x, y])
    assert_is_a_loop(ops.add, (0, None), [x, y[0]])
    gradient = torch.func.grad(lambda x, y: ops.silu_mul(x, y).square().sum(), (0, 1))
    assert_is_a_loop(gradient, (0, 0), [x, y])


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_an_axis_counted_from_the_front_is_that_of_the_row(dim, never_row_by_row):
    x = torch.randn(ROWS, 2, 3, 4)
    assert_is_a_loop(lambda x: ops.softmax(x, dim), (0,), [x])
    assert_is_a_loop(torch.func.grad(lambda x: ops.softmax(x, dim).square().sum()), (0,), [x])


def test_batches_nest_and_come_in_chunks():
    x = torch.randn(3, ROWS, 7)
    torch.testing.assert_close(torch.vmap(torch.vmap(ops.softmax))(x), torch.softmax(x, -1))
    torch.testing.assert_close(torch.vmap(ops.softmax, chunk_size=2)(x), torch.softmax(x, -1))
    weights = torch.randn(3, 7)
    got = torch.vmap(torch.vmap(ops.rms_norm, (0, None)))(x, weights)
    want = torch.stack([ops.rms_norm(a, w) for a, w in zip(x, weights, strict=True)])
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_batch_may_have_one_row_or_none(rows):
    x = torch.randn(rows, 3, 4)
    assert torch.equal(torch.vmap(ops.softmax)(x), ops.softmax(x))
    got = torch.vmap(lambda x: ops.vmap_spread(x))(x)
    assert got[0].shape == (rows, 3, 4) and [t.shape for t in got[1:]] == [(rows,)]


@op("vmap_spread(Tensor x) -> (Tensor, Tensor)")
class Spread:
    """Not an operator on rows once it has a batch: it sums over everything."""

    def build(x):
        total = pto.sum(x)
        return x / total, total


@op("vmap_mix(Tensor[] xs, *, Tensor? y=None) -> Tensor[]")
class Mix:
    def build(xs, y):
        return [x if y is None else x * y for x in [xs[0] + 1, xs[1]]]


@op("vmap_step_(Tensor(a!) x, Tensor y) -> Tensor(a!)")
class Step:
    def build(x, y):
        return x * 2 + y


def test_what_mixes_rows_is_called_row_by_row():
    assert_is_a_loop(ops.vmap_spread, (0,), [torch.rand(ROWS, 3)])
    assert_is_a_loop(lambda x: ops.softmax(x, 0), (0,), [torch.rand(ROWS)])


def test_lists_and_keyword_tensors_may_have_the_batch():
    x, y, z = torch.randn(ROWS, 3), torch.randn(3), torch.randn(ROWS, 3)
    for in_dims, arguments in [((0, None, None), [x, y, y]), ((0, None, 0), [x, y, z]),
                               ((None, None, 0), [y, y, z])]:  # fmt: skip
        assert_is_a_loop(lambda a, b, c: ops.vmap_mix([a, b], y=c), in_dims, arguments)
    assert_is_a_loop(lambda a, b: ops.vmap_mix([a, b]), (0, None), [x, y])


@pytest.mark.parametrize("dims", [(0, 0), (1, 0), (0, None)])
def test_elements_are_replaced_in_each_row(dims):
    x = torch.randn((ROWS, 3) if dims[0] == 0 else (3, ROWS))
    y = torch.randn((ROWS, 3) if dims[1] == 0 else (3,))
    want = x * 2 + (y if dims[0] == 0 else y.t())

    def step(x, y):
        ops.vmap_step_(x, y)
        return x

    torch.vmap(step, dims)(x, y)
    torch.testing.assert_close(x, want)


def test_one_tensor_cannot_take_the_elements_of_all_rows():
    with pytest.raises(ValueError, match="vmap_step_ replaces the elements of x"):
        torch.vmap(ops.vmap_step_, (None, 0))(torch.ones(3), torch.ones(ROWS, 3))


def test_jacobians_are_those_of_pytorch():
    x, y = torch.randn(4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    got = torch.func.jacrev(ops.silu_mul, (0, 1))(x, y)
    want = torch.func.jacrev(lambda x, y: torch.nn.functional.silu(x) * y, (0, 1))(x, y)
    torch.testing.assert_close(got, want)


OLDER = {
    "concat": lambda x: ops.concat([x, x * 2, torch.ones_like(x)], 1),
    "split": lambda x: ops.split(x, sizes=[1, 3], dim=1)[1],
    "softmax": lambda x: ops.softmax(x, dim=-1),
}


@pytest.mark.parametrize("function", OLDER.values(), ids=OLDER)
@pytest.mark.parametrize("rows", [1, 3])
def test_gradients_of_several_results_at_once_are_those_of_each(function, rows):
    x = torch.randn(3, 4, requires_grad=True)
    y = function(x)
    d = torch.randn(rows, *y.shape)
    (got,) = torch.autograd.grad(y, x, d, is_grads_batched=True, retain_graph=True)
    each = [torch.autograd.grad(y, x, one, retain_graph=True)[0] for one in d]
    torch.testing.assert_close(got, torch.stack(each))
    jacobian = torch.autograd.functional.jacobian
    torch.testing.assert_close(jacobian(function, x, vectorize=True), jacobian(function, x))


@pytest.mark.parametrize("name", ["concat", "split"])
def test_lists_pass_pytorchs_check_of_batched_gradients(name):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(OLDER[name], x, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: OLDER[name](x) ** 3, x, check_batched_grad=True)


def test_second_gradients_of_lists_are_taken_at_once():
    hessian, x = torch.autograd.functional.hessian, torch.randn(2, 4)

    def function(x):
        return (OLDER["concat"](x) ** 3).sum() + (OLDER["split"](x) ** 2).sum()

    torch.testing.assert_close(hessian(function, x, vectorize=True), hessian(function, x))
