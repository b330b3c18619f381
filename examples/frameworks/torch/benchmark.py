# SPDX-License-Identifier: Apache-2.0
"""The operators beside PyTorch's own, in one process and turn by turn: medians, and their ratio.

Run it:

    python benchmark.py [most elements]
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import my_ops
import torch
from torch import Tensor

Operator = Callable[..., Any]

ROUNDS = 11
ROUND_SECONDS = 0.01  # of one of the two


def seconds(call: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def compare(name: str, ours: Operator, theirs: Operator, x: Tensor, *more: Any) -> None:
    """Prints one line; the results must agree first."""
    torch.testing.assert_close(ours(x, *more), theirs(x, *more), rtol=1e-4, atol=1e-4)
    elements = x.numel()
    once = seconds(lambda: (ours(x, *more), theirs(x, *more)), 3)
    times = max(1, min(2000, round(2 * ROUND_SECONDS / once)))
    pairs = [
        (seconds(lambda: ours(x, *more), times), seconds(lambda: theirs(x, *more), times))
        for _ in range(ROUNDS)
    ]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"{name:22} {elements:9} {mine * 1e6:9.2f} us {other * 1e6:9.2f} us {ratio:6.2f} x")


@torch.no_grad()
def main(most: int) -> None:
    print(f"{'operator':22} {'elements':>9} {'ours':>12} {'PyTorch':>12}")
    for elements in (16, 1 << 14, 1 << 20):
        if elements <= most:
            x, y = torch.randn(elements), torch.randn(elements)
            compare("my_add", my_ops.my_add, torch.add, x, y)
            compare("my_scale", my_ops.my_scale, torch.mul, x, 0.5)
            compare("my_add_relu", my_ops.my_add_relu, lambda x, y: torch.relu(x + y), x, y)
    side = 16 if most > 1 << 16 else 4
    x, weight = torch.randn(2, 8, side, side), torch.randn(8, 8, 3, 3)
    compare("my_conv", my_ops.my_conv, torch.nn.functional.conv2d, x, weight)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 20)
