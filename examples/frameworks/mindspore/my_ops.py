# SPDX-License-Identifier: Apache-2.0
"""my_add_relu in MindSpore: defined once, with a gradient; PyNative and graph mode.

Run it:

    python my_ops.py
"""

import mindspore as ms
import numpy as np
from numpy.typing import NDArray

import pto
import pto.mindspore
from pto import op


@op("my_add_relu(Tensor x, Tensor y) -> Tensor")
class MyAddRelu(pto.Definition):
    """max(x + y, 0); shapes broadcast."""

    def build(x: pto.Tensor, y: pto.Tensor) -> pto.Tensor:
        return pto.maximum(x + y, 0)

    def grad(ctx: pto.GradientContext, d_result: pto.Tensor) -> dict[str, pto.Tensor]:
        d = pto.where(ctx.saved("x") + ctx.saved("y") > 0, d_result, 0.0)
        return {"x": d, "y": d}

    def oracle(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(x + y, 0)

    tolerance = {pto.f32: 1e-6, pto.f64: 1e-14}


my_add_relu = pto.mindspore.my_add_relu


class Net(ms.nn.Cell):
    def construct(self, x: ms.Tensor, y: ms.Tensor) -> ms.Tensor:
        return my_add_relu(x, y)


if __name__ == "__main__":
    a = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)
    b = np.array([0.5, -1.0, 0.0], np.float32)
    x, y = ms.Tensor(a), ms.Tensor(b)
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        agrees = np.array_equal(Net()(x, y).asnumpy(), np.maximum(a + b, 0))
        print("equals its definition:", agrees)
    d_x = ms.grad(Net())(x, y)
    print("gradient:", np.array_equal(d_x.asnumpy(), (a + b > 0).astype(np.float32)))
