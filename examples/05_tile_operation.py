# SPDX-License-Identifier: Apache-2.0
"""Operations of elements that this file defines, one in the language and one in C++ on tiles.

    python examples/05_tile_operation.py

They fuse with their neighbours as `exp` does, and need no change in the package.
"""

import numpy as np
import torch
from numpy.typing import NDArray

import pto


def softcap_oracle(x: NDArray[np.float64], c: float) -> NDArray[np.float64]:
    return c * np.tanh(x / c)


@pto.tile_op("softcap(Tensor x, float c) -> Tensor", oracle=softcap_oracle)
def softcap(x: pto.Tensor, c: float) -> pto.Tensor:
    """c * tanh(x / c): the identity near 0, never beyond c."""
    return c * pto.tanh(x / c)


@pto.tile_op("squared_relu(Tensor x) -> Tensor")
class squared_relu(pto.Definition):
    """max(x, 0) squared."""

    cpp = """
      auto positive = x;  // a tile of a few vectors, in registers
      TRELU(positive, x);
      TMUL(dst, positive, positive);
    """

    def oracle(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.square(np.maximum(x, 0))

    def grad(ctx: pto.GradientContext, d_result: pto.Tensor) -> dict[str, pto.Tensor]:
        return {"x": d_result * 2 * pto.relu(ctx.saved("x"))}


@pto.jit
def scores(x: pto.Tensor, y: pto.Tensor) -> pto.Tensor:
    return pto.softmax(softcap(x, 30.0)) * squared_relu(y)


def main() -> None:
    print(softcap.check() + squared_relu.check(), "cases of the laws hold")
    x = torch.randn(64, 1000, requires_grad=True)
    y = torch.randn(64, 1000)
    want = torch.softmax(30 * torch.tanh(x / 30), -1) * torch.relu(y) ** 2
    torch.testing.assert_close(scores(x, y), want, rtol=1e-4, atol=1e-6)
    (found,) = torch.autograd.grad(scores(x, y).sum(), x)
    (expected,) = torch.autograd.grad(want.sum(), x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    (kernel,) = scores.explain(x.detach(), y).steps_of("kernel")
    print("one kernel:", " ".join(kernel.operations))


if __name__ == "__main__":
    main()
