# SPDX-License-Identifier: Apache-2.0
"""The provider inside ONNX Runtime: what it takes, what it computes, how it fails."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
import pto.onnxruntime  # noqa: F401
from onnx import TensorProto, helper
from onnx_cases import (
    OURS,
    assigned,
    feeds,
    is_close,
    model_of,
    node_cases,
    passes,
    passes_in_stock,
    session,
    with_constants,
)

from pto import _core
from pto.adapters.onnxruntime.table import TABLE

F32 = TensorProto.FLOAT


def of_row(name, most):
    """The first cases of one node of this type, the plain ones first."""
    found = [
        case
        for case in node_cases()
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type == name
    ]
    return found[:most]


@pytest.mark.parametrize("name", TABLE)
def test_a_row_of_the_table_agrees_with_the_cases_of_the_standard(name, deep):
    row, ran = TABLE[name], 0
    for case in of_row(name, None if deep else 2):
        model, inputs = with_constants(case, row.constants)
        if not passes_in_stock(case):
            continue
        made = session(model)
        ran += any(name in kernel for kernel in assigned(made))
        got = made.run(None, feeds(made, inputs))
        assert is_close(got, list(case.data_sets[0][1]), case.rtol, case.atol), case.name
    assert ran


def test_every_case_that_stock_passes_passes(deep):
    cases = node_cases() if deep else node_cases()[::40]
    failed = []
    for case in cases:
        if passes_in_stock(case):
            try:
                good = passes(case, session(case.model))
            except Exception as error:
                good, case = False, f"{case.name}: {error}"
            failed += [] if good else [getattr(case, "name", case)]
    assert failed == []


def test_a_chain_of_nodes_is_one_kernel():
    model = model_of(
        [
            helper.make_node("Mul", ["x", "two"], ["a"]),
            helper.make_node("Add", ["a", "y"], ["b"]),
            helper.make_node("Softmax", ["b"], ["c"]),
            helper.make_node("ReduceSum", ["c", "axes"], ["z"], keepdims=0),
        ],
        [("x", F32, ["N", 5]), ("y", F32, [5])],
        [("z", F32, ["N"]), ("b", F32, ["N", 5])],
        [("two", np.float32(2)), ("axes", np.array([1]))],
    )
    made = session(model)
    assert assigned(made) == [["Mul", "Add", "Softmax", "ReduceSum"]]
    for n in (3, 1, 0, 7):
        x, y = np.random.randn(n, 5).astype("f"), np.random.randn(5).astype("f")
        z, b = made.run(None, {"x": x, "y": y})
        np.testing.assert_allclose(b, 2 * x + y, rtol=1e-6)
        np.testing.assert_allclose(z, np.ones(n), rtol=1e-5)


def test_a_group_never_encloses_a_node_of_another_provider():
    """x -> Exp -> Det -> Add, and Exp -> Add: Exp and Add must not be one kernel."""
    model = model_of(
        [
            helper.make_node("Exp", ["x"], ["e"]),
            helper.make_node("Det", ["e"], ["d"]),
            helper.make_node("Add", ["e", "d"], ["z"]),
        ],
        [("x", F32, [3, 3])],
        [("z", F32, [3, 3])],
    )
    made = session(model)
    assert sorted(assigned(made)) == [["Add"], ["Exp"]]
    x = np.random.randn(3, 3).astype("f")
    np.testing.assert_allclose(
        made.run(None, {"x": x})[0], np.exp(x) + np.linalg.det(np.exp(x)), rtol=1e-4
    )


def test_the_plain_spelling_of_providers_works():
    model = model_of([helper.make_node("Relu", ["x"], ["z"])],
                     [("x", F32, [2])], [("z", F32, [2])])  # fmt: skip
    made = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["PtoExecutionProvider", "CPUExecutionProvider"]
    )
    assert made.get_providers() == OURS
    assert OURS[0] in onnxruntime.get_available_providers()
    assert made.run(None, {"x": np.float32([-1, 2])})[0].tolist() == [0, 2]


def test_sizes_that_do_not_fit_at_the_call_are_an_invalid_argument():
    model = model_of(
        [helper.make_node("Add", ["x", "y"], ["z"])],
        [("x", F32, ["N"]), ("y", F32, ["M"])],
        [("z", F32, ["K"])],
    )
    made = session(model)
    with pytest.raises(Exception, match="sizes 3 and 4 differ") as failure:
        made.run(None, {"x": np.ones(3, "f"), "y": np.ones(4, "f")})
    assert type(failure.value).__name__ == "InvalidArgument"
    assert made.run(None, {"x": np.ones(3, "f"), "y": np.ones(1, "f")})[0].tolist() == [2, 2, 2]


def test_the_operators_of_groups_are_private():
    heard = []
    _core.on_operator(heard.append)
    before = _core.operator_count()
    session(model_of([helper.make_node("Selu", ["x"], ["z"], gamma=1.25)],
                     [("x", F32, [7])], [("z", F32, [7])]))  # fmt: skip
    assert _core.operator_count() == before + 1
    names = {_core.operator_record(index)["name"] for index in heard}
    assert "gelu" in names or not names
    assert not any(name.startswith("_") for name in names)


def test_groups_that_are_alike_share_their_operator():
    def make(name):
        nodes = [helper.make_node("Mish", ["x"], ["a"]), helper.make_node("Neg", ["a"], [name])]
        return session(model_of(nodes, [("x", F32, ["N"])], [(name, F32, ["N"])]))

    make("z")
    before = _core.operator_count()
    made = make("other")
    assert _core.operator_count() == before
    assert assigned(made) == [["Mish", "Neg"]]
