# SPDX-License-Identifier: Apache-2.0
"""Convolutions: PyTorch's results, for any geometry, with bits that no layout or batch changes."""

import random
import re

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import pto.torch  # noqa: F401 registers torch.ops.pto
from pto import ops
from pto.errors import Error

TORCH = torch.ops.pto
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
EPS = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
every_type = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def layer(geometry, dtype=torch.float32, images=2):
    """x, weight, bias and options of [channels, height, width, filters, kh, kw, options]."""
    channels, height, width, filters, kh, kw, options = geometry
    torch.manual_seed(channels * height + width)
    depth = channels // options.get("groups", 1)
    x = torch.randn(images, channels, height, width).to(dtype)
    weight = (torch.randn(filters, depth, kh, kw) / (depth * kh * kw) ** 0.5).to(dtype)
    return x, weight, torch.randn(filters).to(dtype), options


def check(x, weight, bias, options):
    wide = [None if one is None else one.double() for one in (x, weight, bias)]
    wanted = F.conv2d(*wide, **options)
    got = TORCH.conv2d(x, weight, bias, **options)
    assert got.dtype == x.dtype and got.shape == wanted.shape
    error = EPS[x.dtype] * (1 + wanted.abs())
    assert ((got.double() - wanted).abs() <= error).all()


GEOMETRIES = [
    (3, 30, 40, 70, 7, 7, {"stride": 2, "padding": 3}),
    (64, 23, 23, 65, 3, 3, {"padding": 1}),
    (130, 7, 7, 50, 3, 3, {"padding": 1}),
    (40, 30, 21, 33, 1, 1, {}),
    (40, 9, 9, 33, 1, 1, {"stride": 2}),
    (24, 11, 17, 36, 3, 3, {"padding": 1, "groups": 4}),
    (19, 28, 28, 19, 3, 3, {"padding": 1, "groups": 19}),
    (6, 10, 10, 12, 5, 5, {"padding": 2, "groups": 6, "stride": [2, 3]}),
    (5, 33, 50, 7, 3, 4, {"padding": [0, 9], "dilation": [3, 2], "stride": [1, 4]}),
    (3, 1, 1, 4, 3, 3, {"padding": 40, "stride": 7}),
    (300, 1, 1, 3, 1, 1, {}),
]


@every_type
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_geometries_give_the_results_of_pytorch(geometry, dtype):
    for images in (1, 3):
        x, weight, bias, options = layer(geometry, dtype, images)
        check(x, weight, bias, options)
        check(x, weight, None, options)


def test_random_geometries_give_the_results_of_pytorch():
    pick = random.Random(5)
    for _ in range(150):
        groups, kh, kw = pick.choice((1, 1, 2, 3)), pick.randint(1, 4), pick.randint(1, 4)
        dilation = [pick.randint(1, 3), pick.randint(1, 2)]
        padding = [pick.randint(0, 3), pick.randint(0, 5)]
        sizes = [
            max(pick.randint(1, 24), dilation[i] * (k - 1) + 1 - 2 * padding[i])
            for i, k in enumerate((kh, kw))
        ]
        options = {"stride": [pick.randint(1, 3), pick.randint(1, 4)], "groups": groups}
        options |= {"padding": padding, "dilation": dilation}
        channels, filters = groups * pick.randint(1, 9), groups * pick.randint(1, 20)
        geometry = (channels, *sizes, filters, kh, kw, options)
        x, weight, bias, _ = layer(geometry, pick.choice(DTYPES), pick.randint(1, 4))
        check(x, weight, pick.choice((bias, None)), options)


@every_type
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_an_image_has_the_bits_that_it_has_alone_on_any_number_of_threads(geometry, dtype):
    x, weight, bias, options = layer(geometry, dtype, images=5)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        got = TORCH.conv2d(x, weight, bias, **options)
        alone = [TORCH.conv2d(image, weight, bias, **options) for image in x.split(1)]
        torch.set_num_threads(2)
        shared = TORCH.conv2d(x, weight, bias, **options)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(got, torch.cat(alone)) and torch.equal(got, shared)


def test_layouts_do_not_matter():
    x, weight, bias, options = layer((20, 13, 9, 30, 3, 3, {"padding": 1}))
    wanted = TORCH.conv2d(x, weight, bias, **options)
    last = [one.contiguous(memory_format=torch.channels_last) for one in (x, weight)]
    assert torch.equal(TORCH.conv2d(*last, bias, **options), wanted)
    apart = torch.zeros(4, 20, 13, 18)[::2, :, :, ::2].copy_(x)
    turned = weight.flip(0).flip(0).transpose(2, 3).contiguous().transpose(2, 3)
    assert torch.equal(TORCH.conv2d(apart, turned, bias, **options), wanted)
    plain = [one.numpy() for one in (x, weight, bias)]
    assert np.array_equal(
        ops.conv2d(plain[0][:, :, ::-1][:, :, ::-1], *plain[1:], **options), wanted
    )


@pytest.mark.parametrize("size", [9, 30], ids=["few pixels", "many pixels"])
def test_nan_and_infinities_reach_the_results_whose_filters_cover_them(size):
    x, weight, _, options = layer((4, size, size, 5, 3, 3, {"padding": 1}))
    x[0, 1, 4, 5], x[1, 2, 0, 0] = float("nan"), float("inf")
    got = TORCH.conv2d(x, weight, **options)
    odd = torch.zeros(x.shape[0], size, size, dtype=torch.bool)
    odd[0, 3:6, 4:7] = odd[1, 0:2, 0:2] = True
    assert torch.equal(~got.isfinite(), odd[:, None].expand_as(got))


def test_a_gradient_is_that_of_pytorch():
    for geometry in GEOMETRIES[4:9]:
        x, weight, bias, options = layer(geometry, torch.float64)
        given = [one.requires_grad_() for one in (x, weight, bias)]
        ours, theirs = (f(*given, **options) for f in (TORCH.conv2d, F.conv2d))
        d = torch.randn_like(theirs)
        for got, wanted in zip(
            torch.autograd.grad(ours, given, d), torch.autograd.grad(theirs, given, d), strict=True
        ):
            assert torch.allclose(got, wanted, atol=1e-10)


def test_what_is_no_convolution_is_refused():
    x, weight = torch.randn(1, 4, 5, 5), torch.randn(6, 2, 3, 3)
    with pytest.raises((Error, RuntimeError), match="channels of weight and of x"):
        TORCH.conv2d(x, weight)
    for bias in (torch.randn(1, 6), torch.randn(6, 1), torch.randn(5)):
        with pytest.raises((Error, RuntimeError), match="bias and filters"):
            TORCH.conv2d(x, torch.randn(6, 4, 3, 3), bias)
    with pytest.raises((Error, RuntimeError), match="when groups share them"):
        TORCH.conv2d(torch.randn(1, 8, 5, 5), weight, groups=4)
    with pytest.raises((Error, RuntimeError), match="leaves of the padded image"):
        TORCH.conv2d(x, torch.randn(6, 4, 7, 7))
    for option, numbers in [
        ("stride", [2]), ("padding", [1]), ("dilation", [1]), ("stride", [1, 1, 1]), ("stride", []),
    ]:  # fmt: skip
        with pytest.raises(
            (Error, RuntimeError), match=re.escape(f"conv2d: {option} is {numbers}")
        ):
            TORCH.conv2d(x, torch.randn(6, 4, 3, 3), **{option: numbers})
    with pytest.raises((Error, RuntimeError), match="stride, dilation and groups are at least 1"):
        TORCH.conv2d(x, torch.randn(6, 4, 3, 3), stride=0)
