# SPDX-License-Identifier: Apache-2.0
"""Results into given memory: the overload `out`, and operators in place."""

import pytest
import torch
from operator_cases import OPERATORS, tensors, torch_operator
from torch._subclasses.fake_tensor import FakeTensorMode

import pto
import pto.torch
from pto.adapters.record import Record
from pto.adapters.torch import activation
from pto.adapters.torch.autograd import _NoGradient, _refuse_writing
from pto.errors import Error
from pto.language.op import op


@op("out_pair(Tensor x, *, float scale=2.0) -> (Tensor, Tensor)")
class Pair:
    def build(x, scale):
        return x * scale, pto.sum(x, -1)


@op("out_flip(Tensor x, Tensor y) -> Tensor")
class Flip:
    """Every element of the result needs all of x."""

    def build(x, y):
        return y * pto.sum(x)


@op("out_halve(Tensor x) -> Tensor")
class Halve:
    inplace = True

    def build(x):
        return x * 0.5

    def grad(ctx, d_result):
        return d_result * 0.5


@pytest.fixture(params=["cpu", "npu"], autouse=True)
def device(request):
    """The device of a test's tensors, unless it names one."""
    if request.param == "npu" and not activation.is_active():
        pytest.skip("the npu device is not built")
    with torch.device(request.param):
        yield request.param


ops = torch.ops.pto
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


@every_operator
def test_out_takes_the_result_and_is_returned(operator):
    arguments = tensors(operator)
    want = torch_operator(operator)(*arguments)
    out = torch.full_like(want, float("nan"))
    address, version = out.data_ptr(), out._version
    got = getattr(ops, operator.name)(*arguments, out=out)
    assert got is out and out.data_ptr() == address and out._version > version
    assert torch.equal(out, want)


LAYOUTS = {
    "dense": lambda: torch.zeros(4, 6),
    "transposed": lambda: torch.zeros(6, 4).t(),
    "every second": lambda: torch.zeros(8, 12)[::2, ::2],
    "part of a row": lambda: torch.zeros(4, 9)[:, 2:8],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_may_lie_in_any_layout(layout):
    x, out = torch.randn(4, 6), LAYOUTS[layout]()
    around = out._base.sum() if out._base is not None else out.sum()
    assert around == 0
    strides = out.stride()
    ops.silu(x, out=out)
    torch.testing.assert_close(out, torch.nn.functional.silu(x))
    assert out.stride() == strides
    if out._base is not None:  # nothing beside it was written
        torch.testing.assert_close(out._base.sum(), out.sum())


def test_several_results_go_into_several_tensors():
    x = torch.randn(3, 4)
    a, b = torch.empty(3, 4), torch.empty(3)
    got = ops.out_pair.out(x, scale=3.0, out0=a, out1=b)
    assert got[0] is a and got[1] is b
    torch.testing.assert_close(a, 3 * x)
    torch.testing.assert_close(b, x.sum(-1))


def test_an_empty_out_grows():
    x = torch.randn(3, 4)
    out = torch.empty(0)
    assert torch.equal(ops.silu(x, out=out), ops.silu(x)) and out.shape == (3, 4)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.empty(0))
        ops.silu(mode.from_tensor(x), out=fake)
        assert fake.shape == (3, 4)


def test_out_may_be_an_argument_or_a_part_of_one():
    x = torch.randn(6)
    want = ops.silu(x)
    assert torch.equal(ops.silu(x, out=x), want)
    x, y = torch.rand(8), torch.rand(5)
    want = y * x.sum()
    torch.testing.assert_close(ops.out_flip(x, y, out=x[2:7]), want)


WRONG = {
    "out is f64 but the result is f32": lambda: torch.empty(3, 4, dtype=torch.float64),
    r"out has the shape \[4, 3\] but the result \[3, 4\]": lambda: torch.empty(4, 3),
    "elements of out share memory": lambda: torch.empty(4).expand(3, 4),
}


@pytest.mark.parametrize("text", WRONG)
def test_an_out_that_does_not_fit_is_refused_and_stays(text):
    out = WRONG[text]().fill_(7) if "share" not in text else WRONG[text]()
    with pytest.raises(RuntimeError, match=text):
        ops.silu(torch.randn(3, 4), out=out)
    if "share" not in text:
        assert (out == 7).all()
        with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(Error, match="out"):
            ops.silu(torch.randn(3, 4), out=WRONG[text]())


def test_there_is_no_gradient_into_out():
    x = torch.randn(3, requires_grad=True)
    for arguments in [(x, torch.empty(3)), (x.detach(), torch.empty(3, requires_grad=True))]:
        with pytest.raises(RuntimeError, match="silu: a tensor requires grad, but the call writes"):
            ops.silu(arguments[0], out=arguments[1])
    with torch.no_grad():
        assert torch.equal(ops.silu(x, out=torch.empty(3)), ops.silu(x))


def test_opcheck_finds_nothing():
    x = torch.randn(3, 4)
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    for overload, kwargs in [
        (ops.silu.out, {"out": torch.empty(3, 4)}),
        (ops.out_pair.out, {"out0": torch.empty(3, 4), "out1": torch.empty(3)}),
        (ops.out_halve_.default, {}),
    ]:
        found = torch.library.opcheck(overload, (x.clone(),), kwargs, test_utils=checks)
        assert set(found.values()) == {"SUCCESS"}, found


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_functions_write_too(backend):
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, backend=backend)
    def f(x, out, y):
        ops.silu.out(x, out=out)
        return ops.out_halve_(y) + out

    x, out, y = torch.randn(5), torch.empty(5), torch.randn(5)
    want, half = torch.nn.functional.silu(x), y * 0.5
    torch.testing.assert_close(f(x, out, y), want + half)
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(y, half)


def test_vmap_writes_rows_into_out():
    x, out = torch.randn(4, 3), torch.empty(4, 3)
    torch.vmap(lambda x, out: ops.silu(x, out=out))(x, out)
    torch.testing.assert_close(out, torch.nn.functional.silu(x))


def test_in_place_returns_its_argument_by_every_name():
    for function in (ops.out_halve_, pto.torch.out_halve_, ops.out_halve_.default):
        x = torch.randn(5)
        want, version = x * 0.5, x._version
        assert function(x) is x and torch.equal(x, want) and x._version > version
    x = torch.full((3,), 2.0)
    assert pto.ops.relu_(x.neg_()) is x and not x.any()


def test_in_place_refuses_gradients_and_later_backward_passes_notice():
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="out_halve_: a tensor requires grad, but the call wri"):
        ops.out_halve_(x.clone())
    y = x.exp()  # keeps its result for the gradient
    with torch.no_grad():
        ops.out_halve_(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_route_through_python_refuses_and_marks_alike():
    record = next(
        r for r in map(Record, range(pto._core.operator_count())) if r.name == "out_halve_"
    )
    kernel = _NoGradient(record, ops.out_halve_.default, ["x"], _refuse_writing)
    with pytest.raises(ValueError, match="a tensor requires grad, but the call writes"):
        kernel(torch.randn(3, requires_grad=True))
    x = torch.ones(3)
    version = x._version
    assert kernel(x) is x and x.tolist() == [0.5] * 3 and x._version > version


def test_an_argument_is_not_left_out():
    with pytest.raises(RuntimeError, match="silu: x is None"):
        ops.silu.out(None, out=torch.empty(3))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="pto.torch has no no_such_operator"):
        pto.torch.no_such_operator  # noqa: B018
