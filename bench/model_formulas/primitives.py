# SPDX-License-Identifier: Apache-2.0
"""Roundings, turns and caches that the formulas of the operators share."""

import torch

BF16 = torch.bfloat16


def random(*shape, scale=1.0):
    return (torch.randn(shape) * scale).to(BF16)


def random_bytes(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def q8(v):
    v = v.float()
    most = v.abs().amax(-1, keepdim=True)
    factor = torch.where(most == 0, 0.0, torch.full_like(most, 127.0) / most)
    values = (v * factor).round().clamp(-128, 127).to(torch.int8)
    return values, torch.where(most == 0, 0.0, 1 / factor)


def rope_half(v, cos, sin):
    half, wide = v.shape[-1] // 2, v.float()
    return (wide * cos + torch.cat([-wide[..., half:], wide[..., :half]], -1) * sin).to(v.dtype)


def scatter(cache, slots, rows):
    """cache[slot] = row."""
    flat = cache.view(-1, *cache.shape[2:])
    flat[slots] = rows.reshape(-1, *flat.shape[1:])


def lasting(slots):
    """Which slots are written: -1 is skipped, and the last of equal ones stays."""
    numbers = slots.tolist()
    return torch.tensor(
        [s >= 0 and s not in numbers[i + 1 :] for i, s in enumerate(numbers)], dtype=torch.bool
    )


def rms_norm(v, gamma):
    wide = v.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (wide * scale * gamma.float()).to(v.dtype)


def rope_pair(v, cos, sin):
    """rope_half of the even elements, then the odd ones."""
    return rope_half(torch.cat([v[..., ::2], v[..., 1::2]], -1), cos, sin)
