# SPDX-License-Identifier: Apache-2.0
"""The guide's PyTorch extension, examples/frameworks/torch: its checklists, on cpu and npu."""

import io
import os
import subprocess
import sys
import threading

import children
import extensions
import pytest
import torch

from pto.adapters.torch import activation

FOLDER = extensions.ROOT / "examples/frameworks/torch"
DTYPES = [torch.float32, torch.float16, torch.int32]
SHAPES = [(), (1,), (0,), (3, 0, 2), (5,), (7, 13), (2, 3, 4), (4099,), (3, 1025)]


@pytest.fixture(scope="module")
def my_ops():
    os.environ["MY_OPS_LIBRARY"] = str(extensions.from_setup(FOLDER, "my_ops_library"))
    return extensions.module("my_ops", FOLDER / "my_ops.py")


@pytest.fixture(params=["cpu", "npu"])
def device(request):
    if request.param == "npu":
        if activation.obstacle() is None and not activation.is_active():
            pytest.importorskip("pto.torch")
        if not activation.is_active():
            pytest.skip("the npu device is not built")
    return request.param


def made(shape, dtype=torch.float32, device="cpu"):
    return torch.randint(-9, 10, shape).to(dtype).to(device)


def same(got, want):
    return got.dtype == want.dtype and got.shape == want.shape and torch.equal(got.cpu(), want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_operator_is_its_definition_for_every_shape(my_ops, device, dtype):
    for shape in SHAPES:
        x, y = made(shape, dtype), made(shape, dtype)
        on = x.to(device), y.to(device)
        assert same(my_ops.my_add(*on), x + y)
        assert same(my_ops.my_add_relu(*on), torch.relu(x + y))
        assert same(my_ops.my_scale(on[0], 3.0), x * 3)
        assert same(my_ops.my_relu(on[0]), torch.relu(x))
        assert same(my_ops.my_relu_(on[0].clone()), torch.relu(x))
        weight = made(shape[-1:] or (1,), dtype)
        assert same(my_ops.my_affine(on[0], weight.to(device)), x * weight.reshape(shape[-1:]))
        assert same(my_ops.my_affine(on[0], bias=weight.to(device)), x + weight.reshape(shape[-1:]))
        assert same(my_ops.my_affine(on[0]), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_is_split_into_several_outputs(my_ops, device, dtype):
    x = made((6, 4, 10), dtype)
    for parts, dim in [(2, 0), (3, 0), (4, 1), (5, -1), (1, 2)]:
        got = my_ops.my_split(x.to(device), parts, dim)
        want = x.chunk(parts, dim)
        assert len(got) == parts
        assert all(same(a, b) for a, b in zip(got, want, strict=True))


PAIRS = [((3, 1), (4,)), ((), (2, 3)), ((2, 3, 4), (4,)), ((2, 3, 4), (3, 1)), ((2, 1, 4), (3, 1)),
         ((0, 4), (1, 4)), ((5, 1), (1, 6)), ((2, 3, 4), (2, 3, 1)), ((1, 1), (1,)),
         ((70, 1500), (1500,)), ((70, 1500), (70, 1))]  # fmt: skip


@pytest.mark.parametrize("left, right", PAIRS)
def test_shapes_broadcast(my_ops, device, left, right):
    x, y = made(left), made(right)
    for a, b in [(x, y), (y, x)]:
        assert same(my_ops.my_add(a.to(device), b.to(device)), a + b)
        assert same(my_ops.my_add_relu(a.to(device), b.to(device)), torch.relu(a + b))


def test_views_with_gaps_and_offsets_are_read_where_they_lie(my_ops, device):
    base = made((8, 10))
    on = base.to(device)
    for cut in [lambda t: t.t(), lambda t: t[1:, ::2], lambda t: t[3], lambda t: t[:, 4:5],
                lambda t: t[0].expand(3, 10)]:  # fmt: skip
        assert same(my_ops.my_add(cut(on), cut(on)), cut(base) + cut(base))
        assert same(my_ops.my_scale(cut(on), 2.0), cut(base) * 2)


def test_in_place_writes_where_the_tensor_lies_and_nowhere_else(my_ops, device):
    base = made((6, 8))
    want = base.clone()
    want[1:4, ::2].relu_()
    on = base.to(device)
    part = on[1:4, ::2]
    assert my_ops.my_relu_(part) is part and same(on, want)
    address = on.data_ptr()
    my_ops.my_relu_(on)
    assert on.data_ptr() == address
    with pytest.raises(RuntimeError, match="single memory location|share memory"):
        my_ops.my_relu_(on[:1].expand(3, 8))


@pytest.mark.parametrize("stride, padding", [(1, 0), (2, 1), (3, 2)])
def test_convolution_is_that_of_pytorch_with_its_gradients(my_ops, device, stride, padding):
    x, weight, bias = torch.randn(2, 3, 7, 6), torch.randn(4, 3, 3, 2), torch.randn(4)
    arguments = [t.clone().to(device).requires_grad_() for t in (x, weight, bias)]
    plain = [t.clone().requires_grad_() for t in (x, weight, bias)]
    got = my_ops.my_conv(*arguments, stride=stride, padding=padding)
    want = torch.nn.functional.conv2d(*plain, stride=stride, padding=padding)
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)
    d = torch.randn_like(want)
    got.backward(d.to(device))
    want.backward(d)
    for a, b in zip(arguments, plain, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)
    (only,) = torch.autograd.grad(my_ops.my_conv(arguments[0], arguments[1]).sum(), arguments[0])
    assert only.shape == x.shape


def test_gradients_are_those_of_finite_differences(my_ops):
    def tensor(*shape):
        return torch.randn(shape, dtype=torch.float64, requires_grad=True)

    check = torch.autograd.gradcheck
    assert check(my_ops.my_add, (tensor(3, 4), tensor(4)))
    assert check(my_ops.my_add_relu, (tensor(3, 1), tensor(3, 4)))
    assert check(lambda x: my_ops.my_scale(x, 0.3), tensor(5))
    assert check(my_ops.my_relu, tensor(6))
    assert check(lambda x: my_ops.my_split(x, 2, 1)[1], tensor(3, 4))
    assert check(lambda x, y: my_ops.my_lerp(x, y, 0.25), (tensor(3, 4), tensor(4)))
    assert check(lambda *t: my_ops.my_conv(*t, stride=2, padding=1),
                 (tensor(1, 2, 5, 4), tensor(3, 2, 3, 2), tensor(3)))  # fmt: skip


def test_a_leaf_on_the_device_gets_its_gradient(my_ops, device):
    x = torch.randn(3, 4, device=device, requires_grad=True)  # not .to(device) of a leaf
    my_ops.my_scale(my_ops.my_add(x, x), 2.0).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((3, 4), 4.0))


def test_opcheck_finds_nothing(my_ops):
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    conv = torch.randn(1, 2, 5, 5, requires_grad=True), torch.randn(3, 2, 3, 3, requires_grad=True)
    calls = [("my_add", (x, y)), ("my_add_relu", (x, y)), ("my_scale", (x, 0.5)), ("my_relu", (x,)),
             ("my_relu_", (torch.randn(3),)), ("my_affine", (torch.randn(3, 4), None)),
             ("my_split", (x, 2, 1)), ("my_conv", conv)]  # fmt: skip
    for name, arguments in calls:
        found = torch.library.opcheck(getattr(my_ops.ops, name).default, arguments)
        assert set(found.values()) == {"SUCCESS"}, (name, found)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 3, 3, 3))
        self.bias = torch.nn.Parameter(torch.randn(4))

    def forward(self, x):
        y = torch.ops.my_ops.my_conv(x, self.weight, self.bias, 1, 1)
        left, right = torch.ops.my_ops.my_split(y, 2, 1)
        return torch.ops.my_ops.my_add_relu(torch.ops.my_ops.my_scale(left, 0.5), right)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_model_compiles_whole_with_gradients_and_dynamic_shapes(my_ops, device, backend):
    if device == "npu" and backend == "inductor":
        pytest.skip("test_torch_npu.py compiles for npu tensors")
    torch._dynamo.reset()
    model = Model().to(device)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for size in (5, 8):
        x = torch.randn(2, 3, size, size, device=device)
        want = torch.autograd.grad(model(x).square().sum(), model.weight)
        got = torch.autograd.grad(compiled(x).square().sum(), model.weight)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_a_change_in_place_is_compiled(my_ops):
    def function(x):
        y = x + 1
        my_ops.my_relu_(y)
        return y * 2

    x = made((3, 4))
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), torch.relu(x + 1) * 2)


@pytest.mark.parametrize("how", ["script", "trace"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_runs_and_saves_a_model(my_ops, how):
    model, x = Model().eval(), torch.randn(1, 3, 6, 6)
    jitted = torch.jit.script(model) if how == "script" else torch.jit.trace(model, x)
    file = io.BytesIO()
    torch.jit.save(jitted, file)
    file.seek(0)
    for one in (jitted, torch.jit.load(file)):
        for size in (6, 9):
            y = torch.randn(2, 3, size, size)
            torch.testing.assert_close(one(y), model(y))


def test_export_keeps_a_dynamic_size(my_ops):
    program = torch.export.export(
        Model(), (torch.randn(2, 3, 6, 6),),
        dynamic_shapes={"x": {0: torch.export.Dim("n"), 2: torch.export.Dim("h", min=3)}},
    )  # fmt: skip
    assert "my_ops.my_conv" in str(program.graph)
    assert program.module()(torch.randn(5, 3, 9, 6)).shape == (5, 2, 9, 6)


def test_a_model_is_exported_to_onnx_and_runs_there(my_ops):
    onnxscript = pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    op = onnxscript.opset18

    def conv(x, weight, bias=None, stride=1, padding=0):
        return op.Conv(x, weight, bias, strides=[stride] * 2, pads=[padding] * 4)

    def split(x, parts, dim=0):
        return op.Split(x, axis=dim, num_outputs=parts)

    def add_relu(x, y):
        return op.Relu(op.Add(x, y))

    def scale(x, factor):
        return op.Mul(x, op.CastLike(op.Constant(value_float=factor), x))

    ops = torch.ops.my_ops
    table = {ops.my_conv.default: conv, ops.my_split.default: split,
             ops.my_add_relu.default: add_relu, ops.my_scale.default: scale}  # fmt: skip
    model, x = Model().eval(), torch.randn(2, 3, 6, 6)
    program = torch.onnx.export(model, (x,), dynamo=True, custom_translation_table=table,
                                verbose=False)  # fmt: skip
    session = runtime.InferenceSession(program.model_proto.SerializeToString(),
                                       providers=["CPUExecutionProvider"])  # fmt: skip
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.as_tensor(got), model(x).detach(), rtol=1e-4, atol=1e-4)


def test_many_threads_call_at_once(my_ops, device):
    x = made((300, 70)).to(device)
    want = (x + x).cpu()
    results, barrier = [], threading.Barrier(6)

    def call():
        barrier.wait()
        results.extend(same(my_ops.my_add(x, x), want) for _ in range(20))

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 120


def test_only_the_result_is_allocated(my_ops):
    x, row = torch.randn(400, 500), torch.randn(500)
    calls = [(lambda: my_ops.my_add_relu(x, row), 1), (lambda: my_ops.my_add(x, x), 1),
             (lambda: my_ops.my_scale(x, 2.0), 1), (lambda: my_ops.my_relu_(x), 0)]  # fmt: skip
    for call, results in calls:
        call()
        with torch.profiler.profile(profile_memory=True) as profile:
            call()
        most = sum(max(0, event.self_cpu_memory_usage) for event in profile.events())
        assert most <= results * x.nbytes + 4096


def test_wrong_arguments_are_errors_that_say_why(my_ops, device):
    x = torch.randn(3, 4, device=device)
    with pytest.raises(TypeError, match="one tensor is Float, another Double\n  why: "):
        my_ops.my_add(x, x.double())
    with pytest.raises(TypeError, match="my_relu.*has the type ComplexFloat"):
        my_ops.my_relu(x.to(torch.complex64))
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        my_ops.my_add(x, torch.ones(3, device=device))
    with pytest.raises(ValueError, match="3 elements do not make 2 equal parts\n  why: "):
        my_ops.my_split(x, 2)
    with pytest.raises(IndexError, match="Dimension out of range"):
        my_ops.my_split(x, 1, 2)
    with pytest.raises(ValueError, match="the last axis of x has 4 elements\n  why: "):
        my_ops.my_affine(x, torch.ones(3, device=device))
    with pytest.raises(ValueError, match="it does not fit once\n  fix: add padding"):
        my_ops.my_conv(torch.ones(1, 1, 2, 2, device=device), torch.ones(1, 1, 3, 3, device=device))
    with pytest.raises(RuntimeError, match="does not fit int32|fit i32"):
        my_ops.my_scale(x.int(), 0.5)


def test_mixed_devices_are_refused(my_ops, device):
    if device == "npu":
        x = torch.ones(3)
        with pytest.raises(RuntimeError, match="on npu:0.*on cpu|on cpu.*on npu:0"):
            my_ops.my_add(x, x.to(device))


def test_an_operator_of_the_cpu_alone_falls_back(my_ops, device):
    x = made((5, 7)).to(device)
    got = my_ops.my_range(x)
    assert got.device == x.device and got.tolist() == [x.min().item(), x.max().item()]
    if device == "npu":
        assert torch.npu.fallbacks()["my_ops::my_range"] >= 1


def test_asynchronous_launches_keep_the_order_of_the_current_stream(my_ops, device):
    x = made((1 << 20,)).to(device)  # long: runs on the stream's own thread
    y = x
    for _ in range(3):
        y = my_ops.my_scale_async(y, 2.0)
    assert same(y.cpu(), x.cpu() * 8)
    if device == "npu":
        stream = torch.npu.Stream()
        stream.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(stream):
            y = my_ops.my_scale_async(my_ops.my_scale_async(x, 2.0), 3.0)
        del x  # its memory stays until the kernels have run
        stream.synchronize()
        assert torch.equal(y.cpu() % 6, torch.zeros(1 << 20))


def child(*command, paths=""):
    paths = os.pathsep.join([paths, str(extensions.ROOT)])
    return children.run(*command, env={**os.environ, "PYTHONPATH": paths}, cwd=FOLDER)


def test_the_unit_tests_of_the_extension_pass(my_ops):
    done = child("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_ops.py")
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_benchmark_checks_results_and_prints_ratios(my_ops):
    done = subprocess.run(
        [sys.executable, "benchmark.py", f"{1 << 14}"], capture_output=True, text=True, cwd=FOLDER,
        # Threads that wait for each other's core take 20 ms a call.
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(extensions.ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(" x\n") == 7


COMPAT = extensions.ROOT / "compat"


def test_import_torch_npu_is_the_device_of_this_project(my_ops, device):
    if device == "npu":
        program = (
            "import torch_npu, torch; print(torch_npu.npu.device_count(), torch.ones(2).npu())"
        )
        done = child("-c", program, paths=str(COMPAT))
        assert done.stdout == "2 tensor([1., 1.], device='npu:0')\n", done.stderr


def test_import_torch_npu_is_refused_where_the_real_one_is_installed(tmp_path):
    package = tmp_path / "torch_npu"
    package.mkdir()
    (package / "__init__.py").write_text("")
    done = child("-c", "import torch_npu", paths=os.pathsep.join([str(COMPAT), str(tmp_path)]))
    assert "Failure: torch_npu is installed, at" in done.stderr and "  why: " in done.stderr
    done = child("-c", "import pto.torch.npu", paths=str(tmp_path))
    assert "torch_npu is installed" in done.stderr


def test_the_header_is_refused_where_the_real_one_is_installed(tmp_path):
    real = tmp_path / "torch_npu/csrc/core/npu"
    real.mkdir(parents=True)
    (real / "NPUStream.h").write_text("")
    source = tmp_path / "extension.cpp"
    source.write_text("#include <torch_npu/csrc/framework/utils/OpAdapter.h>\n")
    command = ["g++", "-std=c++20", "-fsyntax-only", "-fmax-errors=1", f"-I{COMPAT}", source]
    found = subprocess.run([*command, f"-I{tmp_path}"], capture_output=True, text=True)
    assert found.returncode != 0 and "torch_npu is installed: its headers" in found.stderr
    alone = subprocess.run(command, capture_output=True, text=True)
    assert "torch_npu is installed" not in alone.stderr
