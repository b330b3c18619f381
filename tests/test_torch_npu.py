# SPDX-License-Identifier: Apache-2.0
"""The npu device inside PyTorch: tensors, devices, what is saved, operators against the CPU."""

import copy
import io
import pathlib
import pickle
import subprocess
import sys

import pytest
import torch
from operator_cases import OPERATORS, attributes, tensors, torch_operator

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


OFTEN_USED = [
    "abs", "add", "addmm", "all", "argmax", "bmm", "cat", "clamp", "cumsum", "div.floor_rounding",
    "exp", "expand", "gather", "index_add", "index_put", "linalg.svd", "masked_fill", "matmul",
    "max.reduction_with_dim", "nn.functional.conv2d", "nn.functional.cross_entropy",
    "nn.functional.dropout", "nn.functional.embedding", "nn.functional.gelu",
    "nn.functional.layer_norm", "nn.functional.max_pool2d", "pow", "scatter_add", "softmax",
    "sort", "split", "std", "topk", "transpose", "unique", "where",
]  # fmt: skip


@pytest.mark.parametrize("name", OFTEN_USED)
def test_an_operator_of_pytorch_gives_what_it_gives_on_the_cpu(name):
    npu_samples = pytest.importorskip("npu_samples")
    assert list(npu_samples.check(name)) == []


def test_every_operator_of_pytorch_gives_what_it_gives_on_the_cpu(deep):
    if not deep:
        pytest.skip("some minutes: PTO_DEEP=1")
    program = pathlib.Path(__file__).with_name("npu_samples.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_our_operators_give_the_bits_of_the_cpu_with_their_gradients(operator):
    for keywords in attributes(operator):
        host = tensors(operator, (6, 20), requires_grad=True)
        device = [x.detach().npu().requires_grad_() for x in host]
        want = torch_operator(operator)(*host, **keywords)
        got = torch_operator(operator)(*device, **keywords)
        assert got.device == NPU and torch.equal(got.cpu(), want)
        d_want = torch.autograd.grad(want.square().sum(), host)
        d_got = torch.autograd.grad(got.square().sum(), device)
        for a, b in zip(d_want, d_got, strict=True):
            torch.testing.assert_close(b.cpu(), a)


def test_opcheck_finds_nothing_on_the_device():
    arguments = tensors(OPERATORS["layer_norm"], (4, 10), requires_grad=True)
    arguments = [x.detach().npu().requires_grad_() for x in arguments]
    names = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    found = torch.library.opcheck(torch.ops.pto.layer_norm.default, arguments, test_utils=names)
    assert set(found.values()) == {"SUCCESS"}, found


def test_our_operators_refuse_mixed_devices_with_both_names():
    x = torch.ones(3, device="npu")
    with pytest.raises(RuntimeError, match="add: tensor y is on npu:1 but x is on npu:0\n  why: "):
        torch.ops.pto.add(x, x.npu(1))
    with pytest.raises(RuntimeError, match="add: tensor y is on cpu but x is on npu:0"):
        torch.ops.pto.add(x, x.cpu())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.norm = torch.nn.LayerNorm(36)
        self.linear = torch.nn.Linear(36, 5)

    def forward(self, x):
        y = torch.nn.functional.gelu(self.conv(x)).flatten(2)
        return self.linear(torch.ops.pto.silu(self.norm(y))).softmax(-1)


def test_training_steps_are_those_of_the_cpu():
    torch.manual_seed(3)
    models = [Net(), Net()]
    models[1].load_state_dict(models[0].state_dict())
    models[1].npu()
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in models]
    x = torch.randn(4, 3, 8, 8)
    for _ in range(3):
        for model, optimizer, batch in zip(models, optimizers, (x, x.npu()), strict=True):
            optimizer.zero_grad()
            model(batch).square().sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    for a, b in zip(*(m.state_dict().values() for m in models), strict=True):
        torch.testing.assert_close(b.cpu(), a)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_model_compiles_whole_with_its_gradient_and_any_batch(backend):
    torch._dynamo.reset()
    net = Net().npu()
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend=backend)
    for rows in (5, 9):
        x = torch.randn(rows, 3, 8, 8, device="npu", requires_grad=True)
        parameters = [x, *net.parameters()]
        want = torch.autograd.grad(net(x).square().sum(), parameters)
        got = torch.autograd.grad(compiled(x).square().sum(), parameters)
        for a, b in zip(got, want, strict=True):
            assert a.device == NPU
            torch.testing.assert_close(a.cpu(), b.cpu(), rtol=1e-4, atol=1e-4)


def test_autocast_takes_the_types_of_pytorchs_table():
    x = torch.randn(4, 4, device="npu")
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16 and torch.softmax(x.bfloat16(), 0).dtype == x.dtype
    with torch.npu.amp.autocast(dtype=torch.float16):
        assert torch.nn.functional.linear(x, x).dtype == torch.float16
    scaler = torch.npu.amp.GradScaler(init_scale=4.0)
    w = torch.ones(2, device="npu", requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler.scale(w.sum()).backward()
    scaler.step(optimizer)
    assert w.tolist() == [0.0, 0.0]


def test_a_data_loader_pins_its_batches():
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    moved = [batch.npu(non_blocking=True) for batch in batches]
    assert torch.cat(moved).tolist() == list(range(8))
    assert not torch.ones(2).is_pinned() and not moved[0].is_pinned()


def test_tensors_are_exchanged_through_dlpack():
    x = torch.randn(3, 4, device="npu")
    y = torch.from_dlpack(x)
    y[0, 0] = 5
    assert y.device == NPU and x[0, 0].item() == 5


def test_a_tensor_without_dense_memory_is_refused():
    x = torch.eye(3, device="npu")
    with pytest.raises(NotImplementedError, match="layout Sparse.*\n  why: .*dense\n  fix: "):
        x.to_sparse()
    with pytest.raises(RuntimeError, match="only tensors of the cpu can be pinned"):
        torch.empty(2, device="npu", pin_memory=True)
    with pytest.raises(RuntimeError, match="a copy from meta to npu:0|meta"):
        x.copy_(torch.empty(3, 3, device="meta"))


def test_memory_that_does_not_exist_is_an_error_of_pytorch():
    with pytest.raises(torch.OutOfMemoryError, match="npu:0: no memory for .*\n  why: .*\n  fix"):
        torch.empty(1 << 60, dtype=torch.uint8, device="npu")


def test_a_tensor_whose_storage_was_resized_is_refused_until_it_is_back():
    x = torch.ones(1 << 20, device="npu")
    part = x[5::2]
    for _ in range(5):
        x.add_(1)  # pending: owns the memory that goes
    uses = [lambda t: t.add_(1), lambda t: t + 1, lambda t: t.sum(), lambda t: t.clone(),
            lambda t: torch.cumsum(t, 0), lambda t: torch.ops.pto.gelu(t), lambda t: t.cpu(),
            lambda t: t.fill_(2), lambda t: torch.mul(t, t, out=torch.empty_like(t))]  # fmt: skip
    for bytes_ in (0, 4 << 10, (4 << 20) - 4):
        x.untyped_storage().resize_(bytes_)
        for use in uses:
            for tensor in (x, part):
                if tensor is part and bytes_ > 4 << 10:
                    continue  # the last element is not its own
                with pytest.raises(RuntimeError, match="storage.*\n  why: .*resized|no memory"):
                    use(tensor)
    x.untyped_storage().resize_(4 << 20)
    assert x.fill_(3).sum().item() == 3 << 20


HOSTILE = {
    "empty": lambda: torch.empty(0, 3),
    "without dimensions": lambda: torch.tensor(2.5),
    "of one element": lambda: torch.randn(1, 1, 1),
    "transposed": lambda: torch.randn(4, 5).t(),
    "with steps": lambda: torch.randn(20)[1::3],
    "expanded": lambda: torch.randn(3, 1).expand(3, 4),
    "with NaN and infinities": lambda: torch.tensor([float("nan"), float("inf"), -0.0]),
    "misaligned": lambda: torch.randn(9)[1:],
    "complex conjugate": lambda: torch.randn(3, 2, dtype=torch.complex64).conj(),
    "of integers": lambda: torch.arange(5),
    "of half precision": lambda: torch.randn(5).half(),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_tensor_of_this_kind_keeps_values_strides_and_types(kind):
    x = HOSTILE[kind]()
    y = pytest.importorskip("npu_samples").moved(x)
    assert y.stride() == x.stride() and y.storage_offset() == x.storage_offset()
    for function in (
        lambda t: t + t,
        lambda t: t * 2,
        lambda t: t.clone().add_(t),
        lambda t: t.clone().mul_(1),
        lambda t: torch.tanh(t),
        lambda t: t.sum(),
        lambda t: t.unsqueeze(0).flatten(),
    ):
        want, got = function(x), function(y)
        assert got.dtype == want.dtype and got.stride() == want.stride()
        torch.testing.assert_close(got.cpu(), want, equal_nan=True)


def test_overlapping_and_expanded_outputs_are_refused_as_on_the_cpu():
    for device in ("cpu", "npu"):
        x = torch.zeros(6, device=device)
        with pytest.raises(RuntimeError, match="memory location|overlap"):
            x[1:].add_(x[:-1])
        with pytest.raises(RuntimeError, match="memory location|overlap"):
            x[1:].copy_(x[:-1])
        with pytest.raises(RuntimeError, match="memory location|overlap"):
            torch.zeros(1, device=device).expand(3).add_(1)
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            torch.zeros(3, device=device).add_(torch.ones(2, 3, device=device))


@pytest.mark.parametrize("mask", [None, "given", "with gradient"])
def test_attention_takes_the_fused_kernel_of_the_cpu_with_its_gradient(mask):
    host = [torch.randn(2, 4, 16, 8, requires_grad=True) for _ in range(3)]
    if mask is not None:
        host.append(torch.randn(2, 1, 16, 16, requires_grad=mask == "with gradient"))
    device = [x.detach().npu().requires_grad_(x.requires_grad) for x in host]
    want, got = (torch.nn.functional.scaled_dot_product_attention(*x) for x in (host, device))
    assert ("Fused" in type(got.grad_fn).__name__) == (mask != "with gradient")
    torch.testing.assert_close(got.cpu(), want)
    want.square().sum().backward()
    got.square().sum().backward()
    for a, b in zip(host, device, strict=True):
        assert a.grad is b.grad is None or torch.allclose(b.grad.cpu(), a.grad, atol=1e-5)
