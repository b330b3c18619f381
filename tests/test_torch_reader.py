# SPDX-License-Identifier: Apache-2.0
"""Laws of tensors that jitted functions read with the adapter's reader: results and errors are
those of DLPack and of PyTorch's own flags."""

import warnings

import pytest
import torch

import pto
import pto.torch  # noqa: F401 loads the reader
from pto import _core
from pto.adapters.torch import direct

pytestmark = pytest.mark.skipif(direct._library is None, reason="direct calls are not built")


@pto.jit
def double(x):
    return x + x


def inference_tensor():
    with torch.inference_mode():
        return torch.randn(3, 4)


class Own(torch.Tensor):
    pass


TENSORS = {
    **{str(t): lambda t=t: (torch.randn(3, 5) * 4).to(t) for t in
       (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
        torch.int8, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn)},
    "number": lambda: torch.tensor(2.5),
    "empty": lambda: torch.randn(0, 4),
    "gaps": lambda: torch.randn(6, 8)[1::2, 3::2],
    "transposed": lambda: torch.randn(3, 5).t(),
    "repeated": lambda: torch.randn(1, 4).expand(3, 4),
    "eight axes": lambda: torch.randn(1, 2, 1, 2, 1, 2, 1, 2),
    "nine axes": lambda: torch.randn([1] * 9),
    "parameter": lambda: torch.nn.Parameter(torch.randn(3, 4)),
    "with a gradient": lambda: torch.randn(3, 4, requires_grad=True),
    "of inference mode": inference_tensor,
    "negated": lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
    "conjugated": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "of a subclass": lambda: torch.randn(3, 4).as_subclass(Own),
    "sparse": lambda: torch.randn(3, 4).to_sparse(),
    "without memory": lambda: torch.randn(3, 4, device="meta"),
    "misaligned": lambda: torch.frombuffer(bytearray(33), dtype=torch.uint8)[1:].view(
        torch.uint8).as_strided((4,), (1,)),
    "freed": lambda: freed(torch.randn(8)),
}  # fmt: skip


def freed(x):
    x.untyped_storage().resize_(0)
    return x


def outcome(x):
    """The result with its type and strides, or the error's class and text."""
    try:
        found = double(x)
    except Exception as error:
        return type(error), str(error)
    return found.dtype, found.stride(), found.requires_grad, type(found), str(found.detach())


@pytest.mark.parametrize("with_gradients", (False, True))
@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_is_what_dlpack_and_pytorch_say(name, with_gradients):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = TENSORS[name]()
    with torch.set_grad_enabled(with_gradients):
        ours = outcome(x)
        try:
            _core.set_torch_reader(0)
            theirs = outcome(x)
        finally:
            direct.read_tensors()
    assert repr(ours) == repr(theirs)  # NaN included


@pytest.mark.parametrize("with_gradients", (False, True))
@pytest.mark.parametrize("reader", (False, True), ids=("by DLPack", "by the reader"))
def test_a_derivative_in_forward_mode_is_never_lost(reader, with_gradients):
    x = torch.randn(3, 4)
    try:
        if not reader:
            _core.set_torch_reader(0)
        with torch.autograd.forward_ad.dual_level(), torch.set_grad_enabled(with_gradients):
            assert torch.equal(double(x), x + x)
            for of in (x, torch.nn.Parameter(x)):
                dual = torch.autograd.forward_ad.make_dual(of, torch.ones_like(x))
                with pytest.raises(RuntimeError, match="forward-mode"):
                    double(dual)
    finally:
        direct.read_tensors()


def test_the_reader_takes_plain_tensors_itself(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_neg", lambda x: pytest.fail("PyTorch is asked"))
    x = torch.randn(3, 4)
    assert torch.equal(double(x), x * 2)
