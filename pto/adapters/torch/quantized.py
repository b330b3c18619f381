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


def int4_from_torch(
    packed: torch.Tensor, scales_and_zeros: torch.Tensor, group: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(weight, scale, zero) of linear_int4 for the arguments of _weight_int4pack_mm_for_cpu.

    `packed` is [outputs, inputs / 2], `scales_and_zeros` [inputs / group, outputs, 2]. PyTorch's
    numbers 0 .. 15 stand for (number - 8) * scale + zero, so they become -8 .. 7. Raises
    InvalidValue for shapes that do not fit the group.
    """
    has_axes = packed.ndim == 2 and scales_and_zeros.ndim == 3
    groups, outputs, depth = -1, -1, -1
    if has_axes:
        groups, outputs, depth = scales_and_zeros.shape[0], packed.shape[0], packed.shape[1] * 2
    if scales_and_zeros.shape != (groups, outputs, 2) or groups * group != depth:
        raise InvalidValue(
            f"int4_from_torch: packed is {list(packed.shape)} and scales_and_zeros "
            f"{list(scales_and_zeros.shape)} with groups of {group}",
            "they are [outputs, inputs / 2] and [inputs / group, outputs, 2]",
            "pass the group that the scales were made for",
        )
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
