# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose weight is there only packed, for PackedWeight (packed_weight.py).

Each is the layer of its name without `_packed`, to the bit; none has a gradient.
"""

import math

from pto.language.infer import Size, Spec, require_shape
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op
from pto.ops.linear import check_packed, layer
from pto.ops.product import FLOPS_A_BYTE
from pto.ops.quantized import check_grid

LAYER = "Tensor? bias=None, Tensor? residual=None, *, SymInt outputs"


def _work(x: Spec, outputs: Size) -> tuple[Size, Size]:
    results = math.prod(x.shape[:-1]) * outputs
    return results, results * x.shape[-1] // FLOPS_A_BYTE + outputs * x.shape[-1]


@op(f"linear_packed(Tensor x, Tensor packed, {LAYER}, str activation='none') -> Tensor")
class LinearPacked:
    """linear, whose weight _pack_weight has packed; it has `outputs` rows."""

    types = "(T, f32, T, T) -> T where T: f32 f16 bf16"

    def infer(x, packed, bias, residual, outputs, activation):
        check_packed("linear_packed", x, packed)
        return layer("linear_packed", x, outputs, bias, residual, activation)

    def work(x, packed, bias, residual, outputs, activation):
        return _work(x, outputs)

    kernel = cpp_kernel("linear.cpp", "linear_packed", takes_strides=True)


@op(
    f"linear_int8_packed(Tensor x, Tensor packed, Tensor scale, {LAYER},"
    " str activation='none') -> Tensor"
)
class LinearInt8Packed:
    """linear_int8, whose weight _pack_int8 has packed; it has `outputs` rows."""

    types = "(T, f32, S, T, T) -> T where T: f32 f16 bf16, S: f32 f16 bf16"

    def infer(x, packed, scale, bias, residual, outputs, activation):
        check_packed("linear_int8_packed", x, packed)
        require_shape(scale, (outputs,), "linear_int8_packed: scale and the outputs")
        return layer("linear_int8_packed", x, outputs, bias, residual, activation)

    def work(x, packed, scale, bias, residual, outputs, activation):
        return _work(x, outputs)

    kernel = cpp_kernel("linear_quantized.cpp", "linear_int8_packed")


@op(
    "linear_int4_packed(Tensor x, Tensor packed, Tensor scale, Tensor? zero=None,"
    f" {LAYER}, int group=128, str activation='none') -> Tensor"
)
class LinearInt4Packed:
    """linear_int4, whose weight _pack_int4 has packed; it has `outputs` rows."""

    types = "(T, f32, S, S, T, T) -> T where T: f32 f16 bf16, S: f32 f16 bf16"

    def infer(x, packed, scale, zero, bias, residual, outputs, group, activation):
        check_packed("linear_int4_packed", x, packed)
        check_grid("linear_int4_packed", x.shape[-1], outputs, group, scale, zero)
        return layer("linear_int4_packed", x, outputs, bias, residual, activation)

    def work(x, packed, scale, zero, bias, residual, outputs, group, activation):
        return _work(x, outputs)

    kernel = cpp_kernel("linear_quantized.cpp", "linear_int4_packed")
