# SPDX-License-Identifier: Apache-2.0
"""Convolutions of ResNet-50 as users call them, against PyTorch's, which is oneDNN's.

A size is images x channels x height (and width) x filters x filter's height (and width) x stride;
the padding keeps the size of an image. "blocked" is PyTorch with image and filters in oneDNN's own
layout, from which only the result is taken back.
"""

import torch
from torch.nn import functional as F

import pto.torch  # noqa: F401 registers torch.ops.pto
from pto.bench.ceilings import peaks
from pto.bench.runner import Expected, Setting, Work, case

LAYERS = [
    (3, 224, 64, 7, 2),
    (64, 56, 64, 1, 1),
    (64, 56, 64, 3, 1),
    (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1),
    (128, 56, 128, 3, 2),
    (256, 56, 512, 1, 2),
    (512, 28, 128, 1, 1),
    (128, 28, 128, 3, 1),
    (128, 28, 512, 1, 1),
    (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1),
    (256, 14, 1024, 1, 1),
    (2048, 7, 512, 1, 1),
    (512, 7, 512, 3, 1),
    (512, 7, 2048, 1, 1),
]


def convolution(setting: Setting):
    images, channels, height, filters, size, stride = setting.size
    x = torch.randn(images, channels, height, height)
    weight = torch.randn(filters, channels, size, size) / (channels * size * size) ** 0.5
    options = {"stride": stride, "padding": size // 2}
    ours = torch.ops.pto.conv2d
    yield "pto", lambda: ours(x, weight, **options)
    yield "torch", lambda: F.conv2d(x, weight, **options)
    if torch.backends.mkldnn.is_available():
        yield "blocked", blocked(x, weight, options)
    places = (height - 1) // stride + 1
    depth = channels * size * size
    products = images * filters * places * places * depth
    yield from peaks(setting.dtype, setting.threads, products, has_parts=True)
    yield Work("GFLOP/s", 2e-9 * products)
    yield Expected(
        lambda rows: F.conv2d(x[rows].double(), weight.double(), **options), tolerance=1e-6 * depth
    )


def blocked(x: torch.Tensor, weight: torch.Tensor, options: dict):
    number, pair = options["padding"], [options["stride"]] * 2
    image = x.to_mkldnn()
    filters = torch._C._nn.mkldnn_reorder_conv2d_weight(
        weight.to_mkldnn(), [number] * 2, pair, [1, 1], 1, list(x.shape)
    )
    return lambda: torch.conv2d(image, filters, None, pair, [number] * 2).to_dense()


BATCHED = [(64, 56, 64, 3, 1), (256, 56, 512, 1, 2), (256, 14, 256, 3, 1), (512, 7, 2048, 1, 1)]
SIZES = [(1, *layer) for layer in LAYERS] + [(8, *layer) for layer in BATCHED]
case("conv2d", sizes=SIZES, dtypes=["f32"])(convolution)
