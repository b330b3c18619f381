# SPDX-License-Identifier: Apache-2.0
"""The operator library: each operator once, for NumPy, for traced functions and every framework.

`pto.ops.softmax(x)` takes NumPy arrays, torch tensors (then it is torch.ops.pto.softmax, with its
gradient) and, inside a traced function, traced tensors. `pto.ops.softmax.oracle` and the other
members of the definition are those of its class. `pto.ops.relu_` is the operator in place.
"""

from typing import Any

from pto.errors import unknown_attribute
from pto.ops.activation import BiasGelu as bias_gelu
from pto.ops.activation import Gelu as gelu
from pto.ops.activation import Silu as silu
from pto.ops.activation import SiluMul as silu_mul
from pto.ops.arithmetic import Add as add
from pto.ops.arithmetic import FusedAddRelu as fused_add_relu
from pto.ops.arithmetic import Mul as mul
from pto.ops.arithmetic import MulScalar as mul_scalar
from pto.ops.arithmetic import Relu as relu
from pto.ops.attention import Attention as attention
from pto.ops.attention import AttentionWithLogSums as attention_with_log_sums
from pto.ops.convolution import Conv2d as conv2d
from pto.ops.dynamic import NonZero as nonzero
from pto.ops.linear import Linear as linear
from pto.ops.movement import Concat as concat
from pto.ops.movement import Gather as gather
from pto.ops.movement import Slice as slice
from pto.ops.movement import Transpose as transpose
from pto.ops.norm import AddLayerNorm as add_layer_norm
from pto.ops.norm import BiasAddLayerNorm as bias_add_layer_norm
from pto.ops.norm import LayerNorm as layer_norm
from pto.ops.norm import RmsNorm as rms_norm
from pto.ops.norm import Softmax as softmax
from pto.ops.packed import LinearPacked as linear_packed  # noqa: F401
from pto.ops.product import Gemm as gemm
from pto.ops.product import MatMul as matmul
from pto.ops.product import MatMulF32 as matmul_f32
from pto.ops.product import MatMulI32 as matmul_i32
from pto.ops.quantize import QuantizeInt4 as quantize_int4
from pto.ops.quantize import QuantizeRows as quantize_rows
from pto.ops.quantized import LinearInt4 as linear_int4
from pto.ops.quantized import LinearInt8 as linear_int8
from pto.ops.quantized import ScaledMatMul as scaled_matmul
from pto.ops.selection import Embedding as embedding
from pto.ops.selection import Split as split
from pto.ops.selection import TopK as top_k

__all__ = [
    "add",
    "add_layer_norm",
    "attention",
    "attention_with_log_sums",
    "bias_add_layer_norm",
    "bias_gelu",
    "concat",
    "conv2d",
    "embedding",
    "fused_add_relu",
    "gather",
    "gelu",
    "gemm",
    "layer_norm",
    "linear",
    "linear_int4",
    "linear_int8",
    "matmul",
    "matmul_f32",
    "matmul_i32",
    "mul",
    "mul_scalar",
    "nonzero",
    "quantize_int4",
    "quantize_rows",
    "relu",
    "rms_norm",
    "scaled_matmul",
    "silu",
    "silu_mul",
    "slice",
    "softmax",
    "split",
    "top_k",
    "transpose",
]


def __getattr__(name: str) -> Any:
    found = globals().get(name[:-1]) if name.endswith("_") else None
    if getattr(found, "in_place", None) is not None:
        return found.in_place
    raise unknown_attribute("pto.ops", name, __dir__())


def __dir__() -> list[str]:
    return sorted({*__all__, *(f"{name}_" for name in __all__ if globals()[name].in_place)})
