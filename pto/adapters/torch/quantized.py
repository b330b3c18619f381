# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits that PyTorch packed, as linear_int4 takes them.

    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
    weight, scale, zero = pto.torch.int4_from_torch(packed, scales_and_zeros, group=64)
    torch.ops.pto.linear_int4(x, weight, scale, zero, group=64)

PyTorch's layout depends on the CPU, so PyTorch's own product with an identity matrix reads it,
which is exact. Thread safety: a pure function.
"""

import torch
from pto.errors import InvalidValue

ROWS = 256  # of the identity matrix at once
GROUPS = (32, 64, 128, 256)  # that PyTorch's product knows


def int4_from_torch(
    packed: torch.Tensor, scales_and_zeros: torch.Tensor, group: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(weight, scale, zero) of linear_int4 for the arguments of _weight_int4pack_mm_for_cpu.

    `packed` is [outputs, inputs / 2], `scales_and_zeros` [inputs / group, outputs, 2]. PyTorch's
    numbers 0 .. 15 stand for (number - 8) * scale + zero, so they become -8 .. 7. Raises
    InvalidValue for what PyTorch packs in no such way.
    """
    both = packed, scales_and_zeros
    if not (
        all(isinstance(x, torch.Tensor) and x.is_cpu and x.layout == torch.strided for x in both)
        and group in GROUPS and packed.dtype == torch.uint8 and packed.ndim == 2
        and scales_and_zeros.is_floating_point()
        and scales_and_zeros.shape == (2 * packed.shape[1] / group, packed.shape[0], 2)
        and packed.shape[0] % 16 == 0 < packed.shape[1]
    ):  # fmt: skip
        given = [f"{getattr(x, 'dtype', type(x))} {[*getattr(x, 'shape', '')]}" for x in both]
        raise InvalidValue(
            f"int4_from_torch: packed is {given[0]} and scales_and_zeros {given[1]} with groups of "
            f"{group!r:.40}",
            "they are uint8 [outputs, inputs / 2], with 16, 32 .. outputs, and floats "
            f"[inputs / group, outputs, 2], dense on the CPU; a group is one of {GROUPS}",
            "pass the group that the scales were made for, and weights that PyTorch packed",
        )
    packed, group = packed.contiguous(), int(group)
    groups, outputs, depth = scales_and_zeros.shape[0], packed.shape[0], packed.shape[1] * 2
    one = torch.tensor([1.0, 0.0]).expand(groups, outputs, 2).contiguous()
    read, eye = torch.ops.aten._weight_int4pack_mm_for_cpu, torch.eye(ROWS, depth)
    parts = []
    for first in range(0, depth, ROWS):
        rows = min(ROWS, depth - first)
        parts.append(read(eye.roll(first, 1)[:rows], packed, group, one).to(torch.int8))
    numbers = torch.cat(parts).t() & 15
    weight = (numbers[:, ::2] | numbers[:, 1::2] << 4).contiguous().view(torch.uint8)
    scale, zero = scales_and_zeros.unbind(-1)
    return weight, scale.contiguous(), zero.contiguous()
