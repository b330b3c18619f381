# SPDX-License-Identifier: Apache-2.0
"""What the provider leaves to stock ONNX Runtime: laws of the decision, and none about times."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
from onnx import TensorProto, helper
from onnx_cases import CPU, assigned, model_of, session

import pto
import pto.onnxruntime
from pto.adapters.onnxruntime import costs, group
from pto.adapters.onnxruntime.table import TABLE
from pto.config import TARGETS
from pto.errors import InvalidValue

F32 = TensorProto.FLOAT
WEIGHT = np.random.default_rng(0).standard_normal((64, 8, 3, 3), np.float32)


def cells(stock_us, ours_us):
    """A table in which every node of stock takes so long, and every one of ours."""
    changed = json.loads(costs.TABLE.read_text())
    for column in changed.values():
        nodes = dict.fromkeys((*TABLE, *column["nodes"]), [stock_us, 0, ours_us, 0])
        products = {name: [[stock_us, ours_us]] * 3 for name in column["products"]}
        column |= {"nodes": nodes, "products": products, "reorder": 0}
    return changed


@pytest.fixture
def times(monkeypatch):
    """Sets what all nodes take by stock and by ours."""
    monkeypatch.setattr(pto.config, "onnxruntime_takes", "faster")
    columns = {}
    monkeypatch.setattr(costs, "table", lambda: columns)
    return lambda *us: columns.update(cells(*us))


def chain():
    """x -> Mul -> Add -> Softmax, and a product."""
    return model_of(
        [
            helper.make_node("Mul", ["x", "two"], ["a"]),
            helper.make_node("Add", ["a", "y"], ["b"]),
            helper.make_node("Softmax", ["b"], ["c"]),
            helper.make_node("MatMul", ["c", "w"], ["z"]),
        ],
        [("x", F32, [32, 64]), ("y", F32, [64])],
        [("z", F32, [32, 64])],
        [("two", np.float32(2)), ("w", WEIGHT.reshape(-1)[: 64 * 64].reshape(64, 64))],
    )


def image(*nodes, constants=(), filters=32):
    """Nodes behind a convolution "c" of the image "x" under filters."""
    conv = helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4)
    shape = [1, filters, 20, 20]
    return model_of(
        [conv, *nodes], [("x", F32, [1, 8, 20, 20])], [("z", F32, shape)],
        [("w", WEIGHT[:filters]), *constants],
    )  # fmt: skip


def test_a_model_whose_groups_all_lose_stays_whole_and_has_the_bits_of_stock(times):
    times(1, 100)
    made = session(chain())
    assert assigned(made) == []
    feed = {"x": np.random.randn(32, 64).astype("f"), "y": np.random.randn(64).astype("f")}
    want = session(chain(), CPU).run(None, feed)
    np.testing.assert_array_equal(made.run(None, feed)[0], want[0])


def test_a_model_whose_groups_all_win_is_ours(times):
    times(100, 1)
    assert assigned(session(chain())) == [["Mul", "Add", "Softmax"], ["MatMul"]]


def test_all_takes_what_loses(times):
    times(1, 100)
    pto.config.onnxruntime_takes = "all"
    assert len(assigned(session(chain()))) == 2


def test_a_decision_and_the_bits_are_those_of_another_session(times):
    def run(made):
        x = np.random.default_rng(1).standard_normal((32, 64), np.float32)
        return made.run(None, {"x": x, "y": x[0]})[0]

    first, second = session(chain()), session(chain())
    assert assigned(first) == assigned(second)
    np.testing.assert_array_equal(run(first), run(second))
    assert pto.onnxruntime.explain(chain().SerializeToString()) == pto.onnxruntime.explain(
        chain().SerializeToString()
    )


@pytest.mark.parametrize("name", ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid"])
def test_an_activation_right_behind_a_convolution_stays(times, name):
    times(100, 1)
    model = image(helper.make_node(name, ["c"], ["z"]))
    assert assigned(session(model)) == []
    assert "part of the Conv before it" in pto.onnxruntime.explain(model.SerializeToString())


def test_an_activation_behind_a_convolution_that_another_node_reads_may_be_ours(times):
    times(100, 1)
    nodes = [helper.make_node("Sigmoid", ["c"], ["s"]), helper.make_node("Mul", ["c", "s"], ["z"])]
    assert assigned(session(image(*nodes))) == [["Sigmoid", "Mul"]]


def test_a_convolution_of_few_filters_is_ours_with_the_activation_behind_it(times):
    times(100, 1)
    model = image(helper.make_node("Relu", ["c"], ["z"]), filters=4)
    made = session(model)
    assert sorted(assigned(made)) == [["Conv"], ["Relu"]]
    x = {"x": np.random.randn(1, 8, 20, 20).astype("f")}
    want = session(model, CPU).run(None, x)[0]
    np.testing.assert_allclose(made.run(None, x)[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_a_gemm_with_a_constant_weight_is_a_layer(times, transposed, bias):
    times(100, 1)
    weight = WEIGHT.reshape(-1)[: 70 * 30].reshape((30, 70) if transposed else (70, 30))
    node = helper.make_node("Gemm", ["x", "w", *["b"] * bias], ["z"], transB=transposed)
    constants = [("w", weight), ("b", np.arange(30, dtype="f"))][: 1 + bias]
    model = model_of([node], [("x", F32, [20, 70])], [("z", F32, [20, 30])], constants)
    made = session(model)
    assert assigned(made) == [["Gemm"]]
    x = {"x": np.random.randn(20, 70).astype("f")}
    want = session(model, CPU).run(None, x)[0]
    np.testing.assert_allclose(made.run(None, x)[0], want, rtol=1e-4, atol=1e-4)


def test_a_gemm_is_ours_where_the_model_does_not_tell_the_rank_of_its_operand(times):
    times(100, 1)
    nodes = [
        helper.make_node("Squeeze", ["x", "axes"], ["a"]),
        helper.make_node("Gemm", ["a", "w", "b"], ["z"], transB=1),
    ]
    inputs = [("x", F32, [1, 20, 70]), ("axes", TensorProto.INT64, [1])]
    constants = [("w", WEIGHT.reshape(-1)[: 30 * 70].reshape(30, 70)), ("b", WEIGHT[:30, 0, 0, 0])]
    model = model_of(nodes, inputs, [("z", F32, None)], constants)
    made = session(model)
    assert assigned(made) == [["Gemm"]]
    x = {"x": np.random.randn(1, 20, 70).astype("f"), "axes": np.array([0])}
    want = session(model, CPU).run(None, x)[0]
    np.testing.assert_allclose(made.run(None, x)[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scales", [(0.3, 0.7), (0.3, 0.3), (0.3,)])
def test_layers_whose_scales_differ_share_a_kernel(times, monkeypatch, scales):
    times(100, 1)
    nodes, value = [], "x"
    for i in range(len(scales)):
        nodes.append(helper.make_node("Mul", [value, f"scale{i}"], [f"a{i}"]))
        nodes.append(helper.make_node("Sin", [f"a{i}"], [f"b{i}"]))
        nodes.append(helper.make_node("MatMul", [f"b{i}", "w"], [value := f"c{i}"]))
    constants = [(f"scale{i}", np.float32(one)) for i, one in enumerate(scales)]
    constants.append(("w", WEIGHT.reshape(-1)[: 64 * 64].reshape(64, 64)))
    model = model_of(nodes, [("x", F32, [32, 64])], [(value, F32, [32, 64])], constants)
    compiled = set()
    monkeypatch.setattr(group, "compile_ahead", lambda made, *_: compiled.add(made.index))
    made = session(model)
    assert assigned(made) == [["Mul", "Sin"], ["MatMul"]] * len(scales)
    assert len(compiled) == 1
    x = {"x": np.random.default_rng(0).standard_normal((32, 64), np.float32)}
    want = session(model, CPU).run(None, x)[0]
    np.testing.assert_allclose(made.run(None, x)[0], want, rtol=1e-4, atol=1e-3)


def priced(monkeypatch, **nodes):
    """Sets what these nodes take; others take no time."""
    columns = cells(0, 0)
    for column in columns.values():
        column["nodes"] |= nodes
    monkeypatch.setattr(pto.config, "onnxruntime_takes", "faster")
    monkeypatch.setattr(costs, "table", lambda: columns)


@pytest.mark.parametrize("axis, is_ours", [(0, False), (1, True), (-1, True)])
def test_a_gather_costs_by_the_blocks_that_it_moves(monkeypatch, axis, is_ours):
    """A row of the table is one block, an element of a column another."""
    priced(monkeypatch, Gather=[1, 10, 2, 1])
    node = helper.make_node("Gather", ["x", "i"], ["z"], axis=axis)
    x, z = [500, 60], [3, 60] if axis == 0 else [500, 3]
    model = model_of([node], [("x", F32, x)], [("z", F32, z)], [("i", np.array([4, 0, 2]))])
    assert assigned(session(model)) == [["Gather"]] * is_ours


@pytest.mark.parametrize("exponent, is_ours", [(2, False), (3, False), (4, True), (2.5, True)])
def test_a_power_that_stock_multiplies_costs_what_a_product_costs(monkeypatch, exponent, is_ours):
    priced(monkeypatch, Pow=[100, 0, 10, 0], Mul=[1, 0, 10, 0])
    node = helper.make_node("Pow", ["x", "y"], ["z"])
    model = model_of([node], [("x", F32, [9])], [("z", F32, [9])], [("y", np.float32(exponent))])
    assert assigned(session(model)) == [["Pow"]] * is_ours


def quantised(name):
    """A node between two places where values are bytes."""
    scale, zero = ("scale", np.float32(0.05)), ("zero", np.uint8(100))
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["a"]),
        helper.make_node(name, ["a"], ["b"]),
        helper.make_node("QuantizeLinear", ["b", "scale", "zero"], ["z"]),
    ]
    byte = TensorProto.UINT8
    return model_of(nodes, [("x", byte, [6, 40])], [("z", byte, [6, 40])], [scale, zero])


def test_nodes_between_bytes_stay_where_stock_has_them_on_integers(times):
    times(100, 1)
    assert assigned(session(quantised("Sigmoid"))) == []
    made = session(quantised("Softmax"))
    assert assigned(made) == [["DequantizeLinear", "Softmax", "QuantizeLinear"]]
    x = {"x": np.random.default_rng(0).integers(0, 256, (6, 40), np.uint8)}
    want = session(quantised("Softmax"), CPU, session__disable_quant_qdq="1").run(None, x)[0]
    assert np.abs(made.run(None, x)[0].astype(int) - want).max() <= 1


def test_the_table_has_every_target():
    assert set(costs.table()) == set(TARGETS) - {""} == set(costs.TARGETS)


def is_broken():
    return re.escape(f"the table of costs {costs.TABLE} is broken")


@pytest.mark.parametrize("spoil, wrong", [
    (lambda t: t.pop("avx2"), "it lacks 'avx2'"),
    (lambda t: t["avx512"]["nodes"].pop("Neg"), "avx512 lacks Neg"),
    (lambda t: t["avx512"]["nodes"].update(Add=[1, 2]), "a cell of avx512, nodes"),
    (lambda t: t["avx2"]["products"].update(MatMul=[[1]]), "a cell of avx2, products"),
    (lambda t: t["avx2"].update(reorder=-1), "a cell of avx2 is no time"),
    (lambda t: t["avx2"]["nodes"].pop("Transpose"), "avx2 lacks Transpose"),
    (lambda t: t["avx2"]["products"].pop("Conv"), "avx2 lacks Conv"),
    (lambda t: t["avx2"]["products"]["Gemm"].pop(), "a line of avx2, products"),
])  # fmt: skip
def test_a_broken_table_is_an_error(spoil, wrong):
    table = json.loads(costs.TABLE.read_text())
    spoil(table)
    with pytest.raises(InvalidValue, match=wrong):
        costs.checked(json.dumps(table))
    with pytest.raises(InvalidValue, match=is_broken()):
        costs.checked("{")


@pytest.mark.parametrize("content", [b"{", b"\xff", None])
def test_a_session_with_a_broken_table_is_an_error(monkeypatch, tmp_path, content):
    monkeypatch.setattr(costs, "TABLE", tmp_path / "costs.json")
    monkeypatch.setattr(costs, "table", costs.table.__wrapped__)
    monkeypatch.setattr(pto.config, "onnxruntime_takes", "faster")
    if content is not None:
        costs.TABLE.write_bytes(content)
    model = chain().SerializeToString()
    for make in (session, pto.onnxruntime.session, pto.onnxruntime.explain):
        with pytest.raises(InvalidValue, match=is_broken()):
            make(model)
    ours = [one for one in onnxruntime.get_ep_devices() if one.ep_name == pto.onnxruntime.PROVIDER]
    with pytest.raises(InvalidValue, match=is_broken()):
        onnxruntime.SessionOptions().add_provider_for_devices(ours, {})
    pto.config.onnxruntime_takes = "all"  # asks for no times
    assert len(assigned(session(model))) == 2


def test_another_choice_of_nodes_is_an_error():
    with pytest.raises(InvalidValue, match="onnxruntime_takes is 'most'"):
        pto.config.onnxruntime_takes = "most"
