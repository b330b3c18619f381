# SPDX-License-Identifier: Apache-2.0
"""An operator, defined once: inside PyTorch it has a gradient, fake tensors and torch.compile.

Annotations and the base pto.Definition are for type checkers; pto needs neither.
"""

import numpy as np
import torch
from numpy.typing import NDArray

import pto
import pto.torch  # makes every operator torch.ops.pto.NAME
from pto import op


@op("soft_clip(Tensor x, *, float limit=1.0) -> Tensor")
class SoftClip(pto.Definition):
    """limit * tanh(x / limit): the identity near 0, never beyond the limit."""

    def build(x: pto.Tensor, limit: float) -> pto.Tensor:
        return limit * pto.tanh(x / limit)

    def grad(ctx: pto.GradientContext, d_result: pto.Tensor) -> dict[str, pto.Tensor]:
        t = pto.tanh(ctx.saved("x") / ctx.attribute("limit"))
        return {"x": d_result * (1 - t * t)}

    def oracle(x: NDArray[np.float64], limit: float = 1.0) -> NDArray[np.float64]:
        return limit * np.tanh(x / limit)

    tolerance = {pto.f32: 1e-6, pto.f64: 1e-14}


x = torch.randn(1000, 257, requires_grad=True)
y = torch.ops.pto.soft_clip(x, limit=2.5)  # compiled at the first call; limit is free
y.sum().backward()

expected = 2.5 * np.tanh(x.detach().double().numpy() / 2.5)
print("difference from the oracle:", f"{np.abs(y.detach().numpy() - expected).max():.1e}")
small = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
agrees = torch.autograd.gradcheck(torch.ops.pto.soft_clip, (small,))
print("gradient agrees with finite differences:", agrees)
print("PyTorch's checks:", torch.library.opcheck(torch.ops.pto.soft_clip.default, (x,)))


@torch.compile(fullgraph=True, backend="aot_eager")
def compiled(x: torch.Tensor) -> torch.Tensor:
    mean: torch.Tensor = torch.ops.pto.soft_clip(x * 2).mean()
    return mean


print("compiled agrees:", torch.allclose(compiled(x), torch.ops.pto.soft_clip(x * 2).mean()))
