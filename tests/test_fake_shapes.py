# SPDX-License-Identifier: Apache-2.0
"""Shapes that PyTorch infers without running a jitted function: those of the call that runs."""

import pytest

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import pto  # noqa: E402
import pto.torch  # noqa: E402
from pto.language import jit_operator  # noqa: E402

FITTING = [((3,), (3,)), ((1,), (5,)), ((5,), (1,)), ((0,), (1,)), ((1,), (0,)), ((1,), (1,))]


@pto.jit
def in_a_branch(x, y, n):
    if n[0] > 0:
        x = x * 2
        z = x + y
    else:
        z = x * 2 + y
    return z


@pto.jit
def in_a_nested_branch(x, y, n):
    z = x * y
    if n[0] > 0:
        if n[0] > 1:
            z = x + y
            z = z * z
        else:
            z = pto.where(x > y, y, x)
    return z


@pto.jit
def in_a_sum(x, y, n):
    if n[0] > 0:
        z = x + y
        z = z.sum()
    else:
        z = x.sum()
    return z


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def inputs(shapes):
    return [*map(torch.ones, shapes), torch.ones(1, dtype=torch.int64)]


@pytest.mark.parametrize("function", [in_a_branch, in_a_nested_branch, in_a_sum])
def test_sizes_that_may_be_one_broadcast_in_bodies_too(function):
    traced_with_equal_sizes = inputs(((3,), (3,)))
    operator = jit_operator.operator(function, tuple(traced_with_equal_sizes), {})
    for shapes in FITTING:
        with FakeTensorMode():
            inferred = operator(*inputs(shapes)).shape
        assert inferred == operator(*inputs(shapes)).shape == function(*inputs(shapes)).shape, (
            shapes
        )


@pytest.mark.parametrize("function", [in_a_branch, in_a_nested_branch])
def test_sizes_that_differ_are_refused_without_running(function):
    operator = jit_operator.operator(function, tuple(inputs(((3,), (3,)))), {})
    for shapes in [((3,), (4,)), ((0,), (4,)), ((4,), (3,))]:
        text = f"sizes {shapes[0][0]} and {shapes[1][0]}"
        with FakeTensorMode(), pytest.raises(Exception, match=text):
            operator(*inputs(shapes))
        with pytest.raises(Exception, match=text):
            function(*inputs(shapes))


def test_a_compiled_model_broadcasts_around_a_branch():
    """Backends allocate by the inferred shapes, and check them."""
    x, y = torch.ones(1, requires_grad=True), torch.ones(5, requires_grad=True)
    n = torch.ones(1, dtype=torch.int64)
    found = torch.compile(lambda x, y, n: in_a_branch(x, y, n) * 2, backend="pto")(x, y, n)
    found.sum().backward()
    assert found.tolist() == [6.0] * 5
    assert (x.grad.tolist(), y.grad.tolist()) == ([20.0], [2.0] * 5)
