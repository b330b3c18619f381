# SPDX-License-Identifier: Apache-2.0
"""Makes numbers of 8 and 4 bits of floats, with their scales, for the layers of quantized.py."""

import math

import numpy as np

from pto.errors import InvalidValue
from pto.language.dtypes import f32, i8, u8
from pto.language.infer import require_equal
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op
from pto.ops.linear import require_matrix
from pto.ops.product import TOLERANCE

GROUPS = (32, 64, 128)
LEAST = 2.0**-126  # of scales


def check_group(name: str, group: int) -> None:
    if group not in GROUPS:
        raise InvalidValue(
            f"{name}: group is {group}",
            "inputs that lie together share a scale",
            f"pass a group of {', '.join(map(str, GROUPS[:-1]))} or {GROUPS[-1]}",
        )


@op(
    "quantize_int4(Tensor weight, *, int group=128, bool symmetric=True)"
    " -> (Tensor quantized, Tensor scale, Tensor zero)"
)
class QuantizeInt4:
    """The weight, scale and zero of linear_int4 for a weight of floats, outputs x inputs.

    Symmetric: zero is 0, and the scale the least that keeps a group within -8 .. 7; else both
    span a group from its least number to its largest. A group with a number that is not finite has
    a scale of NaN; a scale that would be subnormal is 0.
    """

    types = "(T) -> (u8, f32, f32) where T: f32 f16 bf16"

    def infer(weight, group, symmetric):
        require_matrix("quantize_int4", "weight", weight)
        check_group("quantize_int4", group)
        cols, depth = weight.shape
        groups = depth // group
        require_equal(groups * group, depth, f"quantize_int4: inputs are groups of {group}")
        grid = weight.like((groups, cols), f32)
        return weight.like((cols, depth // 2), u8), grid, grid

    def work(weight, group, symmetric):
        cols, depth = weight.shape
        return cols, cols * depth * 8

    def oracle(weight, group=128, symmetric=True):
        cols, depth = weight.shape
        weight = weight.astype(np.float32)  # in f64 a number half-way between two may be another
        groups = weight.reshape(cols, depth // group, group)
        least, most = (np.moveaxis(f(groups, -1, initial=0), 0, 1) for f in (np.min, np.max))
        scale, zero = np.maximum(most / 7, least / -8), np.zeros_like(least)
        if not symmetric:
            least, most = (np.moveaxis(f(groups, -1), 0, 1) for f in (np.min, np.max))
            scale = most / 15 - least / 15
            zero = least + 8 * scale
        scale = np.where(np.isfinite(scale), np.where(scale < LEAST, 0, scale), np.nan)
        zero = np.where(np.isnan(scale), 0, zero)
        wide = [np.repeat(grid, group, 0).T for grid in (zero, scale)]
        numbers = np.where(wide[1] > 0, np.rint((weight - wide[0]) / wide[1]), 0)
        numbers = np.clip(numbers, -8, 7).astype(np.int8).astype(np.uint8) & 15
        return numbers[:, ::2] | numbers[:, 1::2] << 4, scale, zero

    def samples(tensor):
        yield (tensor(5, 64),), {"group": 32}
        yield (tensor(3, 128),), {"symmetric": False}
        yield (tensor(0, 64),), {"group": 64}
        yield (tensor(3, 0),), {"group": 64}

    tolerance = TOLERANCE
    kernel = cpp_kernel("quantize.cpp", "quantize_int4")


ROTATIONS = (0, 16, 32, 64, 128)


def rotate(x: np.ndarray, rotation: int) -> np.ndarray:
    """Each run of `rotation` elements of the last axis times Hadamard's matrix / sqrt(rotation)."""
    runs = x.reshape(*x.shape[:-1], x.shape[-1] // rotation, rotation)
    lanes = np.arange(rotation)
    odd = sum((lanes[:, None] & lanes) >> bit & 1 for bit in range(8)) % 2
    return (runs @ np.where(odd, -1.0, 1.0) / math.sqrt(rotation)).reshape(x.shape)


@op("quantize_rows(Tensor x, *, int rotation=0) -> (Tensor quantized, Tensor scale)")
class QuantizeRows:
    """Each row as bytes from -127 to 127 times a scale of its own, for scaled_matmul.

    The scale is the largest magnitude / 127, f32, with x's axes but the last: NaN where a number is
    not finite, 0 where it would be subnormal. With a rotation r of 16, 32, 64 or 128, which divides
    the row, Hadamard's matrix of order r over sqrt(r) first multiplies each run of r numbers: an
    outlier becomes many small numbers, so the error of its row is smaller. If both factors of
    scaled_matmul have one rotation, the product is that of x itself: the matrix is orthogonal.
    """

    types = "(T) -> (i8, f32) where T: f32 f16 bf16"

    def infer(x, rotation):
        if x.ndim == 0:
            raise InvalidValue(
                "quantize_rows: x has no axes", "its last axis is a row", "give it an axis"
            )
        if rotation not in ROTATIONS:
            raise InvalidValue(
                f"quantize_rows: rotation is {rotation}",
                "rotation is how many numbers of a row are rotated together",
                f"pass {', '.join(map(str, ROTATIONS[:-1]))} or {ROTATIONS[-1]}",
            )
        if rotation:
            whole = x.shape[-1] // rotation * rotation
            require_equal(whole, x.shape[-1], f"quantize_rows: a row is runs of {rotation}")
        return x.like(dtype=i8), x.like(x.shape[:-1], f32)

    def work(x, rotation):
        return math.prod(x.shape[:-1]), math.prod(x.shape) * (x.dtype.bytes + 1)

    def oracle(x, rotation=0):
        x = rotate(x, rotation) if rotation else x
        scale = np.max(np.abs(x), -1, initial=0) / 127
        scale = np.where(np.isfinite(scale), np.where(scale < LEAST, 0, scale), np.nan)
        by = np.expand_dims(scale, -1)
        return np.where(by > 0, np.rint(x / by), 0).astype(np.int8), scale

    def samples(tensor):
        yield (tensor(5, 13),), {}
        yield (tensor(2, 3, 40),), {}
        yield (tensor(7),), {}
        yield (tensor(3, 0),), {}
        yield (tensor(3, 32),), {"rotation": 16}
        yield (tensor(0, 128),), {"rotation": 128}

    tolerance = TOLERANCE
    kernel = cpp_kernel("quantize_rows.cpp", "quantize_rows")
