# SPDX-License-Identifier: Apache-2.0
"""Nodes of one input on the numbers at which formulas go wrong, beside ONNX Runtime's own."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx import TensorProto, helper
from onnx_cases import CPU, assigned, model_of, session

import pto.onnxruntime  # noqa: F401

NODES = ["Abs", "Neg", "Sign", "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Floor", "Ceil", "Round",
         "Relu", "Sigmoid", "Tanh", "LeakyRelu", "ThresholdedRelu", "Elu", "Celu", "Selu",
         "Softplus", "Softsign", "HardSigmoid", "HardSwish", "Mish", "Gelu", "Shrink"]  # fmt: skip
NUMBERS = np.array(
    [np.nan, np.inf, -np.inf, 0, -0.0, 1e-40, 3e38, -3e38, 1, -1, 0.5, 2.5, 88, -104], "f"
)


@pytest.mark.parametrize("name", NODES)
def test_nan_infinities_zeros_and_large_numbers_give_what_stock_gives(name, monkeypatch):
    monkeypatch.setattr(pto.config, "onnxruntime_takes", "all")
    node = helper.make_node(name, ["x"], ["y"])
    f32 = TensorProto.FLOAT
    model = model_of([node], [("x", f32, ["n"])], [("y", f32, ["n"])])
    made = session(model)
    assert assigned(made) == [[name]]
    [got], [want] = (one.run(None, {"x": NUMBERS}) for one in (made, session(model, CPU)))
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin", "ReduceSum"])
def test_a_reduction_of_nothing_gives_what_stock_gives(name, dtype, monkeypatch):
    monkeypatch.setattr(pto.config, "onnxruntime_takes", "all")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node(name, ["x", "axes"], ["y"], keepdims=0)
    model = model_of([node], [("x", kind, ["n", 3])], [("y", kind, [3])], [("axes", np.array([0]))])
    made, stock = session(model), session(model, CPU)
    assert assigned(made) == [[name]]
    for rows in (0, 2):
        x = np.arange(rows * 3).reshape(rows, 3).astype(dtype)
        [got], [want] = (one.run(None, {"x": x}) for one in (made, stock))
        np.testing.assert_allclose(got, want, rtol=1e-6)
