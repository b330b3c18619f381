# SPDX-License-Identifier: Apache-2.0
"""Linear layers, with an activation and a residual in the same pass, and weights that are packed.

Each product is added with one rounding, in the order of the contraction, so the result does not
depend on threads, on how the work is cut, or on whether the weight is packed; pto.config's
matmul_precision may permit parts of bf16 to f32, of which the same is true. f16 and bf16 are
computed in f32 and rounded once, at the end.
"""

import math

import numpy as np

from pto import _core
from pto.errors import InvalidValue
from pto.language.dtypes import bf16, f32, i8
from pto.language.infer import Size, Spec, require_equal, require_shape, where_needed
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op
from pto.ops.activation import gelu_in_numpy, silu_in_numpy
from pto.ops.product import TOLERANCE, work_of_depth

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "silu": silu_in_numpy,
    "gelu": lambda x: gelu_in_numpy(x, "none"),
    "gelu_tanh": lambda x: gelu_in_numpy(x, "tanh"),
}

# The layout of linear.cpp: columns packed together, of which parts of PART_COLS are packed at once;
# floats after each strip.
STRIP_COLS, STRIP_SLACK, PART_COLS = 768, 8, 96
HAS_PARTS = _core.has_matmul_tiles()  # a float may be packed as three bf16


def _strip(b: Spec, depth: Size, cols: Size) -> Size:
    if b.dtype is i8:
        # And the sum of each column: matmul_excess.hpp.
        return ((depth + 63) // 64 * 16 + 1) * ((cols + 31) // 32 * 32) + STRIP_SLACK
    cols = (cols + 15) // 16 * 16
    if b.dtype is bf16 and not _core.matmul_layout("bf16").startswith("floats"):
        return (depth + 31) // 32 * 32 * cols // 2 + STRIP_SLACK  # pairs or tiles of bf16
    if b.dtype is f32 and HAS_PARTS:
        return (depth + 31) // 32 * 32 * cols // 2 * 3 + (cols + 31) // 32 * 8 + STRIP_SLACK
    return (depth + 7) // 8 * 8 * cols + STRIP_SLACK


def _packed(b: Spec, depth: Size, cols: Size) -> Spec:
    """Makes room for the largest layout of any precision, and for what follows it."""
    strips = cols // STRIP_COLS * _strip(b, depth, STRIP_COLS)
    trailer = (16 + (cols + PART_COLS - 1) // PART_COLS + 7) // 8 * 2
    return b.like((strips + _strip(b, depth, cols % STRIP_COLS) + trailer,), f32)


def work_of_packing(depth: Size, cols: Size) -> tuple[Size, Size]:
    return (cols + PART_COLS - 1) // PART_COLS, depth * cols * 8


def require_matrix(name: str, argument: str, spec: Spec) -> None:
    if spec.ndim != 2:
        raise InvalidValue(
            f"{name}: {argument} has {spec.ndim} axes", "it is a matrix", "reshape it"
        )


def check_packed(name: str, x: Spec, packed: Spec) -> None:
    if x.ndim == 0 or packed.ndim != 1:
        raise InvalidValue(
            f"{name}: its input has {x.ndim} axes and packed has {packed.ndim}",
            "the input is a vector, matrix or batch of them, packed what pto.pack_weight packs",
            "pass the weight itself, to the operator without 'packed' in its name",
        )


@op("_pack_right(Tensor b, *, bool transpose_b=False) -> Tensor")
class PackRight:
    """Packs a matrix, perhaps transposed first, into one axis in the order that matmul_packed
    reads."""

    types = "(T) -> f32 where T: f32 f16 bf16"

    def infer(b, transpose_b):
        require_matrix("_pack_right", "b", b)
        return _packed(b, *(reversed(b.shape) if transpose_b else b.shape))

    def work(b, transpose_b):
        return work_of_packing(*(reversed(b.shape) if transpose_b else b.shape))

    kernel = cpp_kernel("linear.cpp", "pack_right", takes_strides=True)


@op("_pack_weight(Tensor weight) -> Tensor")
class PackWeight:
    """Packs the weight of linear or scaled_matmul, outputs x inputs, for its argument `packed`."""

    types = "(T) -> f32 where T: f32 f16 bf16 i8"

    def infer(weight):
        require_matrix("_pack_weight", "weight", weight)
        return _packed(weight, *reversed(weight.shape))

    def work(weight):
        return work_of_packing(*reversed(weight.shape))

    kernel = cpp_kernel("linear.cpp", "pack_weight", takes_strides=True)


@op("matmul_packed(Tensor a, Tensor packed, *, SymInt cols) -> Tensor")
class MatMulPacked:
    """a @ b, where _pack_right has packed b, which has `cols` columns; a caller that multiplies by
    one b again and again packs it once."""

    types = "(T, f32) -> T where T: f32 f16 bf16"

    def infer(a, packed, cols):
        check_packed("matmul_packed", a, packed)
        return a.like((*a.shape[:-1], cols))

    def work(a, packed, cols):
        results = math.prod(a.shape[:-1]) * cols
        return results, work_of_depth(results, a.shape[-1], packed)

    kernel = cpp_kernel("linear.cpp", "matmul_packed", takes_strides=True)


def check_activation(name: str, activation: str) -> None:
    if activation not in ACTIVATIONS:
        raise InvalidValue(
            f"{name}: activation is {activation!r}",
            "an activation that follows the product in the same pass",
            f"pass {', '.join(map(repr, ACTIVATIONS))}",
        )


def layer(name: str, x: Spec, cols: Size, bias, residual, activation: str) -> Spec:
    """Checks what every layer has, and returns its result."""
    if x.ndim == 0:
        raise InvalidValue(
            f"{name}: its input has no axes", "the last axis is a row", "give it an axis"
        )
    if bias is not None:
        require_shape(bias, (cols,), f"{name}: bias and the outputs of weight")
    check_activation(name, activation)
    result = x.like((*x.shape[:-1], cols))
    if residual is not None:
        require_shape(residual, result.shape, f"{name}: residual and the result")
    return result


def _result(x: Spec, weight: Spec, bias, residual, activation: str) -> Spec:
    """Checks the arguments of a linear layer, and returns its result."""
    if x.ndim == 0:
        raise InvalidValue(
            "linear: x has no axes", "its last axis holds the inputs", "give it an axis"
        )
    require_matrix("linear", "weight", weight)
    require_equal(x.shape[-1], weight.shape[1], "x and weight")
    if bias is not None:
        require_shape(bias, (weight.shape[0],), "bias and weight")
    check_activation("linear", activation)
    result = x.like((*x.shape[:-1], weight.shape[0]))
    if residual is not None:
        require_shape(residual, result.shape, "residual and the result")
    return result


def _work(x: Spec, weight: Spec) -> tuple[Size, Size]:
    results = math.prod(x.shape[:-1]) * weight.shape[0]
    return results, work_of_depth(results, x.shape[-1], weight)


class LinearBackward:
    """The gradients of linear; what went into the activation is computed again."""

    def infer(d_result, x, weight, bias, residual, activation, needs):
        result = _result(x, weight, bias, residual, activation)
        require_shape(d_result, result.shape, "the result and its gradient")
        none = x.like((0,))
        return where_needed(
            needs, x, weight, none if bias is None else bias, none if residual is None else result
        )

    def work(d_result, x, weight, bias, residual, activation, needs):
        results, work = _work(x, weight)
        return results + math.prod(x.shape) + math.prod(weight.shape), work * 3

    kernel = cpp_kernel("linear_backward.cpp", "linear_backward", takes_strides=True)


@op(
    "linear(Tensor x, Tensor weight, Tensor? bias=None, Tensor? residual=None,"
    " Tensor? packed=None, *, str activation='none') -> Tensor"
)
class Linear:
    """activation(x @ weight.T + bias) + residual: a linear layer, weight outputs x inputs.

    activation is 'none', 'relu', 'silu', 'gelu' or 'gelu_tanh', residual has the result's shape.
    Where packed is given, it is the weight as _pack_weight packs it and is read in its place.
    """

    types = "(T, T, T, T, f32) -> T where T: f32 f16 bf16 f64"

    def infer(x, weight, bias, residual, packed, activation):
        return _result(x, weight, bias, residual, activation)

    def work(x, weight, bias, residual, packed, activation):
        return _work(x, weight)

    def oracle(x, weight, bias=None, residual=None, packed=None, activation="none"):
        result = x @ weight.T
        result = ACTIVATIONS[activation](result if bias is None else result + bias)
        return result if residual is None else result + residual

    def samples(tensor):
        yield (tensor(5, 13), tensor(7, 13), tensor(7)), {}
        yield (tensor(2, 3, 9), tensor(40, 9), None, tensor(2, 3, 40)), {"activation": "relu"}
        yield (tensor(4), tensor(3, 4), tensor(3)), {"activation": "gelu"}
        yield (tensor(6, 8), tensor(17, 8)), {"activation": "silu"}
        yield (tensor(3, 2), tensor(5, 2), tensor(5), tensor(3, 5)), {"activation": "gelu_tanh"}
        yield (tensor(0, 4), tensor(3, 4), tensor(3)), {}
        yield (tensor(3, 0), tensor(2, 0), tensor(2)), {"activation": "silu"}

    tolerance = TOLERANCE
    kernel = cpp_kernel("linear.cpp", "linear", takes_strides=True)
    packing = ("weight", "packed", "_pack_weight")
    gradient = LinearBackward
    saved = ("x", "weight", "bias", "residual")
    wanted = ("x", "weight", "bias", "residual")
