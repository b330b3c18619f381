# SPDX-License-Identifier: Apache-2.0
"""Results whose size only the kernel knows: what every framework gives, refuses and survives.

`nonzero` stands for what works; `claims`, whose kernel says what it is told to say, for what does
not. The matrix (test_conformance.py) compares the bits in every mode.
"""

import importlib.util
import threading

import numpy as np
import pytest

import pto
from pto import ops
from pto.language.infer import Spec
from pto.language.native_kernel import NativeKernel
from pto.language.op import op
from pto.language.samples import numpy_type

KERNEL = """
#include "pto/operators/kernel_arguments.hpp"
// x, its elements without 0, how many; the number that is said where it is not -1, `fails`.
extern "C" int32_t claims(const pto_args* args) {
  const pto::KernelArguments in(args);
  if (in.integer(1) != 0) return in.fail("claims: was told to fail");
  int64_t rows = 0;
  for (int64_t i = 0; i < in.tensor(0).sizes[0]; ++i) {
    const float x = in.data<const float>(0)[i];
    if (x != 0) in.data<float>(1)[rows++] = x;
  }
  *in.data<int64_t>(2) = in.integer(0) < 0 ? rows : in.integer(0);
  return 0;
}
"""
TABLE = {
    "nothing is found": np.zeros((3, 4), np.float32),
    "everything is found": np.ones((2, 3), np.float32),
    "half is found": np.array([[0, 2], [3, 0]], np.float32),
    "a scalar that counts": np.array(3, np.float32),
    "a scalar that does not": np.array(0, np.float32),
    "no elements": np.zeros((0, 3), np.float32),
    "no elements inside": np.zeros((2, 0, 3), np.float32),
    "NaN, infinity and -0": np.array([np.nan, -np.inf, -0.0, 0.0], np.float32),
    "gaps": np.arange(24, dtype=np.float32).reshape(4, 6)[::-2, ::3] % 5,
    "more than a page": (np.arange(70_000, dtype=np.float32) % 3).reshape(7, 100, 100),
}
every_case = pytest.mark.parametrize("x", TABLE.values(), ids=TABLE)


@pytest.fixture(scope="session")
def claims(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernel") / "claims.cpp"
    path.write_text(KERNEL)

    @op("bounded_claims(Tensor x, *, int rows=-1, bool fails=False) -> Tensor", "T -> T")
    class Claims:
        bounded = ("result",)
        kernel = NativeKernel(path, "claims", False)

        def infer(x, rows, fails):
            return x

    return Claims


def needs(name):
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"no {name}")


def numpy_of(x):
    return ops.nonzero(x)


def torch_of(x):
    import torch

    import pto.torch  # noqa: F401

    return torch.ops.pto.nonzero(torch.from_numpy(x) if min(x.strides, default=0) >= 0
                                 else torch.from_numpy(x.copy())).numpy()  # fmt: skip


def tensorflow_of(x):
    import pto.tensorflow
    from pto.adapters.tensorflow import build

    build.build()
    return pto.tensorflow.nonzero(x).numpy()


def onnxruntime_of(x):
    import onnx
    import onnxruntime

    import pto.onnxruntime as face

    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("nonzero", ["x"], ["y"], domain="ai.pto")],
        "g",
        [value("x", onnx.TensorProto.FLOAT, [f"n{i}" for i in range(x.ndim)])],
        [value("y", onnx.TensorProto.INT64, ["found", x.ndim])],
    )
    opsets = [onnx.helper.make_opsetid("ai.pto", 1), onnx.helper.make_opsetid("", 20)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    found = []
    for providers in (list(face.providers), ["CPUExecutionProvider"]):
        options = face.register(onnxruntime.SessionOptions())
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=providers
        )
        found += session.run(None, {"x": x})
    assert np.array_equal(*found)
    return found[0]


ROUTES = [
    numpy_of,
    pytest.param(torch_of, marks=needs("torch")),
    pytest.param(tensorflow_of, marks=needs("tensorflow")),
    pytest.param(onnxruntime_of, marks=needs("onnxruntime")),
]


@pytest.mark.parametrize("route", ROUTES)
@every_case
def test_a_result_has_the_rows_that_the_kernel_found(route, x):
    got = route(x)
    assert got.dtype == np.int64
    assert got.shape == (np.count_nonzero(x), x.ndim)
    assert np.array_equal(got, np.argwhere(x))


@pytest.mark.parametrize("dtype", ["bool", "i8", "u8", "i16", "i32", "i64", "f16", "f64", "bf16"])
def test_every_element_type_is_compared_with_its_own_zero(dtype):
    x = np.array([[0, 1, 0], [1, 0, 1]]).astype(numpy_type(dtype))
    assert ops.nonzero(x).tolist() == [[0, 1], [1, 0], [1, 2]]


def test_the_number_of_threads_changes_nothing():
    x = TABLE["more than a page"]
    before = pto.config.threads
    found = []
    try:
        for threads in (1, 2, 7):
            pto.config.threads = threads
            found.append(ops.nonzero(x))
    finally:
        pto.config.threads = before
    assert all(np.array_equal(one, np.argwhere(x)) for one in found)


def test_calls_of_several_threads_do_not_mix_their_sizes():
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(50):
            x = random.integers(0, 2, random.integers(0, 40, 2)).astype(np.float32)
            if not np.array_equal(ops.nonzero(x), np.argwhere(x)):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_few_rows_do_not_keep_the_memory_for_all():
    x = np.zeros(100_000, np.float32)
    x[7] = 1
    assert memoryview(ops.nonzero(x)).nbytes == 8
    torch = pytest.importorskip("torch")
    import pto.torch  # noqa: F401

    assert torch.ops.pto.nonzero(torch.from_numpy(x)).untyped_storage().nbytes() == 8


def test_out_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="nonzero: called with out=, but the size of its result"):
        ops.nonzero(np.ones(3), out=np.zeros((3, 1), np.int64))


def test_a_kernel_that_claims_too_much_is_an_error(claims):
    x = np.array([1, 0, 2], np.float32)
    assert claims(x).tolist() == [1, 2]
    assert claims(x, rows=3).shape == (3,)
    for rows in (4, 1 << 40):
        with pytest.raises(RuntimeError, match=f"its kernel says {rows}, but infer allows 0 to 3"):
            claims(x, rows=rows)
    with pytest.raises(RuntimeError, match="claims: was told to fail"):
        claims(x, fails=True)
    assert claims(x).tolist() == [1, 2]  # and the next call is as good as the first


@needs("torch")
def test_pytorch_says_so_too(claims):
    import torch

    import pto.torch  # noqa: F401

    x = torch.tensor([1.0, 0, 2])
    assert torch.ops.pto.bounded_claims(x).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="its kernel says 4, but infer allows 0 to 3"):
        torch.ops.pto.bounded_claims(x, rows=4)
    with pytest.raises(RuntimeError, match="claims: was told to fail"):
        torch.ops.pto.bounded_claims(x, fails=True)
    assert torch.ops.pto.bounded_claims(x).tolist() == [1, 2]


@needs("tensorflow")
def test_tensorflow_says_so_too(claims):
    import tensorflow as tf

    import pto.tensorflow
    from pto.adapters.tensorflow import build

    build.build()
    x = tf.constant([1.0, 0, 2])
    assert pto.tensorflow.bounded_claims(x).numpy().tolist() == [1, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="its kernel says 4, but infer allows"):
        pto.tensorflow.bounded_claims(x, rows=4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="claims: was told to fail"):
        pto.tensorflow.bounded_claims(x, fails=True)


def test_what_cannot_be_bounded_is_refused_where_it_is_defined():
    with pytest.raises(ValueError, match="bounded_wrong: places cannot be bounded"):

        @op("bounded_wrong(Tensor x) -> Tensor")
        class Wrong:
            bounded = ("places",)
            kernel = NativeKernel("none.cpp", "none", False)

            def infer(x):
                return x

    with pytest.raises(ValueError, match="bounded_traced: result cannot be bounded"):

        @op("bounded_traced(Tensor x) -> Tensor")
        class Traced:
            bounded = ("result",)

            def build(x):
                return x + x


def test_a_bounded_result_without_axes_is_refused():
    @op("bounded_flat(Tensor x) -> Tensor")
    class Flat:
        bounded = ("result",)
        kernel = NativeKernel("none.cpp", "none", False)

        def infer(x):
            return Spec((), x.dtype)

    with pytest.raises(ValueError, match="bounded_flat: infer gives output result no axis"):
        Flat(np.ones(3, np.float32))


@needs("torch")
def test_pytorch_compiles_and_exports_it():
    import torch

    import pto.torch  # noqa: F401

    def places(x):
        return torch.ops.pto.nonzero(x) * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(places, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            for x in (torch.tensor([0.0, 1, 2]), torch.zeros(3), torch.zeros(0), torch.ones(4)):
                assert torch.equal(compiled(x), torch.nonzero(x) * 2)

    class Module(torch.nn.Module):
        def forward(self, x):
            return places(x)

    exported = torch.export.export(Module(), (torch.tensor([[0.0, 1], [2, 0]]),)).module()
    for x in (torch.zeros(2, 2), torch.ones(2, 2)):
        assert torch.equal(exported(x), torch.nonzero(x) * 2)


@needs("torch")
def test_pytorch_gives_integers_without_gradient_and_refuses_vmap():
    import torch

    import pto.torch

    x = torch.ones(3, requires_grad=True)
    assert not torch.ops.pto.nonzero(x).requires_grad
    with pytest.raises(RuntimeError, match="bounded_claims: (a )?tensor (x )?requires grad"):
        torch.ops.pto.bounded_claims(x)
    with pytest.raises(ValueError, match="vmap: the size of the result of nonzero is known only"):
        torch.vmap(torch.ops.pto.nonzero)(torch.ones(2, 3))
    assert not hasattr(torch.ops.pto.nonzero, "out")
    with pytest.raises(RuntimeError, match="expected at most 1 argument"):
        pto.torch.nonzero(x, out=torch.zeros(3, 1, dtype=torch.int64))


@needs("torch")
def test_the_npu_device_waits_for_the_size():
    import torch

    import pto.torch  # noqa: F401
    from pto.adapters.torch import activation

    if not activation.is_active():
        pytest.skip("the npu device is not built")
    long = np.arange(3_000_000, dtype=np.float32).reshape(1000, 3000) % 7
    for x in (*TABLE.values(), long):
        y = torch.from_numpy(np.array(x, order="C")).to("npu")
        work = torch.ones(4_000_000, device="npu")
        for _ in range(3):  # into the queue, so that the operator finds it at work
            work = work * 2
        found = torch.ops.pto.nonzero(y * 2)
        assert found.device.type == "npu"
        assert np.array_equal(found.cpu().numpy(), np.argwhere(x))


@needs("tensorflow")
def test_a_graph_of_tensorflow_does_not_know_the_size():
    import tensorflow as tf

    import pto.tensorflow
    from pto.adapters.tensorflow import build

    build.build()

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def doubled(x):
        found = pto.tensorflow.nonzero(x)
        assert found.shape.as_list() == [None, 2]
        return found * 2

    for x in ([[0.0, 1], [2, 0]], np.zeros((3, 2), np.float32), np.zeros((0, 2), np.float32)):
        assert np.array_equal(doubled(x).numpy(), np.argwhere(x) * 2)
    with pytest.raises(Exception, match="(?i)nonzero"):
        tf.function(pto.tensorflow.nonzero, jit_compile=True)(tf.ones(3))


@needs("jax")
def test_jax_refuses_it_and_says_what_to_call():
    import jax

    import pto.jax

    for call in (pto.jax.nonzero, jax.jit(pto.jax.nonzero), jax.vmap(pto.jax.nonzero)):
        with pytest.raises(TypeError, match=r"nonzero: the size of its result(.|\n)*jax.numpy"):
            call(jax.numpy.ones((2, 3)))
    with pytest.raises(TypeError, match="nonzero: the size of its result"):
        ops.nonzero(jax.numpy.ones(3))


@needs("mindspore")
def test_mindspore_refuses_it_in_both_modes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MindSpore writes files of failed graphs into the current folder
    import mindspore

    import pto.mindspore

    def places(x):
        return pto.mindspore.nonzero(x)

    x = mindspore.Tensor(np.ones(3, np.float32))
    for call in (places, mindspore.jit(places)):
        with pytest.raises(Exception, match="nonzero: the size of its result is known only after"):
            call(x)


def test_a_difference_of_sizes_is_refused_where_it_is_negative():
    @pto.jit
    def f(x):
        return (
            x
            + pto.sum(pto.full([x.shape[0] - 3], 1.0))
            + pto.sum(pto.ones([pto.max(x.shape[0] - 4, 0)]))
        )

    for n in (3, 4, 6):
        assert (f(np.zeros(n, "f4")) == n - 3 + max(n - 4, 0)).all()
    with pytest.raises(
        pto.Error, match="sizes -1 and 0 differ in full, whose sizes are at least 0"
    ):
        f(np.zeros(2, "f4"))
