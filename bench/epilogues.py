# SPDX-License-Identifier: Apache-2.0
"""Layers with what follows them, beside the product alone and the row functions alone.

`linear_gelu`: bias and GELU; `linear_layer_norm`: bias, residual and LayerNorm. Sizes are rows x
depth x columns. "product, rows" is the product, then the same row functions as often on rows that
lie in the first cache, called as an adapter calls them; on several threads each does its share.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import direct, kernels
from bench.language_layers import CACHED, giving
from pto.bench.runner import Ceiling, Expected, Setting, case

SIZES = [(128, 384, 1536), (512, 1536, 384), (4096, 4096, 4096)]  # rows x depth x columns
LONG = 4096  # rows: seconds a call, so PyTorch, with which no goal compares, is left out
EPS = 1e-5


def row_functions(
    name: str, setting: Setting, tensors: Callable, attributes: tuple
) -> Callable[[], None]:
    """Runs an operator on as many elements as the result has, on few rows again and again."""
    rows, _, columns = setting.size
    few = max(1, min(rows, CACHED // (4 * columns)))
    x, out = torch.randn(2, few, columns).unbind()
    one = direct.contender(name, tensors(x), attributes, out, kernels.reference().place)
    calls = range(max(1, rows // (few * setting.threads)))

    def run() -> None:
        for _ in calls:
            one()

    return run


def after(product: Callable, rows: Callable) -> Callable[[], None]:
    def run() -> None:
        product()
        rows()

    return run


def gelu(setting: Setting) -> Iterator[Any]:
    m, k, n = setting.size
    a, weight, bias = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
    ops = torch.ops.pto

    def ours() -> torch.Tensor:
        return ops.linear(a, weight, bias, activation="gelu")

    def product() -> torch.Tensor:
        return ops.linear(a, weight)

    rows = row_functions("bias_gelu", setting, lambda x: [x, bias], ("none",))
    yield "pto", ours
    yield "product, rows", giving(ours(), after(product, rows))
    if m < LONG:
        yield "torch", lambda: F.gelu(F.linear(a, weight, bias))
    yield Ceiling("product", product, 1)
    right = weight.double().t()
    yield Expected(
        lambda rows: F.gelu(a[rows].double() @ right + bias.double()), tolerance=1e-6 * k
    )


def layer_norm(setting: Setting) -> Iterator[Any]:
    m, k, n = setting.size
    a, weight = torch.randn(m, k), torch.randn(n, k) / k**0.5
    residual, (bias, gain, shift) = torch.randn(m, n), torch.randn(3, n).unbind()
    ops = torch.ops.pto

    def ours() -> torch.Tensor:
        return ops.bias_add_layer_norm(ops.linear(a, weight), bias, residual, gain, shift, EPS)

    def product() -> torch.Tensor:
        return ops.linear(a, weight)

    def theirs() -> torch.Tensor:
        return F.layer_norm(F.linear(a, weight, bias) + residual, (n,), gain, shift, EPS)

    def given(x: torch.Tensor) -> list[torch.Tensor]:
        return [x, bias, residual[: len(x)], gain, shift]

    rows = row_functions("bias_add_layer_norm", setting, given, (EPS,))
    yield "pto", ours
    yield "product, rows", giving(ours(), after(product, rows))
    if m < LONG:
        yield "torch", theirs
    yield Ceiling("product", product, 1)
    right = weight.double().t()

    def exact(rows) -> torch.Tensor:
        summed = a[rows].double() @ right + bias.double() + residual[rows].double()
        return F.layer_norm(summed, (n,), gain.double(), shift.double(), EPS)

    yield Expected(exact, tolerance=1e-4)


case("linear_gelu", sizes=SIZES, dtypes=["f32"])(gelu)
case("linear_layer_norm", sizes=SIZES, dtypes=["f32"])(layer_norm)
