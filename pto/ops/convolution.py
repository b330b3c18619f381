# SPDX-License-Identifier: Apache-2.0
"""Convolution of images, with gradients: products of matrices of pixels under the filter.

f16 and bf16 are summed in f32 and rounded once.
"""

import math

import numpy as np

from pto.errors import InvalidValue
from pto.language.dtypes import bf16, f16, f32, f64
from pto.language.infer import (
    Size,
    Spec,
    require_equal,
    require_shape,
    size_max,
    where_needed,
)
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op
from pto.ops.product import check_second


def checked(x, weight, stride, padding, dilation, groups) -> None:
    """Refuses what is no convolution."""
    for name, spec in (("x", x), ("weight", weight)):
        if spec.ndim != 4:
            raise InvalidValue(
                f"conv2d: {name} has {spec.ndim} axes",
                "x is [images, channels, height, width], weight [out, channels / groups, kh, kw]",
                "give it four axes",
            )
    for name, numbers in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        if len(numbers) != 2:
            raise InvalidValue(
                f"conv2d: {name} is {list(numbers)}",
                "it is two numbers, for the rows and the columns of an image",
                "pass two, or one int for both",
            )
    wrong = [n for n in (*stride, *dilation, groups) if n < 1] + [n for n in padding if n < 0]
    if wrong:
        raise InvalidValue(
            f"conv2d: stride {list(stride)}, padding {list(padding)}, dilation {list(dilation)}, "
            f"groups {groups}",
            "stride, dilation and groups are at least 1, padding at least 0",
            "pass numbers that are large enough",
        )
    require_equal(weight.shape[1] * groups, x.shape[1], "the channels of weight and of x")
    require_equal(weight.shape[0] % groups, 0, "the filters left over when groups share them")
    check_not_empty(x, weight)


def is_empty(size: Size) -> Size:
    """1 for a size of 0, else 0."""
    return size_max(size, 1) - size


def check_not_empty(x, weight) -> None:
    """Refuses as PyTorch does: no filters at all, and no pixels unless images or channels are
    missing too."""
    images, channels, height, width = x.shape
    filters, _, rows, columns = weight.shape
    require_equal(size_max(filters, 1), filters, "the filters, of which there must be one")
    require_equal(channels * is_empty(rows * columns), 0, "the channels for filters without pixels")
    planes = images * channels
    require_equal(planes * is_empty(height * width), 0, "the channels of images without pixels")


def outputs(size: Size, filter_: Size, stride: int, padding: int, dilation: int) -> Size:
    """How many places a filter has along an axis."""
    last = size + (2 * padding - 1) - dilation * (filter_ - 1)
    require_equal(size_max(last, 0), last, "what a filter leaves of the padded image")
    return last // stride + 1


def result_of(x: Spec, weight: Spec, stride: list, padding: list, dilation: list) -> Spec:
    places = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    # As PyTorch: without channels there is nothing that a filter could give.
    depth = weight.shape[1]
    filters = weight.shape[0] * (depth + 1 - size_max(depth, 1))
    return x.like((x.shape[0], filters, *(outputs(*place) for place in places)))


def work_of_gradient(d_result: Spec, x: Spec, weight: Spec) -> tuple[Size, Size]:
    elements = math.prod(x.shape) + math.prod(weight.shape) + math.prod(d_result.shape)
    return elements + 1, elements * 64


def checked_gradient(d_result, x, weight, stride, padding, dilation, groups) -> tuple[Spec, ...]:
    """The specs of x, weight and a bias, once the arguments are checked."""
    checked(x, weight, stride, padding, dilation, groups)
    shape = result_of(x, weight, stride, padding, dilation).shape
    require_shape(d_result, shape, "the result and its gradient")
    return x, weight, weight.like(weight.shape[:1])


class Conv2dBackwardBackward:
    """The gradients of conv2d_backward by d_result, x and weight."""

    def infer(d_d_x, d_d_weight, d_d_bias, d_result, x, weight,
              stride, padding, dilation, groups, needs, needs_):  # fmt: skip
        of = checked_gradient(d_result, x, weight, stride, padding, dilation, groups)
        check_second((d_d_x, d_d_weight, d_d_bias), of, needs)
        return where_needed(needs_, d_result, x, weight)

    def work(d_d_x, d_d_weight, d_d_bias, d_result, x, weight,
             stride, padding, dilation, groups, needs, needs_):  # fmt: skip
        return work_of_gradient(d_result, x, weight)

    kernel = cpp_kernel("convolution.cpp", "conv2d_backward_backward")


class Conv2dBackward:
    """The gradients of conv2d by x, weight and bias."""

    def infer(d_result, x, weight, stride, padding, dilation, groups, needs):
        of = checked_gradient(d_result, x, weight, stride, padding, dilation, groups)
        return where_needed(needs, *of)

    def work(d_result, x, weight, stride, padding, dilation, groups, needs):
        return work_of_gradient(d_result, x, weight)

    kernel = cpp_kernel("convolution.cpp", "conv2d_backward")
    gradient, saved = Conv2dBackwardBackward, ("d_result", "x", "weight")
    wanted = ("d_result", "x", "weight")


@op(
    "conv2d(Tensor x, Tensor weight, Tensor? bias=None, *, int[2] stride=1, int[2] padding=0,"
    " int[2] dilation=1, int groups=1) -> Tensor"
)
class Conv2d:
    """The convolution of images x [n, c, h, w] with filters weight [out, c / groups, kh, kw]."""

    def infer(x, weight, bias, stride, padding, dilation, groups):
        checked(x, weight, stride, padding, dilation, groups)
        if bias is not None:
            require_shape(bias, weight.shape[:1], "bias and filters")
        return result_of(x, weight, stride, padding, dilation)

    def work(x, weight, bias, stride, padding, dilation, groups):
        elements = math.prod(x.shape) + math.prod(weight.shape)
        return elements + 1, elements * 64

    kernel = cpp_kernel("convolution.cpp", "conv2d")
    gradient, saved, wanted = Conv2dBackward, ("x", "weight"), ("x", "weight", "bias")

    def oracle(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        x, weight = np.asarray(x, float), np.asarray(weight, float)
        (sh, sw), (ph, pw), (dh, dw) = (
            (n, n) if isinstance(n, int) else n for n in (stride, padding, dilation)
        )
        x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
        out, depth, kh, kw = weight.shape
        h, w = (
            (x.shape[2] - dh * (kh - 1) - 1) // sh + 1,
            (x.shape[3] - dw * (kw - 1) - 1) // sw + 1,
        )
        result = np.zeros((x.shape[0], out, h, w))
        for o in range(out):
            first = o // (out // groups) * depth
            for i in range(kh):
                for j in range(kw):
                    rows = slice(i * dh, i * dh + sh * (h - 1) + 1, sh)
                    columns = slice(j * dw, j * dw + sw * (w - 1) + 1, sw)
                    part = x[:, first : first + depth, rows, columns]
                    result[:, o] += np.einsum("nchw,c->nhw", part, weight[o, :, i, j])
        return result if bias is None else result + np.asarray(bias, float)[:, None, None]

    def samples(tensor):
        yield (tensor(2, 3, 7, 6), tensor(4, 3, 3, 2), tensor(4)), {"padding": 1}
        yield (tensor(1, 4, 6, 5), tensor(6, 2, 2, 2)), {"stride": [2, 1], "groups": 2}
        yield (tensor(1, 2, 8, 8), tensor(3, 2, 3, 3)), {"dilation": 2, "padding": [2, 0]}

    tolerance = {f64: 1e-12, f32: 1e-5, f16: 4e-3, bf16: 3e-2}
