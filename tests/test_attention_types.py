# SPDX-License-Identifier: Apache-2.0
"""Attention of f16 and bf16: where it rounds."""

import pytest
import torch

import pto.torch  # noqa: F401 registers torch.ops.pto
from pto import _core

attention = torch.ops.pto.attention


def heads(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(shape)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_types_round_once(dtype):
    layout = _core.matmul_layout("bf16")
    if dtype == torch.bfloat16 and ("AMX" in layout or "AVX512_BF16" in layout):
        pytest.skip("on tiles and in pairs weights are rounded too")
    q, k, v = (heads(1, 2, 50, 40).to(dtype) for _ in range(3))
    expected = attention(q.float(), k.float(), v.float()).to(dtype)
    assert torch.equal(attention(q, k, v), expected)


def test_bf16_rounds_weights_and_results_at_most():
    q, k, v = (heads(1, 2, queries, 64).bfloat16() for queries in (70, 1200, 1200))
    weights = torch.softmax(q.double() @ k.double().mT / 8, -1)
    exact, absolute = weights @ v.double(), weights @ v.double().abs()
    error = 2**-8 * (absolute + exact.abs()) * (1 + 2**-6)  # half a last place is at most 2^-8
    assert ((attention(q, k, v).double() - exact).abs() <= error).all()
    assert torch.equal(attention(q[..., :3, :], k, v), attention(q, k, v)[..., :3, :])
