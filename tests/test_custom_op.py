# SPDX-License-Identifier: Apache-2.0
"""Declarative custom operators: sources of the public API on CPU, meta and fake tensors."""

import os
import shutil
import subprocess
import sys
import threading

import children
import extensions
import pytest
import torch

from pto.adapters.torch import activation

FOLDER = extensions.ROOT / "examples/frameworks/custom_op"


@pytest.fixture(scope="module")
def samples():
    torch.ops.load_library(extensions.from_setup(FOLDER, "hpu_custom_ops"))
    return torch.ops.custom_op


@pytest.fixture(scope="module")
def kinds(samples):
    source = extensions.ROOT / "tests/custom_op/custom_op_kinds.cpp"
    torch.ops.load_library(extensions.from_source(source, *_python_headers()))
    return torch.ops.custom_op_test


def _python_headers():
    import sysconfig

    return [f"-isystem{sysconfig.get_paths()['include']}"]


SHAPES = [(), (1,), (0,), (7,), (3, 0, 2), (5, 13), (2, 3, 4, 5), (70000,)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_relu_is_that_of_pytorch_with_its_gradient(samples, dtype):
    for shape in SHAPES:
        x = torch.randn(shape).to(dtype).requires_grad_()
        d_y = torch.randn(shape).to(dtype)
        (got,) = torch.autograd.grad(samples.custom_relu(x), x, d_y)
        (want,) = torch.autograd.grad(torch.relu(x), x, d_y)
        assert torch.equal(samples.custom_relu(x), torch.relu(x)) and torch.equal(got, want)


def test_nan_passes_relu(samples):
    x = torch.tensor([float("nan"), -1.0, float("inf"), -float("inf"), -0.0])
    assert torch.equal(samples.custom_relu(x).isnan(), x.isnan())
    assert torch.equal(samples.custom_relu(x)[1:], torch.relu(x)[1:])


def test_relu_passes_opcheck_and_gradcheck(samples):
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(samples.custom_relu, x)
    found = torch.library.opcheck(samples.custom_relu.default, (x,))
    assert set(found.values()) == {"SUCCESS"}, found


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("bottom", [False, True])
def test_topk_gives_values_and_int64_indices(samples, axis, bottom):
    for shape in [(6, 6), (1, 4), (300, 5), (3, 4, 5)]:
        a = torch.randperm(torch.Size(shape).numel()).float().view(shape)
        k = min(3, a.shape[axis])
        values, indices = samples.custom_topk(a, k, axis, bottom)
        want = a.topk(k, axis, largest=not bottom)
        assert indices.dtype == torch.int64
        assert torch.equal(values, want.values) and torch.equal(indices, want.indices)


def test_topk_takes_views_and_nan_is_the_largest(samples):
    a = torch.randn(9, 8).t()[1:, ::2]
    values, indices = samples.custom_topk(a, 2, 1, False)
    assert torch.equal(values, a.topk(2, 1).values) and torch.equal(a.gather(1, indices), values)
    a = torch.tensor([1.0, float("nan"), 3.0, 3.0])
    values, indices = samples.custom_topk(a, 3, 0, False)
    assert values.isnan().tolist() == [True, False, False] and indices.tolist() == [1, 2, 3]


def test_addition_broadcasts(samples):
    pairs = [((3, 1), (4,)), ((), (2, 3)), ((5, 1, 2), (3, 1)), ((0, 4), (1, 4)), ((1,), (1,))]
    for left, right in pairs:
        x, y = torch.randn(left), torch.randn(right)
        assert torch.equal(samples.custom_add(x, y), x + y)
    x = torch.randn(6, 8)
    assert torch.equal(samples.custom_add(x.t(), x.t()[:, :1]), x.t() + x.t()[:, :1])


def test_meta_kernels_come_from_the_shape_callbacks(samples):
    x, y = torch.empty(3, 1, device="meta"), torch.empty(4, device="meta")
    assert samples.custom_add(x, y).shape == (3, 4)
    values, indices = samples.custom_topk(torch.empty(6, 9, device="meta"), 2, 1, False)
    assert values.shape == indices.shape == (6, 2) and indices.dtype == torch.int64
    assert values.is_meta


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_operators_compile_whole_with_gradient_and_other_sizes(samples, backend):
    torch._dynamo.reset()

    def function(x):
        values, indices = samples.custom_topk(samples.custom_relu(x) * 2, 2, 1, False)
        return values, indices, samples.custom_relu(x)

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=backend)
    for rows in (4, 9):
        x = torch.randn(rows, 6)
        for a, b in zip(compiled(x), function(x), strict=True):
            assert torch.equal(a, b)
    x = torch.randn(5, 6, requires_grad=True)
    torch.compile(lambda x: samples.custom_relu(x) * 3, fullgraph=True, backend=backend)(
        x
    ).sum().backward()
    assert torch.equal(x.grad, 3 * (x > 0).float())


def test_export_keeps_the_operators(samples):
    class Model(torch.nn.Module):
        def forward(self, x):
            return samples.custom_topk(samples.custom_relu(x), 2, 1, False)

    x = torch.randn(4, 6)
    program = torch.export.export(Model(), (x,))
    assert "custom_op.custom_topk" in str(program.graph)
    for a, b in zip(program.module()(x), Model()(x), strict=True):
        assert torch.equal(a, b)


def test_many_threads_call_first_and_agree(samples):
    x = torch.randn(300, 40)
    results, barrier = [], threading.Barrier(4)

    def call():
        barrier.wait()
        results.append((samples.custom_add(x, x), samples.custom_topk(x, 3, 1, False)[1]))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for sums, indices in results:
        assert torch.equal(sums, x + x) and torch.equal(indices, x.topk(3, 1).indices)


def test_one_operator_runs_several_kernels(kinds):
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    assert torch.equal(kinds.add_relu(x, y), torch.relu(x + y))


def test_lists_and_absent_optionals_reach_the_kernel(kinds):
    xs, bias = [torch.randn(5) for _ in range(3)], torch.randn(5)
    torch.testing.assert_close(kinds.sum(xs), sum(xs))
    torch.testing.assert_close(kinds.sum(xs, bias), bias + sum(xs))
    assert torch.equal(kinds.sum(xs[:1]), xs[0])
    compiled = torch.compile(lambda a, b: kinds.sum([a, b]), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*xs[:2]), xs[0] + xs[1])


def test_the_number_of_outputs_may_depend_on_the_call(kinds):
    x = torch.arange(12.0)
    for n in (1, 3, 4):
        got = kinds.parts(x, n)
        assert len(got) == n and torch.equal(torch.cat(got), x)


def test_in_place_writes_into_the_tensor_and_nothing_else(kinds):
    base = torch.randn(6, 8)
    want = base.clone()
    want[:, ::2].relu_()
    kinds.relu_(base[:, ::2])
    assert torch.equal(base, want)
    x = torch.arange(5.0)
    kinds.reverse_(x)  # reads what it has overwritten, unless results stand aside
    assert x.tolist() == [4, 3, 2, 1, 0]
    with pytest.raises(RuntimeError, match="share memory\n  why: .*\n  fix: "):
        kinds.relu_(torch.zeros(1).expand(4))


def test_in_place_is_functionalised_by_the_compiler(kinds):
    def function(x):
        y = x * 2
        kinds.relu_(y)
        return y + 1

    x = torch.randn(7)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), torch.relu(x * 2) + 1)


def test_outputs_may_have_a_layout_of_their_own(kinds):
    x = torch.randn(3, 4)
    y = kinds.named("test::columns", x)
    assert y.stride() == (1, 3) and torch.equal(y, torch.relu(x))


def test_scalars_fill_the_slots_in_the_order_of_their_index(kinds):
    x = torch.randn(6)
    assert torch.equal(kinds.scaled(x, 0.5, 3, True), x * -0.125)
    assert torch.equal(kinds.scaled(x, 4.0, 1, False), x * 4)


def test_a_typed_tile_kernel_runs_beside_them(kinds):
    for n in (0, 1, 255, 256, 1000):
        x = torch.randn(n)
        assert torch.equal(kinds.on_tiles(x, 2.5), x * 2.5)


WRONG = {
    "test::unknown": "no kernel no_such_kernel, nor no_such_kernel_f32\n  why: .*topk_f32",
    "test::nothing": "test::nothing: no custom operator has this name\n  why: registered are: ",
    "test::twice": "registered twice, with the kernels relu_fwd and relu_bwd\n  why: ",
    "test::taken": "guid test_taken is registered twice\n  why: ",
    "test::throws": "test_throws: .*thrown by a kernel",
    "test::no_outputs": "has no callback for its outputs\n  why: ",
    "test::scale": "was registered with REGISTER_CUSTOM_OP_ATTRIBUTES\n  why: ",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_an_error_that_says_why(kinds, name):
    with pytest.raises(RuntimeError, match=WRONG[name]):
        kinds.named(name, torch.ones(3))


def test_a_wrong_description_or_call_is_an_error_that_says_why(samples, kinds):
    x = torch.randn(3, 4)
    with pytest.raises(
        RuntimeError, match="its inputs have the index 0 twice, or one that is too large\n  why: "
    ):
        kinds.repeated(x)
    with pytest.raises(RuntimeError, match="test::relu: was registered with registerUserCustomOp"):
        kinds.of_other_api(x)
    with pytest.raises(ValueError, match="k is 9, but the axis has 4 elements"):
        samples.custom_topk(x, 9, 1, False)
    with pytest.raises(IndexError, match="Dimension out of range"):
        samples.custom_topk(x, 1, 2, False)
    with pytest.raises(RuntimeError, match="another element type than the kernel's\n  why: "):
        samples.custom_add(x, x.double())
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        samples.custom_add(x, torch.ones(3))
    with pytest.raises(RuntimeError, match="test::relu: no kernel|there is no kernel relu_fwd"):
        kinds.named("test::relu", torch.ones(3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="the element type ComplexFloat\n  why: "):
        kinds.named("test::relu", torch.ones(3, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="one tensor is on cpu, another on meta\n  why: "):
        samples.custom_add(x, torch.ones(4, device="meta"))


def test_a_kernel_without_gradient_refuses_tensors_that_need_one(samples):
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad, but this kernel has no gradient"):
        samples.custom_add(x, x)
    with torch.no_grad():
        assert torch.equal(samples.custom_add(x, x), 2 * x)


@pytest.fixture
def npu():
    pytest.importorskip("pto.torch")
    if not activation.is_active():
        pytest.skip("the npu device is not built")
    return torch.device("npu:0")


def test_operators_run_on_npu_tensors_with_gradients(samples, kinds, npu):
    a = torch.rand(6, 6)
    values, indices = samples.custom_topk(a.to(npu), 3, 1, False)
    assert values.device == npu and indices.dtype == torch.int64
    assert torch.equal(values.cpu(), a.topk(3, 1).values)
    assert torch.equal(indices.cpu(), a.topk(3, 1).indices)
    x = torch.randn(5, 7, device=npu, requires_grad=True)
    samples.custom_relu(x).sum().backward()
    assert torch.equal(x.grad.cpu(), (x > 0).float().cpu())
    y = torch.randn(7)
    assert torch.equal(samples.custom_add(x.detach(), y.to(npu)).cpu(), x.detach().cpu() + y)
    z = torch.randn(4, 6, device=npu)
    want = torch.relu(z.cpu())
    kinds.relu_(z)
    assert torch.equal(z.cpu(), want) and torch.npu.fallbacks().get("custom_op::custom_add") is None


def test_operators_wait_their_turn_on_the_stream(kinds, npu):
    """Structure, not time: behind a kernel that waits, nothing of its stream has run."""
    large = torch.ones(1 << 20, device=npu)  # long: runs on the stream's own thread
    torch.npu.synchronize()
    kinds.open_gate(False)
    stream = torch.npu.Stream()
    try:
        with torch.npu.stream(stream):
            kinds.named("test::gate", large)
            queued = kinds.add_relu(large, large)
            tiles = kinds.on_tiles(large, 3.0)
            assert not stream.query()
        beside = kinds.add_relu(large, large)  # another stream does not wait
        assert beside[-1].item() == 2 and not stream.query()
    finally:
        kinds.open_gate(True)
    del large  # its memory stays until the kernels have run
    stream.synchronize()
    assert torch.equal(queued.cpu(), torch.full((1 << 20,), 2.0))
    assert torch.equal(tiles.cpu(), torch.full((1 << 20,), 3.0))


def test_what_a_queued_kernel_throws_surfaces_at_the_next_wait(kinds, npu):
    kinds.named("test::throws", torch.ones(1 << 20, device=npu))
    with pytest.raises(RuntimeError, match="test_throws: .*thrown by a kernel"):
        torch.npu.synchronize()
    with pytest.raises(RuntimeError, match="thrown by a kernel"):
        kinds.named("test::throws", torch.ones(3, device=npu))
        torch.npu.synchronize()
    assert kinds.on_tiles(torch.ones(5, device=npu), 2.0).tolist() == [2.0] * 5


def test_several_devices_and_mixtures_of_them(samples, npu):
    x = torch.randn(3, 4, device="npu:1")
    assert samples.custom_add(x, x).device.index == 1
    with pytest.raises(RuntimeError, match="one tensor is on npu:1, another on npu:0\n  why: "):
        samples.custom_add(x, x.to("npu:0"))
    with pytest.raises(RuntimeError, match="one tensor is on npu:1, another on cpu\n  why: "):
        samples.custom_add(x, x.cpu())


SETUP = """
from setuptools import setup
from torch.utils import cpp_extension
from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir

setup(name="hpu_relu", ext_modules=[cpp_extension.CppExtension(
    "hpu_relu", ["hpu_custom_relu.cpp"], libraries=["habana_pytorch_plugin"],
    library_dirs=[get_lib_dir()], extra_compile_args=["-O1", "-g0"])],
    include_dirs=[get_include_dir(), "nowhere"],
    cmdclass={"build_ext": cpp_extension.BuildExtension})
"""
LOADS = """
import torch, habana_frameworks.torch.core as htcore, pathlib
[library] = pathlib.Path().rglob("hpu_relu*.so")
torch.ops.load_library(library)
x = torch.randn(5, 7)
htcore.mark_step()
print(torch.equal(torch.ops.custom_op.custom_relu(x.npu()).cpu(), x.relu()))
"""


def test_a_public_setup_file_finds_headers_library_and_device(tmp_path, deep):
    if not activation.is_active():
        pytest.skip("the npu device is not built")
    if not deep:
        pytest.skip("compiles an extension: PTO_DEEP=1")
    (tmp_path / "setup.py").write_text(SETUP)
    shutil.copy(FOLDER / "hpu_custom_relu.cpp", tmp_path)
    paths = os.pathsep.join([str(extensions.ROOT / "compat"), str(extensions.ROOT)])
    for command in (["setup.py", "build_ext"], ["-c", LOADS]):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, text=True, env={
            **os.environ, "PYTHONPATH": paths}, capture_output=True)  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "True\n"


def test_the_public_names_of_python_lead_to_headers_library_and_device():
    if not activation.is_active():
        pytest.skip("the npu device is not built")
    program = """
import habana_frameworks.torch.core, torch, pathlib
from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir
headers, libraries = map(pathlib.Path, (get_include_dir(), get_lib_dir()))
assert (headers / "hpu_custom_op_pt2.h").is_file() and (headers / "pto/abi/guid.h").is_file()
assert {file.resolve().name for file in libraries.iterdir()} == {"libpto.so"}
print(sorted(file.name for file in libraries.iterdir()), torch.ones(1, device="npu").device)
"""
    paths = os.pathsep.join([str(extensions.ROOT / "compat"), str(extensions.ROOT)])
    done = children.run("-c", program, env={**os.environ, "PYTHONPATH": paths})
    assert done.stdout == (
        "['libhabana_pytorch2_plugin.so', 'libhabana_pytorch_plugin.so'] npu:0\n"
    ), done.stderr
