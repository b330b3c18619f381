# SPDX-License-Identifier: Apache-2.0
"""@pto.jit inside PyTorch: what operators under @op pass there, jitted functions pass too."""

import copy
import io
import runpy
import sys

import children
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import pto
from pto import _core
from pto.adapters.torch import activation, has_cpp_gradients


@pto.jit
def scaled(x, factor=2.0):
    return pto.tanh(x) * factor


@pto.jit
def normed(x, weight, *, eps=1e-5):
    rows = x - pto.mean(x, -1, keepdim=True)
    return rows * pto.rsqrt(pto.mean(rows * rows, -1, keepdim=True) + eps) * weight


@pto.jit
def several(x, y, mode="sum"):
    total = x.sum(-1) if mode == "sum" else x.amax(-1)
    return {"sum": x + y, "parts": [x * y, (total, x > y)]}


FUNCTIONS = {
    "scaled": (lambda x, y: scaled(x, 3.0), lambda x, y: torch.tanh(x) * 3),
    "normed": (
        lambda x, y: normed(x, y, eps=0.1),
        lambda x, y: (x - x.mean(-1, keepdim=True))
        / (x.var(-1, correction=0, keepdim=True) + 0.1).sqrt() * y,
    ),
    "several": (
        lambda x, y: several(x, y)["parts"][1][0] * several(x, y, mode="max")["sum"][:, 0],
        lambda x, y: x.sum(-1) * (x + y)[:, 0],
    ),
}  # fmt: skip
every_function = pytest.mark.parametrize("name", FUNCTIONS)
CALLS = {"scaled": (scaled, (3.0,)), "normed": (normed, ()), "several": (several, ())}


def tensors(dtype=torch.float64, device="cpu", grad=False):
    torch.manual_seed(0)
    x, y = torch.randn(4, 5, dtype=dtype), torch.randn(5, dtype=dtype)
    return x.to(device).requires_grad_(grad), y.to(device).requires_grad_(grad)


def close(got, want, tolerance=1e-5):
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@every_function
def test_pytorchs_own_checks_hold(name, deep):
    if name == "scaled" and not deep:
        pytest.skip("its schema is like that of normed; in the deep run")
    x, y = tensors(grad=True)
    function, numbers = CALLS[name]
    given = (x,) if name == "scaled" else (x, y)
    operator = function.operator(*given, *numbers)
    assert operator._qualified_op_name.startswith(f"pto_jit::{name}_")
    attributes = {a.name: 0.5 for a in operator.default._schema.arguments if a.kwarg_only}
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    torch.library.opcheck(operator.default, given, attributes, test_utils=checks)


@every_function
def test_first_and_second_derivatives_agree_with_finite_differences(name):
    ours = FUNCTIONS[name][0]
    x, y = (torch.randn(n, dtype=torch.float64, requires_grad=True) for n in ((2, 3), (3,)))
    assert torch.autograd.gradcheck(ours, (x, y))
    assert torch.autograd.gradgradcheck(ours, (x, y))


@every_function
def test_gradients_are_pytorchs(name):
    ours, theirs = FUNCTIONS[name]
    x, y = tensors(torch.float32, grad=True)
    wanted = torch.autograd.grad(theirs(x, y).sum(), (x, y), allow_unused=True)
    found = torch.autograd.grad(ours(x, y).sum(), (x, y), allow_unused=True)
    for got, want in zip(found, wanted, strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            close(got, want)


@every_function
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_without_a_break_and_with_gradients(name, backend, deep):
    ours, theirs = FUNCTIONS[name]
    if backend == "inductor" and name != "normed" and not deep:
        pytest.skip("Inductor compiles C++ of its own; in the deep run")
    torch._dynamo.reset()
    compiled = torch.compile(ours, backend=backend, fullgraph=True)
    x, y = tensors(torch.float32, grad=True)
    close(compiled(x, y), theirs(x, y))
    (got,) = torch.autograd.grad(compiled(x, y).sum(), x)
    (want,) = torch.autograd.grad(theirs(x, y).sum(), x)
    close(got, want)


PROGRAM = """
import sys
import pto

def helper(x):
    return x * 3

@pto.jit
def first(x, k=1.5):
    return {"y": helper(x) + k}

import torch
if "compile" in sys.argv:
    f = torch.compile(lambda x: first(x)["y"] * 2, backend="eager", fullgraph=True)
    assert f(torch.ones(2)).tolist() == [9.0, 9.0]
name = str(first.operator(torch.ones(2)))
print(name)
"""


def test_an_error_in_a_graph_that_may_not_break_is_told_beside_pytorchs():
    squared = pto.jit(lambda x: x @ x)
    with (
        pytest.warns(RuntimeWarning, match="test_jit_torch.py:.*matmul: an operand has the shape"),
        pytest.raises(torch._dynamo.exc.Unsupported),
    ):
        torch.compile(lambda x: squared(x), backend="eager", fullgraph=True)(torch.ones(2))
    with pytest.raises(ValueError, match="matmul: an operand has the shape"):
        torch.compile(lambda x: squared(x), backend="eager")(torch.ones(2))


def test_a_new_process_compiles_at_first_sight_and_has_the_same_names(tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    done = children.run(tmp_path / "mine.py", "compile")
    here = runpy.run_path(str(tmp_path / "mine.py"), run_name="__main__")["name"]
    assert here.startswith("pto_jit.first_") and done.stdout == f"{here}\n", done.stderr


@pytest.mark.parametrize("strict", [False, True])
def test_exported_saved_and_loaded(strict):
    class Net(torch.nn.Module):
        def forward(self, x, y):
            rows = normed(x, y).sum(-1)
            return rows if strict else several(x, y)["parts"][1][0] + rows

    x, y = tensors(torch.float32)
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(Net(), (x, y), dynamic_shapes=({0: rows}, None), strict=strict)
    names = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert {f"{f.operator(x, y)._qualified_op_name.replace('::', '.')}.default"
            for f in ((normed,) if strict else (several, normed))} <= names  # fmt: skip
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    x = torch.randn(7, 5)
    close(loaded(x, y), Net()(x, y))


@every_function
def test_vmap_and_func_grad(name):
    ours, theirs = FUNCTIONS[name]
    x, y = torch.randn(3, 4, 5), torch.randn(5)
    close(torch.vmap(ours, (0, None))(x, y), torch.vmap(theirs, (0, None))(x, y))
    if not has_cpp_gradients():
        pytest.skip("PyTorch takes no gradients in Python here")
    inner = [lambda x, f=f: f(x, y).sum() for f in (ours, theirs)]
    close(*(torch.vmap(torch.func.grad(f))(x) for f in inner))


def test_derivatives_in_forward_mode_are_refused_not_lost():
    x = torch.zeros(2)
    for function in (scaled, lambda x: torch.ops.pto.gelu(x)):
        with pytest.raises(RuntimeError, match=r"forward-mode derivative.*\n  why: .*\n  fix: "):
            torch.func.jvp(function, (x,), (torch.ones(2),))


@pytest.mark.skipif(not has_cpp_gradients(), reason="PyTorch takes no gradients in Python here")
def test_gradients_of_gradients_go_backward_twice():
    x = torch.zeros(2)
    twice = torch.func.jacrev(torch.func.jacrev(lambda x: (scaled(x) ** 2).sum()))
    close(twice(x), 8 * torch.eye(2))


@pytest.mark.parametrize("mode", [None, "low", "f32"])
def test_autocast_casts_as_the_function_says(mode):
    @pto.jit(autocast=mode or "")
    def added(x, y):
        return x + y

    x, y = torch.randn(3, dtype=torch.bfloat16), torch.randn(3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = added(x, y)
    assert got.dtype == (torch.bfloat16 if mode == "low" else torch.float32)
    close(got.float(), x + y, 2e-2)
    with pytest.raises((RuntimeError, TypeError), match="different element types"):
        added(x, y)


@pto.jit
def scaled_rows(x, out, factor=2.0):
    for i in pto.loop(x.shape[0]):
        out[i] = x[i] * factor
    return {"sum": pto.sum(x), "rows": [out * 1]}


@pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")
def test_programs_read_and_write_npu_tensors_behind_what_their_stream_does():
    with torch.npu.stream(torch.npu.Stream()):
        x = torch.ones(256, 256, device="npu")
        for _ in range(4):
            x = x @ x / 128  # still under way when the program is called
        out = torch.zeros(256, 256, device="npu")
        before = out._version
        got = scaled_rows(x, out=out, factor=3.0)
        assert torch.equal(out, x * 3) and torch.equal(got["rows"][0], out)
        assert out._version == before + 1 and got["sum"].device.type == "npu"
        across = torch.zeros(256, 256, device="npu").t()
        scaled_rows(x, across)
        scaled_rows(across, across)  # reads what was there before the call
        assert torch.equal(across, x * 4)
    with pytest.raises(pto.Error, match="update: axis 0, offset 2 and size 1 of 2"):
        scaled_rows(torch.ones(3, 2, device="npu"), torch.ones(2, 2, device="npu"))
    with pytest.raises(RuntimeError, match="npu:0 and cpu.*\n  why: .*\n  fix: "):
        scaled_rows(torch.ones(3, 2, device="npu"), torch.ones(3, 2))
    with pytest.raises(pto.Error, match="and on plain npu tensors without a gradient"):
        scaled_rows(torch.ones(3, 2, device="npu", requires_grad=True), out)


@pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")
@every_function
def test_npu_tensors_are_computed_on_their_stream_with_gradients(name):
    ours = FUNCTIONS[name][0]
    there = tensors(torch.float32, "npu", grad=True)
    here = tensors(torch.float32, grad=True)
    with torch.npu.stream(torch.npu.Stream()):
        got = ours(*there)
        (d,) = torch.autograd.grad(got.sum(), there[0])
        torch.npu.current_stream().synchronize()
    assert got.device.type == d.device.type == "npu"
    assert torch.equal(got.detach().cpu(), ours(*tensors(torch.float32)))
    close(d.cpu(), torch.autograd.grad(ours(*here).sum(), here[0])[0])


def test_the_profiler_sees_a_call_and_a_tracing_records_it():
    x = torch.randn(4, 5)
    name = scaled.operator(x)._qualified_op_name
    with torch.profiler.profile() as profile:
        want = scaled(x)
    assert name in {event.key for event in profile.key_averages()}
    graph = make_fx(lambda x: scaled(x))(x)
    assert name.replace("::", ".") in graph.code
    assert torch.equal(graph(x), want)
    traced = torch.jit.trace(lambda x: scaled(x), (x,))
    assert name in str(traced.graph) and torch.equal(traced(2 * x), scaled(2 * x))


def test_plain_calls_make_no_operator():
    @pto.jit
    def plain(x):
        return x + 1

    before = _core.operator_count()
    plain(torch.ones(3))
    with torch.inference_mode():
        plain(torch.ones(3))
    with torch.no_grad():
        plain(torch.ones(3, requires_grad=True))
    assert _core.operator_count() == before
    plain(torch.ones(3, requires_grad=True))
    assert _core.operator_count() == before + 3  # it, its gradient, the gradient of that


def test_only_pytorchs_adapter_hears_of_them():
    heard = []
    _core.on_operator(heard.append)
    first = _core.operator_count()
    pto.jit(lambda x: x * 41).operator(torch.ones(3))
    names = [_core.operator_record(i)["name"] for i in heard]
    assert _core.operator_count() == first + 3 and max(heard) < first
    assert "gelu" in names and not any("::" in name for name in names)


def test_equal_functions_share_an_operator_and_others_do_not():
    def made(scale, dtype=torch.float32):
        function = pto.jit(lambda x: x * scale)
        return function, function.operator(torch.ones(3, dtype=dtype))

    assert made(2)[1] is made(2)[1] is made(2, torch.float16)[1]
    assert made(2)[1] is not made(3)[1] and made(2)[1] is not made(2.0)[1]
    function, operator = made(2)
    x = torch.ones(3, requires_grad=True)
    assert function(x).tolist() == [2, 2, 2] == operator(x).tolist()


FACTOR = 2


def test_a_captured_number_that_changes_is_another_operator(monkeypatch):
    @pto.jit
    def captured(x):
        return x * FACTOR

    x = torch.ones(2, requires_grad=True)
    old = captured.operator(x)
    assert captured(x).tolist() == [2, 2]
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 3)
    assert captured(x).tolist() == [3, 3] and captured.operator(x) is not old
    with pytest.raises(RuntimeError, match="captures is another one now"):
        old(torch.ones(2, 2, 2))


def test_wrapped_tensors_and_other_devices_get_results_of_their_kind():
    x = torch.randn(4, 5)
    meta = scaled(x.to("meta"))
    assert meta.device.type == "meta" and meta.shape == (4, 5)
    lazy = torch.view_as_complex(torch.randn(3, 2)).conj().imag
    close(scaled(lazy), torch.tanh(lazy) * 2)

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return "mine" if "scaled" in str(function) else NotImplemented

    assert scaled(x.as_subclass(Own)) == "mine"


def test_out_through_pytorch():
    x = torch.randn(4, 5)
    with torch.profiler.profile():
        out = torch.empty(4, 5)
        assert scaled(x, out=out) is out
    assert torch.equal(out, scaled(x))
    with pytest.raises((RuntimeError, pto.Error), match="requires grad"):
        scaled(x.requires_grad_(), out=out)


def test_a_call_that_needs_a_gradient_runs_the_kernel_of_one_that_needs_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path))
    fifth = pto.jit(lambda x: pto.tanh(x) * 0.2)  # a function of its own has no kernel yet
    x = torch.randn(4, 5)
    close(fifth(x.clone().requires_grad_()).detach(), fifth(x))
    assert len([*tmp_path.glob("*.so")]) == 1


class Layer(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps, self.linear = eps, torch.nn.Linear(5, 5)

    def bias(self):
        return self.eps + 1

    @pto.jit
    def act(self, x, times=1):
        for _ in range(times):
            x = pto.exp(x) * self.eps
        return x + self.bias()

    def forward(self, x):
        return self.act(self.linear(x))


def expected(layer, x):
    return torch.exp(layer.linear(x)) * layer.eps + layer.eps + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_methods_of_modules_train_compile_and_notice_attributes(backend):
    layers, x = [Layer(0.5), Layer(2.0)], torch.randn(4, 5)
    torch._dynamo.reset()
    for layer in layers if backend == "aot_eager" else [copy.deepcopy(layers[0])]:
        for eps in (layer.eps, 3.0):
            layer.eps = eps
            close(layer(x), expected(layer, x))
            close(layer.act(x.detach(), 2), torch.exp(torch.exp(x) * eps) * eps + eps + 1)
            close(torch.compile(layer, backend=backend, fullgraph=True)(x), expected(layer, x))
            (got,) = torch.autograd.grad(layer(x).sum(), layer.linear.bias)
            (want,) = torch.autograd.grad(expected(layer, x).sum(), layer.linear.bias)
            close(got, want, 1e-4)
