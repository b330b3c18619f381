# SPDX-License-Identifier: Apache-2.0
"""Laws of direct calls: torch.ops.pto.NAME is PyTorch's, only faster."""

import ctypes
import gc

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import pto.torch  # noqa: F401 registers torch.ops.pto
from pto.adapters.torch import direct

pytestmark = pytest.mark.skipif(direct._library is None, reason="direct calls are not built")

GELU = torch.ops.pto.gelu
MATMUL = torch.ops.pto.matmul
torch.manual_seed(0)
X = torch.randn(4, 4)


class _MallocInfo(ctypes.Structure):
    """mallinfo2 of glibc; in_use is its uordblks, the bytes of all allocations."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("hblkhd", "usmblks", "fsmblks", "in_use")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("fordblks", "keepcost")]


MALLOC_INFO = ctypes.CDLL(None).mallinfo2
MALLOC_INFO.restype = _MallocInfo


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.function = function
        return function(*args, **(kwargs or {}))


class Counted(torch.Tensor):
    pass


def test_modes_see_a_call():
    with Seen() as mode:
        GELU.default(X)
    assert mode.function is GELU.default
    with FakeTensorMode() as fake:
        assert GELU(fake.from_tensor(X)).fake_mode is fake
    with torch.autograd.profiler.profile() as profile:
        GELU(X)
    assert "pto::gelu" in {event.name for event in profile.function_events}


def test_transforms_and_subclasses_see_a_call():
    assert torch.equal(torch.vmap(GELU.default)(X), GELU(X))
    assert type(GELU(X.as_subclass(Counted))) is Counted
    assert "pto::gelu" in str(torch.jit.trace(lambda x: GELU(x), X).graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert MATMUL(X, X.bfloat16()).dtype == torch.float32


def test_gradients_are_recorded_where_they_are_asked_for():
    weight = torch.nn.Parameter(X.clone())
    assert MATMUL(X, weight).requires_grad
    with torch.no_grad():
        assert not MATMUL(X, weight).requires_grad
    with torch.inference_mode():
        assert MATMUL(X, weight).is_inference()
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward-mode"):
        GELU(torch.autograd.forward_ad.make_dual(X, X))
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(weight, X)
        with pytest.raises(RuntimeError, match="forward-mode"):
            GELU(dual)


def test_a_view_that_stands_for_other_numbers_is_read_as_these():
    negated = torch.randn(3, dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    assert torch.equal(GELU(negated), GELU(negated.clone()))


@pytest.mark.parametrize("call", [GELU, GELU.default], ids=["operator", "overload"])
def test_arguments_come_in_every_way_that_the_schema_allows(call):
    tanh = GELU.default(X, approximate="tanh")
    assert not torch.equal(tanh, GELU.default(X))
    assert torch.equal(call(x=X, approximate="tanh"), tanh)
    assert torch.equal(call(approximate="tanh", x=X), tanh)
    assert torch.equal(call(X, approximate="none"), GELU.default(X))


def test_calls_with_other_attributes_are_other_calls():
    attention, q = torch.ops.pto.attention, torch.randn(1, 2, 5, 4)
    through_pytorch = attention.default._op  # which no direct call is in front of
    numbers = (0.5, 2.0, 0.25, 4, 1.0, -1.0, 0.0, -0.0, 3.5, 0.125, 8.0, 7.0)  # more than are kept
    options = [dict(scale=number) for number in numbers] + [dict(causal=True), dict(causal=False)]
    for _ in range(3):  # later calls find what earlier ones have kept
        for more in options:
            assert torch.equal(attention(q, q, q, **more), through_pytorch(q, q, q, **more)), more


ALIKE = {
    "too few": lambda: GELU.default(),
    "too many": lambda: GELU.default(X, X, X),
    "unknown name": lambda: GELU.default(X, approximately="tanh"),
    "twice": lambda: GELU.default(X, x=X),
    "a number": lambda: GELU.default(1.0),
    "wrong text": lambda: GELU.default(X, approximate="sinh"),
    "no text": lambda: GELU.default(X, approximate="\ud800"),
    "shapes": lambda: MATMUL.default(X, X[:3]),
    "types": lambda: MATMUL.default(X, X.double()),
    "meta": lambda: MATMUL.default(X, X.to("meta")),
}


@pytest.mark.parametrize("wrong", ALIKE.values(), ids=ALIKE)
def test_errors_are_those_of_pytorch(wrong, monkeypatch):
    def error():
        with pytest.raises(Exception) as caught:
            wrong()
        return type(caught.value), str(caught.value)

    ours = error()
    for operator in (GELU, MATMUL):
        for one in (operator, operator.default):
            monkeypatch.setattr(one, "__class__", type(one).__base__)
    assert error() == ours


def test_a_call_keeps_nothing():
    bias = torch.randn(4)

    def calls(count):
        for _ in range(count):
            torch.ops.pto.linear(X, X, bias, activation="gelu")
            torch.ops.pto.linear.default(X, X)
            with pytest.raises(RuntimeError):
                MATMUL.default(X, X[:3])

    def bytes_in_use():
        gc.collect()
        return MALLOC_INFO().in_use

    calls(500)
    before = bytes_in_use()
    calls(5000)
    assert bytes_in_use() - before < 5000 * 16  # an allocation takes 32 bytes
