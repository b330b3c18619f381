# SPDX-License-Identifier: Apache-2.0
"""The public surface as a user with a type checker writes it: tests/test_types.py."""

import inspect

import numpy as np
from numpy.typing import NDArray

import pto
from pto import op
from pto.testing import assert_close


@pto.jit
def softmax(x: pto.Tensor, scale: float = 1.0) -> pto.Tensor:
    e = pto.exp((x - pto.amax(x, -1, keepdim=True)) * scale)
    pto.print("largest", pto.amax(e), sep=": ")
    return e / pto.sum(e, -1, keepdim=True)


@pto.jit(constants=("eps",), fuse=False)
def normed(x: pto.Tensor, gamma: pto.Tensor, eps: float = 1e-6) -> tuple[pto.Tensor, pto.Tensor]:
    mean = pto.mean(x * x, -1, keepdim=True)
    rows, width = x.shape
    total = pto.zeros([rows, width], pto.f32)
    for i in pto.loop(rows):
        total[i] = x[i] * pto.rsqrt(mean[i] + eps) * gamma
    return total, pto.where(total > 0, total, -total)


class Scale:
    """x * alpha."""

    @staticmethod
    def build(x: pto.Tensor, alpha: float) -> pto.Tensor:
        return x * alpha

    @staticmethod
    def oracle(x: NDArray[np.float32], alpha: float = 1.0) -> NDArray[np.float32]:
        return x * np.float32(alpha)

    grad = "automatic"
    tolerance = {pto.f32: 0.0}


# mypy takes what a decorator makes of a class for the class itself: a name for the operator helps.
typed_scale = op("typed_scale(Tensor x, *, float alpha=1.0) -> Tensor")(Scale)


def use() -> None:
    x = np.ones((4, 8), np.float32)
    y = softmax(x, scale=2.0)
    assert_close(y, np.full((4, 8), 0.125), {pto.f32: 1e-6})
    total, positive = normed(x, x[0])
    scaled = typed_scale(x, alpha=2.0)
    graph: pto.Graph = softmax.trace(x)
    text: str = graph.dot()
    steps = softmax.explain(x).steps
    print(total, positive, scaled, text, [step.title for step in steps])
    print(pto.ops.softmax(x, -1), inspect.signature(pto.ops.softmax))
    pto.config.threads = 1
    pto.config.interpret = False
    softmax.warm(x)
    pto.package({softmax: [(x,)]}, "softmax.pto")
    loaded = pto.load("softmax.pto")
    print(loaded)
    with pto.Runtime(level="chip") as runtime:
        print(runtime.report())


def failing() -> None:
    try:
        softmax(np.ones((4,), np.complex64))
    except pto.Error as error:
        print(error.what, error.why, error.fix)
