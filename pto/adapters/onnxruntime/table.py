# SPDX-License-Identifier: Apache-2.0
"""The table of standard operators that the provider takes, one row each.

A row gives the versions of the operator (it keeps its meaning from `first` on; `last` is the newest
that we know), its formula in the tile language or the operator of the library that computes it, and
the inputs that must be constants of the model, since they shape the kernel. It takes the element
types for which the formula traces, or the operator has kernels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from pto import language as tile
from pto.adapters.onnxruntime import calls as c
from pto.adapters.onnxruntime import formulas as f
from pto.adapters.onnxruntime.graph import OnnxNode


class View(IntEnum):
    """The way in which a node that only changes the shape runs alone, see views.hpp."""

    SAME, SHAPE, MATRIX, ADD_AXES, REMOVE_AXES = range(5)


@dataclass(frozen=True)
class Row:
    """`build` is the formula; `call` makes the LibraryOperator that runs alone in its kernel.

    Constants of one element become part of the kernel, but for the inputs `read`, and, where the
    row `learns`, for those that have axes, as a model's weights have.
    """

    first: int
    last: int
    build: Callable | None = None  # (node, *tensors) -> tensor or tensors
    constants: tuple[int, ...] = ()
    view: View | None = None
    call: Callable | None = None  # node -> LibraryOperator, alone in its kernel
    read: tuple[int, ...] = ()
    learns: bool = False

    def serves(self, node: OnnxNode) -> bool:
        """Says whether this version is known and what must be constant is."""
        return self.first <= node.since <= self.last and all(
            node.input(place) is None or node.data(place) is not None for place in self.constants
        )


def _reduce(function: Callable, last: int) -> Row:
    return Row(1, last, f.reduction(function), (1,))


# Nodes whose bodies may hold our kernels. Other bodies belong to functions, which ONNX Runtime
# inlines after it asked us, and then it no longer knows a fused node.
CONTROL_FLOW = {"If", "Loop", "Scan"}

TABLE: dict[str, Row] = {
    # arithmetic
    "Add": Row(7, 14, f.of(tile.add), learns=True),
    "Sub": Row(7, 14, f.of(tile.sub), learns=True),
    "Mul": Row(7, 14, f.of(tile.mul), learns=True),
    "Div": Row(7, 14, f.divide, learns=True),
    "Mod": Row(10, 13, f.modulo),
    "Pow": Row(7, 15, f.power),
    "Sum": Row(8, 13, f.joined_by(tile.add)),
    "Mean": Row(8, 13, f.mean_of),
    "Max": Row(8, 13, f.joined_by(tile.maximum)),
    "Min": Row(8, 13, f.joined_by(tile.minimum)),
    "Abs": Row(6, 13, f.of(tile.abs)),
    "Neg": Row(6, 13, f.of(tile.neg)),
    "Sign": Row(9, 13, f.of(tile.sign)),
    "Sqrt": Row(6, 13, f.of(tile.sqrt)),
    "Reciprocal": Row(6, 13, f.of(tile.reciprocal)),
    "Exp": Row(6, 13, f.of(tile.exp)),
    "Log": Row(6, 13, f.of(tile.log)),
    "Sin": Row(7, 22, f.of(tile.sin)),
    "Cos": Row(7, 22, f.of(tile.cos)),
    "Erf": Row(9, 13, f.of(tile.erf)),
    "Floor": Row(6, 13, f.of(tile.floor)),
    "Ceil": Row(6, 13, f.of(tile.ceil)),
    "Round": Row(11, 22, f.of(tile.round)),
    "Clip": Row(6, 13, f.clip),
    # conditions and bits
    "Equal": Row(7, 19, f.of(tile.eq)),
    "Less": Row(7, 13, f.of(tile.lt)),
    "LessOrEqual": Row(12, 16, f.of(tile.le)),
    "Greater": Row(7, 13, f.of(tile.gt)),
    "GreaterOrEqual": Row(12, 16, f.of(tile.ge)),
    "And": Row(7, 7, f.of(tile.logical_and)),
    "Or": Row(7, 7, f.of(tile.logical_or)),
    "Xor": Row(7, 7, f.of(tile.bitwise_xor)),
    "Not": Row(1, 1, f.of(tile.logical_not)),
    "BitwiseAnd": Row(18, 18, f.of(tile.bitwise_and)),
    "BitwiseOr": Row(18, 18, f.of(tile.bitwise_or)),
    "BitwiseXor": Row(18, 18, f.of(tile.bitwise_xor)),
    "BitwiseNot": Row(18, 18, f.of(tile.bitwise_not)),
    "IsNaN": Row(9, 20, f.of(lambda x: x != x)),
    "IsInf": Row(10, 20, f.is_infinite),
    "Where": Row(9, 16, f.of(tile.where)),
    # activations
    "Relu": Row(6, 14, f.of(tile.relu)),
    "Sigmoid": Row(6, 13, f.of(tile.sigmoid)),
    "Tanh": Row(6, 13, f.of(tile.tanh)),
    "LeakyRelu": Row(6, 16, f.leaky_relu),
    "PRelu": Row(7, 16, f.of(tile.leaky_relu)),
    "ThresholdedRelu": Row(10, 22, f.thresholded_relu),
    "Elu": Row(6, 22, f.elu),
    "Celu": Row(12, 12, f.celu),
    "Selu": Row(6, 22, f.selu),
    "Softplus": Row(1, 22, f.of(tile.softplus)),
    "Softsign": Row(1, 22, f.of(lambda x: x / (1 + tile.abs(x)))),
    "HardSigmoid": Row(6, 22, f.hard_sigmoid),
    "HardSwish": Row(14, 22, f.hard_swish),
    "Mish": Row(18, 22, f.of(tile.mish)),
    "Swish": Row(24, 24, f.swish),
    "Gelu": Row(20, 20, f.gelu),
    "Shrink": Row(9, 9, f.shrink),
    # element types and shapes
    "Cast": Row(6, 25, f.cast_by_attribute),
    "CastLike": Row(15, 25, f.cast_to),
    "QuantizeLinear": Row(10, 25, f.quantize, read=(1, 2)),
    "DequantizeLinear": Row(10, 25, f.dequantize, read=(1, 2)),
    "Identity": Row(1, 25, f.of(lambda x: x), view=View.SAME),
    "Reshape": Row(5, 25, view=View.SHAPE),
    "Flatten": Row(1, 25, view=View.MATRIX),
    "Dropout": Row(7, 22, f.dropout, (2,)),
    "Expand": Row(8, 13, f.expand, (1,)),
    "Unsqueeze": Row(1, 25, f.unsqueeze, (1,), View.ADD_AXES),
    "Squeeze": Row(1, 25, f.squeeze, (1,), View.REMOVE_AXES),
    # reductions
    "ReduceSum": _reduce(f.over(tile.sum), 13),
    "ReduceMean": _reduce(f.over(tile.mean), 18),
    "ReduceProd": _reduce(f.over(tile.prod), 18),
    "ReduceMax": _reduce(f.extreme_of("amax"), 20),
    "ReduceMin": _reduce(f.extreme_of("amin"), 20),
    "ReduceL1": _reduce(f.over(tile.sum, before=tile.abs), 18),
    "ReduceL2": _reduce(f.over(tile.sum, before=tile.square, after=tile.sqrt), 18),
    "ReduceSumSquare": _reduce(f.over(tile.sum, before=tile.square), 18),
    "ReduceLogSum": _reduce(f.over(tile.sum, after=tile.log), 18),
    "ReduceLogSumExp": _reduce(f.log_sum_exp, 18),
    # normalisations
    "Softmax": Row(1, 13, f.softmax),
    "LogSoftmax": Row(1, 13, f.log_softmax),
    "LayerNormalization": Row(17, 17, f.layer_norm),
    "RMSNormalization": Row(23, 23, f.rms_norm),
    "InstanceNormalization": Row(6, 22, f.instance_norm),
    "BatchNormalization": Row(9, 15, f.batch_norm),
    "MeanVarianceNormalization": Row(9, 13, f.mean_variance_norm),
    "LpNormalization": Row(1, 22, f.lp_norm),
    # matrices and what moves elements
    "MatMul": Row(1, 13, call=c.product),
    "Gemm": Row(7, 13, call=c.gemm),
    "Conv": Row(1, 22, call=c.convolution),
    "Transpose": Row(1, 25, call=c.transpose),
    "Gather": Row(1, 13, call=c.gather),
    "Concat": Row(4, 13, call=c.concat),
    "Slice": Row(1, 13, constants=(1, 2, 3, 4), call=c.slice_),
}
