# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose weights have 8 or 4 bits. Activations stay as they are: weights are widened
while they are loaded. docs/products.md has the bits and the error.
"""

import math

import numpy as np

from pto.language.dtypes import f32, i8
from pto.language.infer import Size, Spec, require_equal, require_shape, where_needed
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op
from pto.ops.linear import ACTIVATIONS, layer, require_matrix, work_of_packing
from pto.ops.product import FLOPS_A_BYTE, TOLERANCE
from pto.ops.quantize import check_group

LAYER = "Tensor? bias=None, Tensor? residual=None, Tensor? packed=None"


def _packed(weight: Spec, bits: int) -> Spec:
    """The layout of isa/cpu/matmul_coded.hpp: 32 columns and 32 bytes of each together; then
    floats of slack and sizes, which linear_quantized.cpp reads."""
    cols, row_bytes = weight.shape
    words = (row_bytes + 31) // 32 * 8 * ((cols + 31) // 32 * 32)
    return weight.like((words + 8 + 4,), f32)


def _layer(name: str, x: Spec, cols: Size, depth: Size, bias, residual, activation: str) -> Spec:
    """Checks the arguments of a layer but for its weight, and returns its result."""
    result = layer(name, x, cols, bias, residual, activation)
    require_equal(x.shape[-1], depth, f"{name}: inputs of both factors")
    return result


def check_grid(name: str, depth: Size, cols: Size, group: int, scale: Spec, zero) -> None:
    """Checks the scales and zeros of a weight of 4 bits."""
    check_group(name, group)
    groups = depth // group
    require_equal(groups * group, depth, f"{name}: inputs are groups of {group}")
    require_shape(scale, (groups, cols), f"{name}: scale is groups x outputs")
    if zero is not None:
        require_shape(zero, (groups, cols), f"{name}: zero is groups x outputs")


def _work(x: Spec, weight: Spec) -> tuple[Size, Size]:
    """A few rows cost the bytes of the weight."""
    results, outputs = math.prod(x.shape[:-1]) * weight.shape[0], math.prod(weight.shape)
    return results, results * x.shape[-1] // FLOPS_A_BYTE + outputs


def _finished(result, bias, residual, activation: str):
    result = ACTIVATIONS[activation](result if bias is None else result + bias)
    return result if residual is None else result + residual


@op("_pack_int8(Tensor weight) -> Tensor")
class PackInt8:
    """Packs the weight of linear_int8 for its argument `packed`."""

    types = "(i8) -> f32"

    def infer(weight):
        require_matrix("_pack_int8", "weight", weight)
        return _packed(weight, 8)

    def work(weight):
        return work_of_packing(*reversed(weight.shape))

    kernel = cpp_kernel("linear_quantized.cpp", "pack_int8")


def _gradients(d_result, x, bias, residual, result: Spec, needs: int) -> tuple[Spec, ...]:
    require_shape(d_result, result.shape, "the result and its gradient")
    none = x.like((0,))
    return where_needed(
        needs, x, none if bias is None else bias, none if residual is None else result
    )


def _work_of_gradient(x: Spec, weight: Spec) -> tuple[Size, Size]:
    results, work = _work(x, weight)
    return results + math.prod(x.shape) + weight.shape[0], work * 2


class LinearInt8Backward:
    """The gradients of linear_int8 by x, bias and residual; the weight is a constant."""

    types = "(T, T, i8, S, T, T) -> (T, T, T) where T: f32 f16 bf16, S: f32 f16 bf16"

    def infer(d_result, x, weight, scale, bias, residual, activation, needs):
        result = _int8_result(x, weight, scale, bias, residual, activation)
        return _gradients(d_result, x, bias, residual, result, needs)

    def work(d_result, x, weight, scale, bias, residual, activation, needs):
        return _work_of_gradient(x, weight)

    kernel = cpp_kernel("linear_quantized_backward.cpp", "linear_int8_backward")


def _int8_result(x, weight, scale, bias, residual, activation: str) -> Spec:
    require_matrix("linear_int8", "weight", weight)
    cols, depth = weight.shape
    require_shape(scale, (cols,), "linear_int8: scale and the outputs of weight")
    return _layer("linear_int8", x, cols, depth, bias, residual, activation)


@op(
    f"linear_int8(Tensor x, Tensor weight, Tensor scale, {LAYER}, *, str activation='none')"
    " -> Tensor"
)
class LinearInt8:
    """activation((x @ weight.T) * scale + bias) + residual: a linear layer with a weight of int8.

    weight is outputs x inputs, scale has one number for each output; x is not quantised. The other
    arguments are those of linear.
    """

    types = "(T, i8, S, T, T, f32) -> T where T: f32 f16 bf16, S: f32 f16 bf16"

    def infer(x, weight, scale, bias, residual, packed, activation):
        return _int8_result(x, weight, scale, bias, residual, activation)

    def work(x, weight, scale, bias, residual, packed, activation):
        return _work(x, weight)

    def oracle(x, weight, scale, bias=None, residual=None, packed=None, activation="none"):
        return _finished((x @ weight.T) * scale, bias, residual, activation)

    def samples(tensor):
        def layer(rows, inputs, outputs):
            x = tensor(*rows, inputs)
            weight = tensor(outputs, inputs, dtype="i8", low=-128, high=128)
            return x, weight, _small(tensor(outputs))

        yield (*layer((5,), 13, 7), tensor(7)), {}
        yield (*layer((2, 3), 9, 40), None, tensor(2, 3, 40)), {"activation": "relu"}
        yield (*layer((), 40, 3), tensor(3)), {"activation": "gelu"}
        yield (*layer((17,), 37, 35),), {"activation": "silu"}
        yield (*layer((0,), 4, 3), tensor(3)), {}
        yield (*layer((3,), 0, 2), tensor(2)), {"activation": "gelu_tanh"}

    tolerance = TOLERANCE
    kernel = cpp_kernel("linear_quantized.cpp", "linear_int8")
    packing = ("weight", "packed", "_pack_int8")
    gradient, wanted = LinearInt8Backward, ("x", "bias", "residual")
    saved = ("x", "weight", "scale", "bias", "residual")


def _small(scale: np.ndarray) -> np.ndarray:
    return np.asarray(scale.astype(np.float32) / 128).astype(scale.dtype)


@op("_pack_int4(Tensor weight) -> Tensor")
class PackInt4:
    """Packs the weight of linear_int4 for its argument `packed`."""

    types = "(u8) -> f32"

    def infer(weight):
        require_matrix("_pack_int4", "weight", weight)
        return _packed(weight, 4)

    def work(weight):
        return work_of_packing(*reversed(weight.shape))

    kernel = cpp_kernel("linear_quantized.cpp", "pack_int4")


def _int4_result(x, weight, scale, zero, bias, residual, group: int, activation: str) -> Spec:
    require_matrix("linear_int4", "weight", weight)
    cols, depth = weight.shape[0], weight.shape[1] * 2
    check_grid("linear_int4", depth, cols, group, scale, zero)
    return _layer("linear_int4", x, cols, depth, bias, residual, activation)


class LinearInt4Backward:
    """The gradients of linear_int4 by x, bias and residual; the weight is a constant."""

    types = "(T, T, u8, S, S, T, T) -> (T, T, T) where T: f32 f16 bf16, S: f32 f16 bf16"

    def infer(d_result, x, weight, scale, zero, bias, residual, group, activation, needs):
        result = _int4_result(x, weight, scale, zero, bias, residual, group, activation)
        return _gradients(d_result, x, bias, residual, result, needs)

    def work(d_result, x, weight, scale, zero, bias, residual, group, activation, needs):
        return _work_of_gradient(x, weight)

    kernel = cpp_kernel("linear_quantized_backward.cpp", "linear_int4_backward")


@op(
    "linear_int4(Tensor x, Tensor weight, Tensor scale, Tensor? zero=None,"
    f" {LAYER}, *, int group=128, str activation='none') -> Tensor"
)
class LinearInt4:
    """activation(x @ w.T + bias) + residual: a linear layer with a weight of 4 bits.

    weight is outputs x inputs / 2: numbers from -8 to 7, two in a byte, the first one low. `group`
    inputs, 32, 64 or 128, share a scale and perhaps a zero, (inputs / group) x outputs: w is number
    * scale + zero, rounded once to f32. x is not quantised. The other arguments are those of
    linear.
    """

    types = "(T, u8, S, S, T, T, f32) -> T where T: f32 f16 bf16, S: f32 f16 bf16"

    def infer(x, weight, scale, zero, bias, residual, packed, group, activation):
        return _int4_result(x, weight, scale, zero, bias, residual, group, activation)

    def work(x, weight, scale, zero, bias, residual, packed, group, activation):
        return _work(x, weight)

    def oracle(
        x, weight, scale, zero=None, bias=None, residual=None, packed=None, group=128,
        activation="none",
    ):  # fmt: skip
        wide = np.repeat(scale, group, 0).T * numbers_of(weight)
        if zero is not None:
            wide = wide + np.repeat(zero, group, 0).T
        return _finished(x @ wide.T, bias, residual, activation)

    def samples(tensor):
        def layer(rows, groups, group, outputs):
            weight = tensor(outputs, groups * group // 2, dtype="u8", low=0, high=256)
            scale = tensor(groups, outputs)
            return tensor(*rows, groups * group), weight, _small(scale)

        yield (*layer((5,), 2, 32, 7), None, tensor(7)), {"group": 32}
        *given, scale = layer((2, 3), 1, 64, 40)
        zero = _small(tensor(1, 40))
        yield (*given, scale, zero, None, tensor(2, 3, 40)), {"group": 64, "activation": "relu"}
        yield (*layer((), 3, 128, 3), None, tensor(3)), {"activation": "gelu"}
        yield (*layer((17,), 1, 32, 35),), {"group": 32, "activation": "silu"}
        yield (*layer((0,), 1, 128, 3), None, tensor(3)), {}
        yield (*layer((3,), 0, 32, 2), None, tensor(2)), {"group": 32, "activation": "gelu_tanh"}

    tolerance = TOLERANCE
    kernel = cpp_kernel("linear_quantized.cpp", "linear_int4")
    packing = ("weight", "packed", "_pack_int4")
    gradient, wanted = LinearInt4Backward, ("x", "bias", "residual")
    saved = ("x", "weight", "scale", "zero", "bias", "residual")


def numbers_of(weight: np.ndarray) -> np.ndarray:
    """The numbers of a weight of 4 bits."""
    bytes_ = np.asarray(weight).astype(np.uint8)
    pairs = np.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(len(bytes_), -1)
    return (pairs.astype(np.int8) ^ 8) - 8


@op(
    "scaled_matmul(Tensor a, Tensor b, Tensor row_scale, Tensor col_scale, Tensor? bias=None,"
    " Tensor? residual=None, Tensor? packed=None, *, str activation='none') -> Tensor"
)
class ScaledMatMul:
    """activation((a @ b.T) * row_scale * col_scale + bias) + residual, of bytes.

    b is outputs x inputs, as the weight of linear. The product is exact; each sum is rounded to f32
    and multiplied by its row's scale, then its column's. The result has the type of col_scale.
    quantize_rows makes a and row_scale; where packed is given, it is b as _pack_weight packs it.
    """

    types = "(i8, i8, f32, S, S, S, f32) -> S where S: f32 f16 bf16"

    def infer(a, b, row_scale, col_scale, bias, residual, packed, activation):
        require_matrix("scaled_matmul", "b", b)
        cols, depth = b.shape
        require_shape(row_scale, a.shape[:-1], "scaled_matmul: row_scale and the rows of a")
        require_shape(col_scale, (cols,), "scaled_matmul: col_scale and the rows of b")
        result = _layer("scaled_matmul", a, cols, depth, bias, residual, activation)
        return result.like(dtype=col_scale.dtype)

    def work(a, b, row_scale, col_scale, bias, residual, packed, activation):
        results, work = _work(a, b)
        return results, work // 2

    def oracle(
        a, b, row_scale, col_scale, bias=None, residual=None, packed=None, activation="none"
    ):  # fmt: skip
        sums = np.asarray(a).astype(np.int64) @ np.asarray(b).astype(np.int64).T
        scaled = sums.astype(np.float64) * np.expand_dims(row_scale, -1) * col_scale
        return _finished(scaled, bias, residual, activation)

    def samples(tensor):
        def product(rows, inputs, outputs):
            a = tensor(*rows, inputs, dtype="i8", low=-128, high=128)
            b = tensor(outputs, inputs, dtype="i8", low=-128, high=128)
            row_scale, col_scale = tensor(*rows, dtype="f32"), tensor(outputs, dtype="f32")
            return a, b, _small(row_scale), _small(col_scale)

        yield (*product((5,), 13, 7), tensor(7, dtype="f32")), {}
        yield (
            (*product((2, 3), 40, 35), None, tensor(2, 3, 35, dtype="f32")),
            {"activation": "relu"},
        )
        yield (*product((), 40, 3), tensor(3, dtype="f32")), {"activation": "gelu"}
        yield (*product((0,), 4, 3),), {}

    tolerance = {i8: 1e-5}
    kernel = cpp_kernel("linear.cpp", "scaled_matmul")
    packing = ("b", "packed", "_pack_weight")
