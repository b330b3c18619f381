# SPDX-License-Identifier: Apache-2.0
"""The roofline of a few rows times a weight: it is read once, and multiplied.

In use:

    packed = packed_once(lambda: ops.linear(x, weight))
    yield from of_weight(weight.nbytes, packed, setting, multiply_adds, has_parts=True)
"""

from collections.abc import Callable, Iterator

import torch

import pto
from pto.bench.ceilings import binding, peaks
from pto.bench.runner import Ceiling, Setting
from pto.ceilings import Read

REACHED = 0.9  # of the peak in registers: the most that multiply-adds reach beside loads
READ, READ_PACKED = "read", "read packed"


def of_weight(
    own: int, packed: int, setting: Setting, multiply_adds: float,
    dtype: str = "f32", has_parts: bool = False,
) -> Iterator[Ceiling]:  # fmt: skip
    """The larger of reading the weight's own bytes and of so many multiply-adds; and the same with
    the bytes of the packed weight, where these are more."""
    ways = peaks(dtype, setting.threads, multiply_adds / REACHED, has_parts)
    computed = binding(ways, choose=min)
    for name, nbytes in ((READ, own), (READ_PACKED, packed)):
        if name == READ or nbytes > own:
            memory = torch.ones(nbytes, dtype=torch.uint8)  # zeros may be one page of the system's
            yield binding([Ceiling(name, Read(memory, setting.threads), 1), computed])


def packed_once(call: Callable) -> int:
    """Calls until the weight is packed; returns the bytes of that, 0 where it is not."""
    before = pto.memory()["packed_weights"]
    for _ in range(3):
        call()
    return pto.memory()["packed_weights"] - before
