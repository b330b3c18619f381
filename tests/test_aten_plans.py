# SPDX-License-Identifier: Apache-2.0
"""Calls of pto.aten on tensors that skip what an earlier call did: they mean what they meant."""

import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import pto
import pto.aten
from pto.adapters.torch import direct
from pto.aten.implementations import Implementation, implement, withdraw


@pytest.fixture(scope="module", autouse=True)
def parts():
    if direct._library is None:
        pytest.skip("its part is not built: python -m pto adapters build torch")


def tensors(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)


def is_planned(overload):
    return type(type(overload).__call__).__name__ == "AtenCall"


def test_the_second_call_is_pytorchs_call():
    for shape in ((4,), (2, 3), (0, 3), (), (4,)):
        for dtype in (torch.float32, torch.int64, torch.complex64):
            x = tensors(*shape).to(dtype)
            for alpha in (1, 2, 3.0) if dtype is torch.float32 else (2,):
                for _ in range(2):
                    want, out = torch.add(x, x, alpha=alpha), torch.empty_like(x)
                    assert torch.equal(pto.aten.add.Tensor(x, x, alpha=alpha), want)
                    assert pto.aten.add.out(x, other=x, alpha=alpha, out=out) is out
                    assert torch.equal(out, want)
                    assert torch.equal(pto.aten.add(x, x, alpha=alpha), want)
    assert is_planned(pto.aten.add.out) and is_planned(pto.aten.add.Tensor)


def test_numbers_none_and_several_results():
    x = tensors(2, 3)
    for _ in range(3):
        assert torch.equal(pto.aten.clamp.default(x, 2, None), torch.clamp(x, 2, None))
        assert torch.equal(pto.aten.clamp.default(x, None, 2.5), torch.clamp(x, None, 2.5))
        values, indices = pto.aten.max.dim(x, 1)
        assert values.tolist() == [3, 6] and indices.tolist() == [2, 2]
        y = x.clone()
        assert pto.aten.add_.Tensor(y, x) is y and torch.equal(y, x + x)
        assert torch.equal(pto.aten.sum.dim_IntList(x, [0]), x.sum(0))
        assert pto.aten.add(x, 2).dtype is torch.float32
        assert pto.aten.add(x.int(), 2).dtype is torch.int32
        assert pto.aten.add(x.int(), 2.0).dtype is torch.float32
        assert pto.aten.zeros.default([2]).shape == (2,)


def test_an_output_is_checked_for_each_key():
    x, y, out = tensors(3, 4), tensors(4), torch.zeros(3, 4)
    for _ in range(2):
        pto.aten.add.out(x, y, out=out)
        wrong = torch.zeros(3, 3)
        with pytest.raises(ValueError, match=r"out has sizes \[3, 3\], the result has \[3, 4\]"):
            pto.aten.add.out(x, y, out=wrong)
        assert not wrong.any()
        with pytest.raises(ValueError, match=r"the result has \[4\]"):
            pto.aten.mean.out(x, [0], out=torch.zeros(3))
        pto.aten.mean.out(x, [1], out=torch.zeros(3))
        grown = torch.empty(0)
        assert pto.aten.add.out(x, y, out=grown).shape == (3, 4)
    given, out = torch.tensor([0.0, 2.0, 3.0]), torch.full((2, 1), 7)
    assert pto.aten.nonzero.out(given, out=out).tolist() == [[1], [2]]
    with pytest.raises(ValueError, match=r"the result has \[1, 1\]"):
        pto.aten.nonzero.out(torch.tensor([0.0, 0.0, 1.0]), out=out)
    assert out.tolist() == [[1], [2]]


def test_refusals_are_those_of_the_first_call():
    x, y = tensors(2, 3), tensors(2, 3)
    for _ in range(3):
        pto.aten.mm.default(x, x.T)
        with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
            pto.aten.mm.default(x, y)
        assert isinstance(caught.value, pto.Error) and "mm(Tensor self" in caught.value.why
        pto.aten.sum.dim_IntList(x, [1])
        pto.aten.softmax.int(x, 1)
        with pytest.raises(IndexError, match="Dimension out of range"):
            pto.aten.softmax.int(x, 5)
        with pytest.raises(TypeError, match="dim is 1.5"):
            pto.aten.softmax.int(x, 1.5)
        with pytest.raises(TypeError, match="has no beta"):
            pto.aten.add.Tensor(x, y, beta=1)
        with pytest.raises(TypeError, match="takes 2 positional"):
            pto.aten.add.Tensor(x, y, 1)
        with pytest.raises(TypeError, match="given twice"):
            pto.aten.add.Tensor(x, y, other=y)
        with pytest.raises(TypeError, match="NumPy"):
            pto.aten.add.Tensor(x, y.numpy())
        with pytest.raises(RuntimeError, match="PyTorch refuses"):
            pto.aten.add.Tensor(x, y.to("meta"))


def test_gradients_modes_and_subclasses_stay_pytorchs():
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x, seen = tensors(3), []
    for _ in range(3):
        pto.aten.mul.Tensor(x, x)
        needs = x.clone().requires_grad_()
        pto.aten.mul.Tensor(needs, x).sum().backward()
        assert torch.equal(needs.grad, x)
        with Seen():
            pto.aten.mul.Tensor(x, x)
        mapped = torch.func.vmap(lambda one: pto.aten.mul.Tensor(one, one))(tensors(2, 3))
        assert torch.equal(mapped, tensors(2, 3) ** 2)
        with torch.autocast("cpu", torch.bfloat16):
            assert pto.aten.mm.default(tensors(2, 2), tensors(2, 2)).dtype is torch.bfloat16
        assert type(pto.aten.mul.Tensor(torch.nn.Parameter(x), x)) is torch.Tensor
    assert seen.count("aten.mul.Tensor") == 3


def test_slots_and_later_implementations_count_after_a_plan():
    x = tensors(3)
    for _ in range(3):
        pto.aten.special_bessel_y0.default(x)
    assert is_planned(pto.aten.special_bessel_y0.default)
    with pytest.raises(ValueError, match="its slots are 8 aten"):
        pto.aten.special_bessel_y0.default(x, slot=3)
    marked = Implementation(
        1, "marked", "cpu", lambda bound: None, lambda bound, like: bound.values["self"]
    )
    implement("special_bessel_y0", marked)
    try:
        for _ in range(3):
            assert pto.aten.special_bessel_y0.default(x) is x and pto.aten.special_bessel_y0(x) is x
        assert pto.aten.special_bessel_y0.default(x, slot=8) is not x
    finally:
        withdraw("special_bessel_y0", 1)
    assert pto.aten.special_bessel_y0.default(x) is not x


def test_threads_share_a_plan():
    wrong = []

    def work(n):
        for _ in range(300):
            out = torch.empty(n)
            if not torch.equal(pto.aten.add.out(tensors(n), tensors(n), out=out), 2 * tensors(n)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 4, 5, 3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_a_restriction_holds_for_names_that_were_used(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("neg\n")
    pto.aten.add(tensors(2), 1)
    try:
        pto.aten.restrict(names)
        with pytest.raises(AttributeError, match="restricted"):
            pto.aten.add  # noqa: B018
    finally:
        pto.aten.restrict(None)
    assert pto.aten.add(tensors(2), 1).tolist() == [2, 3]
