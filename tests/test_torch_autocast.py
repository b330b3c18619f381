# SPDX-License-Identifier: Apache-2.0
"""Regions of mixed precision: what torch.autocast casts the arguments of operators to."""

import pytest
import torch

import pto.torch  # noqa: F401
from pto.adapters.record import Record
from pto.adapters.torch import activation, autocast, has_cpp_gradients
from pto.language.op import op, operators


@op("autocast_low(Tensor x, Tensor y) -> Tensor")
class Low:
    autocast = "low"

    def build(x, y):
        return x * y

    def grad(ctx, d_result):
        return {"x": d_result * ctx.saved("y"), "y": d_result * ctx.saved("x")}


@op("autocast_f32(Tensor x, Tensor[] ys) -> Tensor")
class F32:
    autocast = "f32"

    def build(x, ys):
        return x + ys[0] * ys[1]


@op("autocast_widest(Tensor x, Tensor y, Tensor i, Tensor? z=None) -> Tensor")
class Widest:
    types = "(T, T, I, T) -> T where T: f16 bf16 f32 f64 i32, I: integer"

    def build(x, y, i, z):
        return x + y if z is None else x + y * z


# One of the routes is registered over the other.
pytestmark = pytest.mark.filterwarnings("ignore:Warning only once for all operators")
ops = torch.ops.pto
F16, BF16, FP32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
AUTOCAST_KEYS = {"cpu": "AutocastCPU", "npu": "AutocastPrivateUse1"}
BACKENDS = {"cpu": "cpu", "npu": "privateuseone"}


@pytest.fixture(params=AUTOCAST_KEYS, autouse=True)
def device(request):
    """The device of a test's tensors."""
    if request.param == "npu" and not activation.is_active():
        pytest.skip("the npu device is not built")
    with torch.device(request.param):
        yield request.param


def ones(*dtypes):
    return [torch.ones(3, dtype=dtype) for dtype in dtypes]


def integers():
    return torch.zeros(3, dtype=torch.int64)


@pytest.fixture(params=["C++", "Python"])
def route(request, device):
    """Both routes to autocast, whichever was built."""
    if request.param == "Python" and has_cpp_gradients():
        library = torch.library.Library("pto", "IMPL")
        library._allow_override = True
        found = {o.name: o for o in operators()}
        for name in ("autocast_low", "autocast_f32", "autocast_widest"):
            kernel = autocast.AutocastKernel(
                Record(found[name].index), BACKENDS[device], getattr(ops, name).default
            )
            library.impl(name, kernel, AUTOCAST_KEYS[device], allow_override=True)
        yield
        library._destroy()
        return
    if request.param == "C++" and not has_cpp_gradients():
        pytest.skip("the C++ part was not built")
    yield


@pytest.mark.parametrize("low", [BF16, F16])
def test_low_makes_all_the_low_type_of_the_region(device, route, low):
    for given in [(FP32, FP32), (FP32, low), (low, low)]:
        with torch.autocast(device, low):
            assert ops.autocast_low(*ones(*given)).dtype == low
    assert ops.autocast_low(*ones(FP32, FP32)).dtype == FP32


def test_f32_widens_lists_too(device, route):
    x, *ys = ones(BF16, BF16, FP32)
    with torch.autocast(device, BF16):
        assert ops.autocast_f32(x, ys).dtype == FP32


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ((BF16, FP32, None), FP32),
        ((FP32, BF16, BF16), FP32),
        ((BF16, BF16, None), BF16),
        ((BF16, F16, None), FP32),
        ((F64, F64, None), F64),
        ((torch.int32, torch.int32, None), torch.int32),
    ],
)
def test_by_default_mixed_types_become_the_widest(device, route, given, result):
    x, y = ones(*given[:2])
    z = None if given[2] is None else ones(given[2])[0]
    with torch.autocast(device, BF16):
        assert ops.autocast_widest(x, y, integers(), z).dtype == result


def test_double_is_never_cast(device, route):
    with torch.autocast(device, BF16), pytest.raises(RuntimeError, match="f64"):
        ops.autocast_widest(*ones(F64, FP32), integers())


def test_without_a_region_or_where_it_is_off_mixed_types_stay_an_error(device, route):
    with pytest.raises(RuntimeError, match="y is bf16 but x is f32"):
        ops.autocast_widest(*ones(FP32, BF16), integers())
    with torch.autocast(device, BF16, enabled=False), pytest.raises(RuntimeError, match="bf16"):
        ops.autocast_widest(*ones(FP32, BF16), integers())


def test_gradients_come_back_in_the_types_of_the_arguments(device, route):
    x, y = (t.requires_grad_() for t in ones(FP32, FP32))
    with torch.autocast(device, BF16):
        result = ops.autocast_low(x, y)
    assert result.dtype == BF16
    result.sum().backward()
    assert x.grad.dtype == y.grad.dtype == FP32
    torch.testing.assert_close(x.grad, torch.ones(3))


def test_a_library_operator_takes_a_half_input_and_single_weights(device):
    x, weight, bias = torch.randn(4, 8).bfloat16(), torch.rand(8), torch.rand(8)
    with torch.autocast(device, BF16):
        y = ops.layer_norm(x, weight, bias)
    torch.testing.assert_close(y, torch.nn.functional.layer_norm(x.float(), (8,), weight, bias))


def test_a_compiled_region_casts_too(device):
    @torch.compile(fullgraph=True, backend="aot_eager")
    def f(x, y):
        with torch.autocast(device, BF16):
            return ops.autocast_low(x, y)

    assert f(*ones(FP32, FP32)).dtype == BF16


def test_an_unknown_rule_is_refused_at_the_definition():
    with pytest.raises(ValueError, match="autocast is 'half'"):

        @op("autocast_wrong(Tensor x) -> Tensor")
        class Wrong:
            autocast = "half"

            def build(x):
                return x + 1
