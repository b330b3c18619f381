# SPDX-License-Identifier: Apache-2.0
"""The operator library: each operator once, for NumPy, for traced functions and every framework.

`pto.ops.softmax(x)` takes NumPy arrays, torch tensors (then it is torch.ops.pto.softmax, with its
gradient) and, inside a traced function, traced tensors. `pto.ops.softmax.oracle` and the other
members of the definition are those of its class.
"""

from pto.ops.activation import BiasGelu as bias_gelu
from pto.ops.activation import Gelu as gelu
from pto.ops.activation import Silu as silu
from pto.ops.activation import SiluMul as silu_mul
from pto.ops.arithmetic import Add as add
from pto.ops.movement import Concat as concat
from pto.ops.movement import Gather as gather
from pto.ops.movement import Slice as slice
from pto.ops.movement import Transpose as transpose
from pto.ops.norm import AddLayerNorm as add_layer_norm
from pto.ops.norm import BiasAddLayerNorm as bias_add_layer_norm
from pto.ops.norm import LayerNorm as layer_norm
from pto.ops.norm import RmsNorm as rms_norm
from pto.ops.norm import Softmax as softmax
from pto.ops.product import Gemm as gemm
from pto.ops.product import MatMul as matmul

__all__ = [
    "add",
    "add_layer_norm",
    "bias_add_layer_norm",
    "bias_gelu",
    "concat",
    "gather",
    "gelu",
    "gemm",
    "layer_norm",
    "matmul",
    "rms_norm",
    "silu",
    "silu_mul",
    "slice",
    "softmax",
    "transpose",
]
