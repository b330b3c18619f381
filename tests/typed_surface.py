# SPDX-License-Identifier: Apache-2.0
"""The public surface as a user with a type checker writes it: tests/test_types.py."""

import inspect

import numpy as np
from numpy.typing import NDArray

import pto
import pto.torch
from pto import op
from pto.testing import Report, assert_close, check


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


@pto.jit
def operations(x: pto.Tensor, index: pto.Tensor, k: int = 2) -> dict[str, pto.Tensor]:
    rows, width = x.shape
    found = pto.topk(x, k, largest=True)
    values, scale = pto.quantize(x, -1, "i8")
    half = x.astype(pto.bf16).to(np.dtype("f4")).cast("f32", pto.CastMode.RINT, saturate=True)
    with pto.options(merge=4, order="longest"), pto.leaf("row"):
        product = x @ x.transpose(0, 1) + pto.matmul(x, x, pto.f32, b_trans=True)
    padded = pto.pad(x, (1, 1), value=0.5)[:, 1:-1].reshape(-1, width).reshape([rows, -1])
    picked = x[index][None, ..., 0] + x[0] * 2 - pto.arange(width).float()
    ends = pto.min(rows, 4) + pto.ceildiv(width, 2)
    chosen = pto.where(x > 0, 1.0, x.clip(0, max=ends)) ** 2
    inner = softmax(x, scale=0.5)
    normal = pto.gelu(pto.rms_norm(x, eps=1e-5), approximate="tanh") + inner
    x = x.amax((0, 1), keepdim=True).sum(dim=[0]) + found.indices.float().amax() + half
    return {"x": x + product, "y": padded + picked + chosen, "z": values.float() * scale + normal}


class Layer:
    factor = 2.0

    @pto.jit
    def scaled(self, x: pto.Tensor) -> pto.Tensor:
        return x * self.factor


@op("typed_scale(Tensor x, *, float alpha=1.0) -> Tensor")
class Scale(pto.Definition):
    """x * alpha."""

    def infer(x: pto.Spec, alpha: float) -> pto.Spec:
        return x.like()

    def build(x: pto.Tensor, alpha: float) -> pto.Tensor:
        return x * alpha

    def grad(ctx: pto.GradientContext, d_result: pto.Tensor) -> dict[str, pto.Tensor]:
        return {"x": d_result * ctx.attribute("alpha")}

    def oracle(x: NDArray[np.float32], alpha: float = 1.0) -> NDArray[np.float32]:
        return x * np.float32(alpha)

    tolerance = {pto.f32: 0.0}


def use() -> None:
    x = np.ones((4, 8), np.float32)
    y = softmax(x, scale=2.0)
    assert_close(y, np.full((4, 8), 0.125), {pto.f32: 1e-6})
    total, positive = normed(x, x[0])
    scaled = Scale(x, alpha=2.0)
    softmax(x=x, out=y)
    parts = operations(x, index=np.arange(4), k=1)
    print(Layer().scaled(x), Layer().scaled.explain(x), parts["x"].mean(0).tolist(), scaled.shape)
    print(pto.softmax(x, -1).tolist(), float(pto.maximum(x, 2.0).mean()), len(pto.exp(x)))
    graph: pto.Graph = softmax.trace(x)
    text: str = graph.dot()
    steps = softmax.explain(x).steps
    print(total, positive, scaled, text, [step.title for step in steps])
    print(
        pto.ops.softmax(x, -1),
        pto.torch.softmax(x, -1),
        pto.torch.of_a_user(x),
        inspect.signature(pto.ops.softmax),
    )
    pto.config.threads = 1
    pto.config.interpret = False
    compiled: pto.Jit = softmax
    compiled.warm(x)
    pto.package({softmax: [(x,)]}, "softmax.pto")
    loaded = pto.load("softmax.pto")
    print(loaded)
    with pto.Runtime(level="chip") as runtime:
        print(runtime.report())


def test_scale() -> None:
    report: Report = check(Scale)
    print(report, check(Scale, "torch", deep=True).is_good)
    pto.testing.check(pto.ops.softmax, ["NumPy", "PyTorch"])


def failing() -> None:
    try:
        softmax(np.ones((4,), np.complex64))
    except pto.Error as error:
        print(error.what, error.why, error.fix)
