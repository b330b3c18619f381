# SPDX-License-Identifier: Apache-2.0
"""Nodes of ai.pto with several outputs: those that nobody reads, and lists of another length."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
from onnx import TensorProto, helper
from onnx_cases import CPU, assigned, model_of, session

import pto.onnxruntime

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def with_operators(model):
    options = pto.onnxruntime.register(onnxruntime.SessionOptions())
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=CPU)


BOTH = pytest.mark.parametrize("make", [session, with_operators], ids=["provider", "custom"])


def node_of(name, outputs, read, **attributes):
    """A model of one node, of whose outputs only `read` are the model's."""
    node = helper.make_node(name, ["x"], outputs, domain="ai.pto", **attributes)
    ends = [("x", TensorProto.FLOAT, ["N", 4])], [(n, TensorProto.FLOAT, None) for n in read]
    return model_of([node], *ends, domains=["ai.pto"])


@BOTH
def test_an_output_that_nobody_reads_is_left_out(make):
    for name, attributes, want in (
        ("top_k", {"k": 2}, X[:, :1:-1]),
        ("split", {"sizes": [1, 3], "dim": 1}, X[:, :1]),
    ):
        made = make(node_of(name, ["y", "z"], ["y"], **attributes))
        assert make is with_operators or assigned(made) == [[name]]
        np.testing.assert_array_equal(made.run(None, {"x": X})[0], want)


@BOTH
@pytest.mark.parametrize("outputs", ["a", "abc"])
def test_a_node_of_a_list_of_another_length_is_an_error(make, outputs):
    made = make(node_of("split", list(outputs), "a", sizes=[1, 3], dim=1))
    wrong = f"split: gives 2 tensors, but the node has {len(outputs)} outputs"
    with pytest.raises(Exception, match=wrong):
        made.run(None, {"x": X})
