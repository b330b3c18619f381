# SPDX-License-Identifier: Apache-2.0
"""Attention with gradients on the npu device, under torch.compile too: it trains as on the CPU."""

import pytest
import torch

import pto.torch  # noqa: F401 makes the device where it is built
from pto.adapters.torch import activation

pytestmark = pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")

F = torch.nn.functional
HEADS, WIDTH = 2, 16


def causal(s: int, device: torch.device) -> torch.Tensor:
    return torch.ones(s, s, dtype=torch.bool, device=device).tril()


class Attention(torch.nn.Module):
    """A residual block of attention, its tensors laid out in one of many ways."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def heads(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b, s, _ = x.shape
        y = self.qkv(self.norm(x))
        if self.kind == "packed":
            return y.view(b, s, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q, k, v = (t.view(b, s, HEADS, -1).transpose(1, 2) for t in y.chunk(3, -1))
        if self.kind == "dense":
            return q.contiguous(), k.contiguous(), v.contiguous()
        if self.kind == "mixed":
            return q.contiguous(), k, v
        return q, k, v

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        mask = None
        if self.kind == "mask":
            mask = causal(s, x.device)
        if self.kind == "numbers":
            mask = torch.zeros(b, 1, s, s, device=x.device)
            mask = mask.masked_fill(~causal(s, x.device), -1e9)
        scale = 0.3 if self.kind == "mixed" else None
        y = F.scaled_dot_product_attention(
            *self.heads(x), attn_mask=mask, is_causal=self.kind == "causal", scale=scale
        )
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.TransformerDecoderLayer(WIDTH, HEADS, 32, 0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x[:, :3])


def model(kind: str) -> torch.nn.Module:
    if kind == "encoder":
        return torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 32, 0.0, batch_first=True)
    return Decoder() if kind == "decoder" else Attention(kind)


KINDS = ["causal", "mask", "numbers", "packed", "dense", "mixed", "encoder", "decoder"]


def check_training(kind: str, backend: str | None, lengths: tuple[int, ...]) -> None:
    """Steps on the CPU and on the device give the same losses, gradients and parameters."""
    torch.manual_seed(5)
    torch._dynamo.reset()
    models = [model(kind), model(kind)]
    models[1].load_state_dict(models[0].state_dict())
    models[1].npu()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
    steps = [models[0], torch.compile(models[1], backend=backend) if backend else models[1]]
    for length in lengths:
        x = torch.randn(3, length, WIDTH)
        inputs = [x.clone().requires_grad_(), x.npu().requires_grad_()]
        losses = []
        for step, optimizer, given in zip(steps, optimizers, inputs, strict=True):
            optimizer.zero_grad()
            losses.append(step(given).square().mean())
            losses[-1].backward()
            optimizer.step()
        parameters = [list(m.parameters()) for m in models]
        pairs = [losses, [t.grad for t in inputs], *zip(*parameters, strict=True)]
        for want, got in pairs:
            torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_trains_on_the_device_as_on_the_cpu(kind):
    check_training(kind, None, (5, 8, 1))


@pytest.mark.parametrize("kind", ["dense", "encoder"])
def test_a_compiled_transformer_trains_as_on_the_cpu(kind):
    check_training(kind, "aot_eager", (5, 5, 8))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_transformer_trains_at_any_length(kind, backend, deep):
    if not deep:
        pytest.skip("compiles for minutes: PTO_DEEP=1")
    check_training(kind, backend, (5, 5, 8, 11, 16))


def results(heads: tuple[torch.Tensor, ...], **options) -> tuple[torch.Tensor, ...]:
    operator = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    return operator(*heads, **options)


# Law: results and gradients of the fused operator have the sizes and strides that PyTorch's fake
# tensors have, and are defined where those are, in whatever layout the operands lie.
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1)])
def test_results_are_laid_out_as_pytorch_says(order):
    back = [order.index(axis) for axis in range(3)] + [3]
    sizes = (2, 3, 5, 4)
    laid_out = [torch.randn([sizes[axis] for axis in order] + [4]).npu() for _ in range(3)]
    heads = [t.permute(back) for t in laid_out]
    want = results([t.to("meta") for t in heads])
    got = results(heads)
    for a, b in zip(want, got, strict=True):
        assert (a is None) == (b is None)
        if isinstance(a, torch.Tensor):
            assert (b.shape, b.stride(), b.dtype) == (a.shape, a.stride(), a.dtype)
    backward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward
    d = torch.randn(sizes, device="npu")
    grads = backward(d, *heads, None, [True] * 3 + [False], *got[:4], 5, 5, 0.0, False, *got[6:8])
    for grad, operand in zip(grads, heads, strict=False):
        assert (grad.shape, grad.stride()) == (operand.shape, operand.stride())
