# SPDX-License-Identifier: Apache-2.0
"""Attention of a few queries, which read keys and values where they lie."""

import pytest
import torch

import pto.torch  # noqa: F401 registers torch.ops.pto

attention = torch.ops.pto.attention


def heads(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("widths", [(128, 128), (80, 32), (12, 48), (7, 5)], ids=str)
def test_few_queries_that_read_keys_where_they_lie_have_the_bits_of_many(widths, dtype):
    q, k, v = (
        x.to(dtype)
        for x in (heads(8, 60, widths[0]), heads(2, 650, widths[0]), heads(2, 650, widths[1]))
    )
    for options in ({}, {"causal": True, "window": [333, -1], "position": 570}):
        many = attention(q, k, v, **options)
        for first, count in ((0, 1), (7, 2), (20, 3), (55, 5)):
            few = attention(
                q[:, first : first + count],
                k,
                v,
                **options | {"position": options.get("position", 0) + first},
            )
            assert torch.equal(few, many[:, first : first + count]), (options, first, count)
