# SPDX-License-Identifier: Apache-2.0
"""my_add_relu in ONNX Runtime: as a node of our custom-operator library, and standard nodes that
our execution provider fuses.

Run it:

    python my_ops.py
"""

from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

import pto
import pto.onnxruntime
from pto import op


@op("my_add_relu(Tensor x, Tensor y) -> Tensor")
class MyAddRelu(pto.Definition):
    """max(x + y, 0); shapes broadcast."""

    def build(x: pto.Tensor, y: pto.Tensor) -> pto.Tensor:
        return pto.maximum(x + y, 0)

    def oracle(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(x + y, 0)

    tolerance = {pto.f32: 1e-6, pto.f64: 1e-14}


def model(*nodes: NodeProto) -> bytes:
    """A model with inputs x [N, 3] and y [3], and the output z."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        list(nodes), "my_ops",
        [value("x", TensorProto.FLOAT, ["N", 3]), value("y", TensorProto.FLOAT, [3])],
        [value("z", TensorProto.FLOAT, ["N", 3])],
    )  # fmt: skip
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("ai.pto", 1)]
    made = helper.make_model(graph, opset_imports=domains, ir_version=10)
    return bytes(made.SerializeToString())


def by_library(x: NDArray[np.float32], y: NDArray[np.float32]) -> Any:
    """A session with the CPU provider alone: register_custom_ops_library makes operators known."""
    node = helper.make_node("my_add_relu", ["x", "y"], ["z"], domain="ai.pto")
    options = pto.onnxruntime.register(onnxruntime.SessionOptions())
    session = onnxruntime.InferenceSession(model(node), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, "y": y})[0]


def by_provider(x: NDArray[np.float32], y: NDArray[np.float32]) -> Any:
    """Add and Relu as one kernel: the provider takes both nodes."""
    nodes = [helper.make_node("Add", ["x", "y"], ["s"]), helper.make_node("Relu", ["s"], ["z"])]
    session = onnxruntime.InferenceSession(model(*nodes), providers=pto.onnxruntime.providers)
    assert session.get_providers()[0] == pto.onnxruntime.PROVIDER
    return session.run(None, {"x": x, "y": y})[0]


if __name__ == "__main__":
    a = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)
    b = np.array([0.5, -1.0, 0.0], np.float32)
    want = np.maximum(a + b, 0)
    print("custom operator:", np.array_equal(by_library(a, b), want))
    print("execution provider:", np.array_equal(by_provider(a, b), want))
