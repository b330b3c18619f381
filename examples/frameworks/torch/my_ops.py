# SPDX-License-Identifier: Apache-2.0
"""The operators of this folder for Python: fake kernels, the usual form of the in-place one, and
one that is written in Python altogether.

    python setup.py build_ext --inplace
    >>> import torch, my_ops
    >>> my_ops.my_add(torch.ones(2, 3), torch.ones(3))

torch.ops.my_ops.NAME are the operators themselves, as TorchScript and exported models call them.
"""

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# The library beside this file or on the path; or the file that a test has built.
_found = importlib.util.find_spec("my_ops_library")
LIBRARY = os.environ.get("MY_OPS_LIBRARY") or (
    _found.origin if _found else str(Path(__file__).with_name("my_ops_library.so"))
)
torch.ops.load_library(LIBRARY)

ops = torch.ops.my_ops
my_add, my_add_relu, my_scale = ops.my_add, ops.my_add_relu, ops.my_scale
my_scale_async, my_split, my_relu = ops.my_scale_async, ops.my_split, ops.my_relu
my_affine, my_conv, my_range = ops.my_affine, ops.my_conv, ops.my_range


def my_relu_(x: Tensor) -> Tensor:
    """max(x, 0) in place; returns x."""
    ops.my_relu_(x)
    return x


# Fake kernels: shapes without data, with sizes that may be symbols. torch.compile and torch.export
# need them, and tensors on "meta" get them too.
@torch.library.register_fake("my_ops::my_add")
@torch.library.register_fake("my_ops::my_add_relu")
def _(x: Tensor, y: Tensor) -> Tensor:
    return x.new_empty(torch.broadcast_shapes(x.shape, y.shape))


@torch.library.register_fake("my_ops::my_scale")
@torch.library.register_fake("my_ops::my_scale_async")
def _(x: Tensor, factor: float) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.register_fake("my_ops::my_relu")
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.register_fake("my_ops::my_relu_")
def _(x: Tensor) -> None:
    return None


@torch.library.register_fake("my_ops::my_affine")
def _(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.register_fake("my_ops::my_split")
def _(x: Tensor, parts: int, dim: int = 0) -> list[Tensor]:
    shape = list(x.shape)
    torch._check(shape[dim] % parts == 0)
    shape[dim] = shape[dim] // parts
    return [x.new_empty(shape) for _ in range(parts)]


@torch.library.register_fake("my_ops::my_range")
def _(x: Tensor) -> Tensor:
    return x.new_empty(2, dtype=torch.float64)


@torch.library.register_fake("my_ops::my_conv")
def _(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0
) -> Tensor:
    rows = (x.shape[2] + 2 * padding - weight.shape[2]) // stride + 1
    columns = (x.shape[3] + 2 * padding - weight.shape[3]) // stride + 1
    return x.new_empty((x.shape[0], weight.shape[0], rows, columns))


@torch.library.register_fake("my_ops::my_conv_backward")
def _(
    d_out: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int, wanted: Sequence[bool]
) -> tuple[Tensor, ...]:
    shapes = [x.shape, weight.shape, weight.shape[:1]]
    return tuple(
        x.new_empty(shape if is_wanted else (0,))
        for shape, is_wanted in zip(shapes, wanted, strict=True)
    )


# An operator in Python: schema from the annotations, calls of the others, a gradient.
@torch.library.custom_op("my_ops::my_lerp", mutates_args=())
def my_lerp(x: Tensor, y: Tensor, weight: float) -> Tensor:
    """x + weight * (y - x)"""
    mixed: Tensor = ops.my_add(ops.my_scale(x, 1 - weight), ops.my_scale(y, weight))
    return mixed


@my_lerp.register_fake
def _(x: Tensor, y: Tensor, weight: float) -> Tensor:
    return x.new_empty(torch.broadcast_shapes(x.shape, y.shape))


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
    x, y, ctx.weight = inputs
    ctx.shapes = x.shape, y.shape


def _my_lerp_gradient(ctx: Any, d: Tensor) -> tuple[Tensor, Tensor, None]:
    x, y = ctx.shapes
    d_x, d_y = ops.my_scale(d, 1 - ctx.weight), ops.my_scale(d, ctx.weight)
    return d_x.sum_to_size(x), d_y.sum_to_size(y), None


my_lerp.register_autograd(_my_lerp_gradient, setup_context=_keep)
