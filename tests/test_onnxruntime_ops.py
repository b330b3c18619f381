# SPDX-License-Identifier: Apache-2.0
"""The provider inside ONNX Runtime: what it takes, what it computes, how it fails."""

import concurrent.futures

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
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

import pto.onnxruntime  # noqa: F401
from pto import _core, ops
from pto.adapters.onnxruntime.table import TABLE
from pto.language.op import op

F32 = TensorProto.FLOAT


@pytest.fixture(autouse=True)
def all_nodes(monkeypatch):
    """Sessions take all nodes that have kernels, also where stock is faster."""
    monkeypatch.setattr(pto.config, "onnxruntime_takes", "all")


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


# --- nodes of ai.pto ------------------------------------------------------------------------------


def of_ai_pto(name, inputs, shape=None, constants=(), **attributes):
    """A model of one node of our domain; inputs as (name, shape), all f32."""
    node = helper.make_node(name, [i[0] for i in inputs], ["z"], domain="ai.pto", **attributes)
    given = [i for i in inputs if i[0] and i[0] not in dict(constants)]
    return model_of([node], [(n, F32, s) for n, s in given], [("z", F32, shape)],
                    constants, domains=["ai.pto"])  # fmt: skip


def with_operators(model):
    """A session of ONNX Runtime's own provider that knows our operators."""
    options = pto.onnxruntime.register(pto.onnxruntime.register(onnxruntime.SessionOptions()))
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
    )


BOTH = pytest.mark.parametrize("make", [session, with_operators], ids=["provider", "custom"])


@BOTH
def test_an_operator_gives_the_bits_that_it_gives_numpy(make):
    made = make(of_ai_pto("layer_norm", [("x", ["N", 384]), ("w", [384]), ("b", [384])], eps=1e-5))
    assert made.get_outputs()[0].shape == ["N", 384]
    for n in (1, 5, 0):
        x, w, b = (np.random.randn(*s).astype("f") for s in ((n, 384), (384,), (384,)))
        got = made.run(None, {"x": x, "w": w, "b": b})[0]
        np.testing.assert_array_equal(got, ops.layer_norm(x, w, b))


@BOTH
def test_lists_flags_and_texts_arrive(make):
    x = np.random.randn(3, 4).astype("f")
    made = make(of_ai_pto("concat", [("x", ["N", 4]), ("y", ["N", "M"])], dim=1))
    np.testing.assert_array_equal(
        made.run(None, {"x": x, "y": x[:, :1]})[0], np.concatenate([x, x[:, :1]], 1)
    )
    made = make(of_ai_pto("gemm", [("x", ["N", 4]), ("y", ["M", 4])], transpose_b=1))
    assert made.get_outputs()[0].shape == ["N", "M"]
    np.testing.assert_allclose(made.run(None, {"x": x, "y": x})[0], x @ x.T, rtol=1e-5, atol=1e-5)
    made = make(of_ai_pto("gelu", [("x", ["N", 4])], approximate="tanh"))
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], ops.gelu(x, approximate="tanh"))


@BOTH
@pytest.mark.parametrize("given", [
    "x weight", "x weight bias", "x weight bias residual", "x weight  residual",
    "x weight bias ", "x weight  ", "x weight   ",
])  # fmt: skip
def test_an_absent_input_holds_its_place(make, given):
    shapes = {"x": ["N", 8], "weight": [5, 8], "bias": [5], "residual": ["N", 5]}
    made = make(of_ai_pto("linear", [(name, shapes.get(name)) for name in given.split(" ")]))
    assert made.get_outputs()[0].shape == ["N", 5]
    if make is session:
        assert assigned(made) == [["linear"]]
    sizes = [[4 if size == "N" else size for size in shapes[name]] for name in given.split()]
    x = {n: np.random.randn(*s).astype("f") for n, s in zip(given.split(), sizes, strict=True)}
    np.testing.assert_array_equal(made.run(None, x)[0], ops.linear(**x))


@BOTH
@pytest.mark.parametrize("given", ["", "mask", " lengths", "  slopes", "mask  slopes", "  "])
def test_absent_inputs_of_several_types_hold_their_places(make, given):
    """Attention has optional inputs of numbers or truth values, of integers, and of numbers."""
    rest = {"mask": np.tri(3, 4, 1, dtype=bool), "lengths": np.int64([4, 2]),
            "slopes": np.float32([0.5, 2])}  # fmt: skip
    x = {n: np.random.randn(2, 2, 4, 8).astype("f") for n in "qkv"}
    x["q"] = x["q"][:, :, :3]
    x |= {name: rest[name] for name in given.split()}
    names = ["q", "k", "v", *given.split(" ")]
    node = helper.make_node("attention", names, ["z"], domain="ai.pto")
    kinds = [(n, helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape)) for n, a in x.items()]
    made = make(model_of([node], kinds, [("z", F32, None)], domains=["ai.pto"]))
    assert made.get_outputs()[0].shape == [2, 2, 3, 8]
    np.testing.assert_array_equal(made.run(None, x)[0], ops.attention(**x))


@BOTH
def test_wrong_and_missing_attributes_are_errors_of_the_session(make):
    with pytest.raises(Exception, match="the attribute approximate has another type than STRING"):
        make(of_ai_pto("gelu", [("x", ["N", 4])], approximate=3))
    with pytest.raises(Exception, match="the attribute perm is missing"):
        make(of_ai_pto("transpose", [("x", ["N", 4])], ["A", "B"]))


@pytest.mark.parametrize("given, sentence", [
    ({"aproximate": "tanh"}, "did you mean approximate"),
    ({"approximate": "tanh", "x": [1.5]}, "the known names are approximate"),
])  # fmt: skip
def test_an_attribute_that_an_operator_lacks_is_an_error_of_the_session(given, sentence):
    with pytest.raises(Exception, match=f"has the attribute {list(given)[-1]}, .*\n.*{sentence}"):
        session(of_ai_pto("gelu", [("x", ["N", 4])], **given))


@BOTH
def test_shapes_are_checked_again_at_the_call(make):
    made = make(of_ai_pto("silu_mul", [("x", ["N"]), ("y", ["M"])], ["K"]))
    with pytest.raises(Exception, match="sizes 3 and 4 differ") as failure:
        made.run(None, {"x": np.ones(3, "f"), "y": np.ones(4, "f")})
    assert type(failure.value).__name__ == "InvalidArgument"


def test_operators_fuse_with_nodes_of_the_standard():
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"]),
        helper.make_node("gelu", ["a"], ["b"], domain="ai.pto"),
        helper.make_node("Mul", ["b", "x"], ["z"]),
    ]
    made = session(model_of(nodes, [("x", F32, ["N"])], [("z", F32, ["N"])], domains=["ai.pto"]))
    assert assigned(made) == [["Add", "gelu", "Mul"]]
    x = np.random.randn(9).astype("f")
    np.testing.assert_allclose(made.run(None, {"x": x})[0], ops.gelu(x + x) * x, rtol=1e-6)


def test_inputs_of_any_layout_and_many_threads():
    made = session(model_of(
        [helper.make_node("Mul", ["x", "x"], ["a"]), helper.make_node("ReduceSum", ["a"], ["z"])],
        [("x", F32, ["N", "M"])], [("z", F32, [1, 1])],
    ))  # fmt: skip
    x = np.random.randn(64, 48).astype("f")
    unaligned = np.frombuffer(b"." + x.tobytes(), "f4", offset=1).reshape(x.shape)
    for view in (x, x.T, x[::-1, ::2], np.broadcast_to(x[:1], (5, 48)), x[:0], unaligned):
        got = made.run(None, {"x": view})[0]
        np.testing.assert_allclose(got[0, 0], np.square(view).sum(), rtol=1e-5, atol=1e-6)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: made.run(None, {"x": x})[0][0, 0], range(40)))
    assert len(set(got)) == 1


def odd_sizes(n):
    """The first has no value for 0, the second none from 4 on."""
    return 7 % n, pto.size_min(n * 2**61, 2)


@op("onnx_sizes(Tensor row, SymInt n) -> Tensor")
class Sizes:
    def infer(row, n):
        return row.like(odd_sizes(n))

    def build(row, n):
        return pto.broadcast_to(pto.sum(row, -1, keepdim=True) * 1.0, odd_sizes(n))


@BOTH
@pytest.mark.parametrize(("n", "shape", "wrong"), [
    (3, [1, 2], ""), (0, None, "divides by zero"), (4, None, "64 bits"),
])  # fmt: skip
def test_sizes_without_a_value_are_unknown_and_errors_of_the_call(make, n, shape, wrong):
    made = make(of_ai_pto("onnx_sizes", [("row", [6])], n=n))
    assert made.get_outputs()[0].shape == (shape or [])
    if wrong:
        with pytest.raises(Exception, match=wrong):
            made.run(None, {"row": np.ones(6, "f4")})


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_module_of_pytorch_is_exported_with_our_operators(dynamic):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Layer(torch.nn.Module):
        def forward(self, x, weight):
            y = torch.ops.pto.bias_gelu(x, weight[0], approximate="tanh")
            y = torch.ops.pto.linear(y, weight, residual=x[:, :3])  # without a bias
            return torch.ops.pto.matmul(y, weight[:, :3], transpose_b=True)

    x, weight = torch.randn(5, 8), torch.randn(3, 8)
    shapes = {"x": {0: torch.export.Dim("rows")}, "weight": None} if dynamic else None
    program = torch.onnx.export(
        Layer(), (x, weight), dynamo=True, dynamic_shapes=shapes, verbose=False,
        custom_translation_table=pto.onnxruntime.translation_table(),
    )  # fmt: skip
    made = session(program.model_proto)
    assert sorted(sum(assigned(made), []))[-3:] == ["bias_gelu", "linear", "matmul"]
    x = torch.randn(9, 8) if dynamic else x
    feed = dict(zip((i.name for i in made.get_inputs()), (x.numpy(), weight.numpy()), strict=True))
    np.testing.assert_array_equal(made.run(None, feed)[0], Layer()(x, weight).numpy())


@pytest.mark.parametrize("dtype, kind", [("f4", F32), ("f2", TensorProto.FLOAT16)])
def test_constant_weights_are_packed_once_and_give_the_bits_of_matmul(dtype, kind):
    weights, other = np.random.randn(40, 500).astype(dtype), np.random.randn(500).astype(dtype)
    made = session(model_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("MatMul", ["y", "w"], ["b"]),
            helper.make_node("MatMul", ["a", "v"], ["c"]),
        ],
        [("x", kind, ["N", "M", 40]), ("y", kind, [40])],
        [("a", kind, ["N", "M", 500]), ("b", kind, [500]), ("c", kind, ["N", "M"])],
        [("w", weights), ("v", other)],
    ))  # fmt: skip
    assert assigned(made) == [["MatMul"]] * 3
    for shape in ((1, 3, 40), (4, 70, 40), (0, 3, 40), (1, 1, 40)):
        x, y = np.random.randn(*shape).astype(dtype), np.random.randn(40).astype(dtype)
        a, b, c = made.run(None, {"x": x, "y": y})
        np.testing.assert_array_equal(a, ops.matmul(x, weights))
        np.testing.assert_array_equal(b, ops.matmul(y, weights))
        np.testing.assert_array_equal(c, ops.matmul(a, other))


@op("onnx_weighted(Tensor[] xs, Tensor weight) -> Tensor")
class Weighted:
    """weight * xs[0], with a list ahead of a tensor, which ONNX cannot say."""

    def build(xs, weight):
        return xs[0] * weight


def test_an_operator_that_onnx_cannot_say_is_left_out_of_the_export():
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    table = pto.onnxruntime.translation_table()
    assert torch.ops.pto.gelu.default in table
    assert torch.ops.pto.onnx_weighted.default not in table


def test_a_reshape_follows_a_shape_of_the_call_and_refuses_one_that_does_not_fit():
    model = model_of(
        [helper.make_node("Reshape", ["x", "s"], ["z"])],
        [("x", F32, ["N", "M"]), ("s", TensorProto.INT64, [3])],
        [("z", F32, ["A", "B", "C"])],
    )
    made = session(model)
    assert assigned(made) == [["Reshape"]]
    x = np.random.randn(4, 6).astype("f")
    for shape in ([2, -1, 3], [0, 2, 3], [24, 1, 1], [-1, 6, 1]):
        want = x.reshape([4 if n == 0 else n for n in shape])
        np.testing.assert_array_equal(made.run(None, {"x": x, "s": np.array(shape)})[0], want)
    assert made.run(None, {"x": x[:0], "s": np.array([0, 2, 3])})[0].shape == (0, 2, 3)
    for shape in ([5, 5, 1], [-1, -1, 2], [7, -1, 1]):
        with pytest.raises(Exception, match="Reshape: the shape \\[4, 6\\] does not become"):
            made.run(None, {"x": x, "s": np.array(shape)})
