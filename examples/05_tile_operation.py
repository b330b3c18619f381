# SPDX-License-Identifier: Apache-2.0
"""Operations of elements that this file defines, one in the language and one in C++ on tiles.

    python examples/05_tile_operation.py

They fuse with their neighbours as `exp` does, and need no change in the package.
"""

import numpy as np
import torch

import pto


@pto.tile_op("softcap(Tensor x, float c) -> Tensor")
class softcap:  # noqa: N801 the class becomes a function
    """c * tanh(x / c): the identity near 0, never beyond c."""

    def body(x, c):
        return c * pto.tanh(x / c)

    def oracle(x, c):
        return c * np.tanh(x / c)


@pto.tile_op("squared_relu(Tensor x) -> Tensor")
class squared_relu:  # noqa: N801
    """max(x, 0) squared."""

    cpp = """
      auto positive = x;  // a tile of a few vectors, in registers
      TRELU(positive, x);
      TMUL(dst, positive, positive);
    """

    def oracle(x):
        return np.maximum(x, 0) ** 2

    def grad(ctx, d_result):
        return {"x": d_result * 2 * pto.relu(ctx.saved("x"))}


@pto.jit
def scores(x, y):
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
