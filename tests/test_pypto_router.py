# SPDX-License-Identifier: Apache-2.0
"""The slides' softmax in the top-k router of a real mixture of experts."""

import pytest
import torch
from test_annotations import dynamic_softmax
from torch.nn import functional

import pto

modeling = pytest.importorskip("transformers.models.qwen3_moe.modeling_qwen3_moe")


class Functional:
    """torch.nn.functional whose softmax is the program; `calls` has the shapes that it got."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return getattr(functional, name)

    def softmax(self, logits, dim, dtype):
        assert dim == 1
        self.calls.append(tuple(logits.shape))
        x = logits.to(dtype).reshape(-1, 4, 1, logits.shape[1])
        y = torch.empty_like(x)
        dynamic_softmax([x], [y])
        pto.device_synchronize()
        return y.reshape(logits.shape)


def test_the_router_of_a_real_block_chooses_the_same_experts(monkeypatch):
    torch.manual_seed(0)
    config = modeling.Qwen3MoeConfig(
        hidden_size=64, num_experts=64, num_experts_per_tok=8, moe_intermediate_size=32
    )
    block = modeling.Qwen3MoeSparseMoeBlock(config).eval()
    ours = Functional()
    for tokens in (4, 36):  # one program for all
        states = torch.randn(2, tokens // 2, 64)
        with torch.no_grad():
            wanted, wanted_logits = block(states)
            with monkeypatch.context() as patch:
                patch.setattr(modeling, "F", ours)
                made, logits = block(states)
        torch.testing.assert_close(made, wanted, rtol=1e-5, atol=1e-6)
        assert torch.equal(logits, wanted_logits)
    assert ours.calls == [(4, 64), (36, 64)]
