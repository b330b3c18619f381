# SPDX-License-Identifier: Apache-2.0
"""Measures the table by which the ONNX Runtime provider leaves nodes to stock.

    PTO_TARGET=avx2 python -m bench.onnx_costs    # rewrites the column avx2 of costs.json

Each cell has the time of one node of a kind by stock and by ours, from a model of nine such nodes
less one of a single node, so that what a call of a session takes falls out. Element-wise nodes,
reductions and moves are measured at two sizes, which give microseconds a node and nanoseconds an
element; products at three numbers of rows. Stock always uses the best instructions of the machine.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.onnx_models import session
from pto.adapters.onnxruntime import costs
from pto.bench.timing import interleave
from pto.config import config

ROWS, COLUMNS = (4, 256), 256  # of the two sizes of a tensor
COPIES = 9


@dataclasses.dataclass(frozen=True)
class Node:
    """A node to measure: x and further inputs, constants behind them, attributes."""

    type: str
    inputs: int = 1
    constants: tuple = ()
    attributes: tuple = ()
    kind: type = np.float32


SIMPLE = {  # types by their number of tensors
    1: "Abs Neg Sign Sqrt Reciprocal Exp Log Sin Cos Erf Floor Ceil Round Relu Sigmoid Tanh"
       " LeakyRelu Elu Selu Softplus Softsign HardSigmoid HardSwish Mish Gelu Identity Softmax"
       " LogSoftmax",
    2: "Add Sub Mul Div Max Min Sum Mean Equal Less Greater LessOrEqual GreaterOrEqual",
}  # fmt: skip
REDUCTIONS = ("Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
BOTH = np.ones(COLUMNS, np.float32)
NODES = (
    *(Node(name, count) for count, names in SIMPLE.items() for name in names.split()),
    *(Node(f"Reduce{name}", 1, (np.array([1]),)) for name in REDUCTIONS),
    Node("Pow", 1, (np.float32(2.5),)),
    Node("Clip", 1, (np.float32(0), np.float32(6))),
    Node("LayerNormalization", 1, (BOTH, BOTH)),
    Node("Transpose"),
    Node("Concat", 2, (), (("axis", 1),)),
    Node("Slice", 1, tuple(map(np.array, ([0], [200], [1])))),
    Node("Gather", 1, (np.arange(0, 200),), (("axis", 1),)),
    Node("Cast", 1, (), (("to", TensorProto.DOUBLE),)),
    Node("Expand", 1, (np.array([1, 1]),)),
    Node("QuantizeLinear", 1, (np.float32(0.01), np.uint8(3))),
    Node("DequantizeLinear", 1, (np.float32(0.01), np.uint8(3)), (), np.uint8),
    Node("Unsqueeze", 1, (np.array([0]),)),
    Node("Reshape", 1, (np.array([-1]),)),
)
PRODUCTS = {"MatMul": (384, 1536), "Gemm": (384, 1536), "MatMul of two": (64, 64)}


def model(node: Node, count: int, shapes: Sequence[tuple[int, ...]]) -> bytes:
    """A model of nodes beside each other, each with inputs of its own; it has COPIES times the
    inputs for any number of nodes."""
    made, inputs, outputs, constants = [], [], [], []
    for i in range(COPIES):
        names = [f"x{i}_{j}" for j in range(node.inputs)]
        for name, shape in zip(names, shapes, strict=False):
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(node.kind))
            inputs.append(helper.make_tensor_value_info(name, kind, shape))
        for j, constant in enumerate(node.constants):
            names.append(f"c{i}_{j}")
            own = constant * (1 + i) if np.ndim(constant) == 2 else np.asarray(constant)
            constants.append(numpy_helper.from_array(own, names[-1]))
        if i >= count:
            continue
        made.append(helper.make_node(node.type, names, [f"y{i}"], **dict(node.attributes)))
        outputs.append(helper.make_empty_tensor_value_info(f"y{i}"))
    graph = helper.make_graph(made, "costs", inputs, outputs, constants)
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(found).SerializeToString()


def times(node: Node, shapes: Sequence[tuple[int, ...]]) -> dict[str, float]:
    """Microseconds of a node by stock and by ours."""
    rng, calls = np.random.default_rng(0), {}
    for count in (COPIES, 1):
        data = model(node, count, shapes)
        feeds = {f"x{i}_{j}": (rng.random(shapes[j], np.float32) + 0.5).astype(node.kind)
                 for i in range(COPIES) for j in range(node.inputs)}  # fmt: skip
        for name in ("stock", "ours"):
            made = session(data, 1, name == "ours")
            calls[name, count] = functools.partial(made.run, ["y0"], feeds)
    us = {key: one.median * 1e6 for key, one in interleave(calls, 11).items()}
    return {n: max(us[n, COPIES] - us[n, 1], 0.0) / (COPIES - 1) for n in ("stock", "ours")}


def line(node: Node) -> list[float]:
    """Microseconds a node and nanoseconds an element of stock, and of ours."""
    found = []
    small, large = (times(node, [(rows, COLUMNS)] * node.inputs) for rows in ROWS)
    few, many = (rows * COLUMNS for rows in ROWS)
    for name in ("stock", "ours"):
        slope = max(large[name] - small[name], 0.0) / (many - few)
        found += [max(small[name] - slope * few, 0.0), slope * 1e3]
    return [round(x, 4) for x in found]


def convolution() -> list[list[float]]:
    """The same for images of 32 channels under few filters."""
    found = []
    for filters in costs.FILTERS:
        weight = np.random.default_rng(0).standard_normal((filters, 32, 3, 3), np.float32)
        us = times(Node("Conv", 1, (weight,), (("pads", [1] * 4),)), [(1, 32, 50, 50)])
        millions = 50 * 50 * weight.size / 1e6
        found.append([round(us[name] / millions, 4) for name in ("stock", "ours")])
    return found


def product(name: str) -> list[list[float]]:
    """Microseconds of a million multiplications by stock and by ours, at each number of rows."""
    depth, columns = PRODUCTS[name]
    weight = np.random.default_rng(0).standard_normal((depth, columns), np.float32)
    found = []
    for rows in costs.ROWS:
        if name == "MatMul of two":
            us = times(Node("MatMul", 2), [(8, rows, depth), (8, depth, columns)])
            millions = 8 * rows * depth * columns / 1e6
        else:
            us = times(Node(name, 1, (weight,)), [(rows, depth)])
            millions = rows * depth * columns / 1e6
        found.append([round(us["stock"] / millions, 4), round(us["ours"] / millions, 4)])
    return found


def reordering(cells: dict[str, list[float]]) -> float:
    """Nanoseconds an element by which a node that is not blocked between convolutions delays
    stock, for each of its two sides."""
    shape, weight = (1, 32, 64, 64), np.random.default_rng(0).random((32, 32, 1, 1), np.float32)
    calls = {}
    for middle in ("Abs", None):
        names = ["x", "a", "b", "z"] if middle else ["x", "a", "z"]
        nodes = [helper.make_node(kind, [source, "w"] if kind == "Conv" else [source], [to])
                 for kind, source, to in zip(["Conv", middle, "Conv"] if middle else ["Conv"] * 2,
                                             names, names[1:], strict=False)]  # fmt: skip
        x, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xz")
        graph = helper.make_graph(nodes, "costs", [x], [z], [numpy_helper.from_array(weight, "w")])
        opsets = [helper.make_opsetid("", 21)]
        made = session(helper.make_model(graph, opset_imports=opsets,
                                         ir_version=10).SerializeToString(), 1, False)  # fmt: skip
        feeds = {"x": np.ones(shape, np.float32)}
        calls[str(middle)] = functools.partial(made.run, None, feeds)
    us = {name: one.median * 1e6 for name, one in interleave(calls, 21).items()}
    count = float(np.prod(shape))
    alone = cells["Abs"][0] + cells["Abs"][1] * count / 1e3
    return round(max(us["Abs"] - us["None"] - alone, 0.0) * 1e3 / count / 2, 4)


def main() -> int:
    config.onnxruntime_takes = "all"
    column: dict[str, object] = {"nodes": {}, "products": {}}
    for node in NODES:
        column["nodes"][node.type] = line(node)
        print(node.type, column["nodes"][node.type], flush=True)
    for name in PRODUCTS:
        column["products"][name] = product(name)
        print(name, column["products"][name], flush=True)
    column["products"]["Conv"] = convolution()
    print("Conv", column["products"]["Conv"], flush=True)
    column["reorder"] = reordering(column["nodes"])
    print("reorder", column["reorder"])
    costs.write(column)
    return 0


if __name__ == "__main__":
    sys.exit(main())
