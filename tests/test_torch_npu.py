# SPDX-License-Identifier: Apache-2.0
"""The npu device inside PyTorch: tensors, devices, what is saved, operators against the CPU."""

import copy
import io
import pickle

import pto.torch  # noqa: F401 makes the device where it is built
import pytest
import torch

from pto.adapters.torch import activation

pytestmark = pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")

NPU = torch.device("npu:0") if activation.is_active() else None


def test_tensors_are_made_on_it_and_moved_to_it():
    x = torch.randn(4, 4, device="npu")
    assert x.device == NPU and x.is_npu and torch.zeros(2).npu().device == NPU
    assert x.to("npu:1").device.index == 1 and torch.equal(x.to("npu:1").cpu(), x.cpu())
    with torch.device("npu:1"):
        assert torch.ones(3).device.index == 1
    assert torch.tensor([1.5], device="npu").item() == 1.5


def test_views_and_writes_through_views_share_memory():
    x = torch.zeros(4, 6, device="npu")
    x.t()[1:3, ::2].add_(1)
    want = torch.zeros(4, 6)
    want.t()[1:3, ::2].add_(1)
    assert torch.equal(x.cpu(), want)
    assert x[1].data_ptr() == x.data_ptr() + 24 and x.view(-1).data_ptr() == x.data_ptr()


def test_outputs_are_resized_and_keep_their_identity():
    x = torch.arange(6.0, device="npu")
    out = torch.empty(0, device="npu")
    assert torch.mul(x, x, out=out) is out and out.shape == (6,) and out[5].item() == 25
    sorted_values, indices = torch.empty(0, device="npu"), torch.empty(0, 1, device="npu").long()
    torch.sort(-x, out=(sorted_values, indices))
    assert sorted_values[0].item() == -5 and indices.tolist() == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("other", ["cpu", "npu:1"])
def test_mixed_devices_are_refused_with_both_names(other):
    x, y = torch.ones(3, device="npu"), torch.ones(3, device=other)
    with pytest.raises(RuntimeError, match=f"npu:0 and {other}.*\n  why: .*\n  fix: ") as raised:
        torch.add(x, y)
    assert "aten::add.Tensor" in str(raised.value)
    assert torch.equal((x + torch.tensor(2.0)).cpu(), torch.full((3,), 3.0))


def test_a_device_that_does_not_exist_is_refused():
    with pytest.raises(RuntimeError, match="npu:7 does not exist\n  why: there are 2 npu devices"):
        torch.ones(1, device="npu:7")


def test_tensors_are_saved_loaded_copied_and_pickled():
    x = torch.randn(3, 4, device="npu")
    file = io.BytesIO()
    torch.save({"x": x, "row": x[1]}, file)
    for place, device in [(None, "npu:0"), ("cpu", "cpu"), ("npu:1", "npu:1")]:
        file.seek(0)
        loaded = torch.load(file, map_location=place)
        assert str(loaded["x"].device) == device and torch.equal(loaded["row"].cpu(), x[1].cpu())
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.device == x.device and torch.equal(y, x) and y.data_ptr() != x.data_ptr()


def test_random_numbers_are_those_of_the_cpu_under_the_same_seed():
    torch.manual_seed(11)
    want = torch.randn(5), torch.nn.functional.dropout(torch.ones(64))
    torch.npu.manual_seed(11)
    host = torch.get_rng_state()
    got = torch.randn(5, device="npu"), torch.nn.functional.dropout(torch.ones(64, device="npu"))
    assert torch.equal(torch.get_rng_state(), host)
    for a, b in zip(want, got, strict=True):
        assert torch.equal(a, b.cpu())
    state = torch.npu.get_rng_state()
    first = torch.rand(3, device="npu")
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="npu"), first)
    generator = torch.Generator(device="npu:1")
    assert generator.device == torch.device("npu:1")
    assert torch.rand(2, device="npu:1", generator=generator).device.index == 1


def test_memory_is_counted_for_each_device():
    before = torch.npu.memory_allocated(1)
    x = torch.empty(1000, device="npu:1")
    assert torch.npu.memory_allocated(1) - before == 4000
    del x
    assert torch.npu.memory_allocated(1) == before
    assert torch.npu.max_memory_allocated(1) >= before + 4000


def test_what_fell_back_to_the_cpu_is_listed():
    torch.npu.reset_fallbacks()
    torch.cumsum(torch.ones(3, device="npu"), 0)
    assert torch.npu.fallbacks() == {"aten::cumsum": 1}
