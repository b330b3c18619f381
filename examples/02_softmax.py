# SPDX-License-Identifier: Apache-2.0
"""A Python function becomes one fused kernel: softmax on torch tensors and NumPy arrays."""

import numpy as np
import torch

import pto


@pto.jit
def softmax(x: pto.Tensor) -> pto.Tensor:
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)


@pto.jit
def masked_softmax(x: pto.Tensor, mask: pto.Tensor, *, scale: float = 1.0) -> pto.Tensor:
    """Constants such as `scale` are compiled in; a bool tensor chooses, instead of an `if`."""
    y: pto.Tensor = softmax(pto.where(mask, x * scale, -1e9))
    return y


# torch in, torch out: compiled on the first call, cached on disk, any size after that.
x = torch.randn(4096, 1024)
print("largest difference from PyTorch:", float((softmax(x) - torch.softmax(x, -1)).abs().max()))

# NumPy in, NumPy out; strides are read where they lie, without a copy.
a = np.random.default_rng(0).standard_normal((300, 64), np.float32)
print("rows add up to 1:", bool(np.allclose(softmax(a.T[::-1]).sum(-1), 1)))

# Another function inside is fused into the same kernel.
mask = torch.ones(4096, 1024, dtype=torch.bool).tril()
print("first masked row:", masked_softmax(x, mask, scale=0.125)[0, :3].tolist())

# Prints the graph, after each pass too, and the plan: kernels, memory, choices. The C++ follows.
print(softmax.explain(x).split("==== C++")[0])
