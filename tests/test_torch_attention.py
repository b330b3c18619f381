# SPDX-License-Identifier: Apache-2.0
"""PyTorch's scaled_dot_product_attention on our kernels: pto.config.torch_attention."""

import os
import threading

import children
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import pto
import pto.torch
from pto import _core
from pto.adapters.torch import activation
from pto.errors import Error

pytestmark = pytest.mark.skipif(
    not pto.torch.has_cpp_gradients(), reason="python -m pto adapters build torch"
)
F = torch.nn.functional
attend = F.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def switch():
    yield
    pto.config.torch_attention = False


def random(*shape, dtype=torch.float32):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape).to(dtype)


def on(function, *args, **options):
    pto.config.torch_attention = True
    try:
        return function(*args, **options)
    finally:
        pto.config.torch_attention = False


def turned(x):
    """The same elements, positions before heads in memory."""
    return x.transpose(-2, -3).contiguous().transpose(-2, -3)


def with_gradients(given, options, d):
    given = [x.detach().requires_grad_() for x in given]
    out = attend(*given, **options)
    return out, *torch.autograd.grad(out, given, d)


HIDDEN = random(9, 14) > -0.5
HIDDEN[4] = False
CALLS = {
    "plain": (((2, 4, 9, 16), (2, 4, 14, 16), (2, 4, 14, 16)), {}),
    "causal, more keys": (((2, 4, 9, 16), (2, 4, 14, 16), (2, 4, 14, 16)), {"is_causal": True}),
    "causal, fewer keys": (((2, 4, 14, 16), (2, 4, 9, 16), (2, 4, 9, 16)), {"is_causal": True}),
    "scale": (((2, 4, 9, 16), (2, 4, 14, 16), (2, 4, 14, 16)), {"scale": 0.7}),
    "grouped": (((2, 6, 9, 16), (2, 2, 14, 16), (2, 2, 14, 16)), {"enable_gqa": True}),
    "hidden": (((2, 4, 9, 16), (2, 4, 14, 16), (2, 4, 14, 16)), {"attn_mask": HIDDEN}),
    "numbers": (((2, 4, 9, 16), (2, 4, 14, 16), (2, 4, 14, 16)), {"attn_mask": random(1, 9, 14)}),
    "long": (((1, 2, 200, 64), (1, 2, 300, 64), (1, 2, 300, 64)), {"is_causal": True}),
    "three axes": (((4, 9, 16), (4, 14, 16), (4, 14, 16)), {}),
    "a matrix": (((9, 16), (14, 16), (14, 16)), {"attn_mask": HIDDEN}),
    "five axes": (((2, 1, 4, 9, 16), (2, 1, 4, 14, 16), (2, 1, 4, 14, 16)), {}),
    "wide values": (((2, 4, 9, 16), (2, 4, 14, 16), (2, 4, 14, 40)), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("lies", [torch.clone, turned], ids=["dense", "turned"])
def test_results_and_gradients_are_pytorchs(name, lies):
    """Both those that PyTorch fuses and those that it composes."""
    shapes, options = CALLS[name]
    if lies is turned and len(shapes[0]) < 3:
        pytest.skip("a matrix has no heads")
    given = [lies(random(*shape)) for shape in shapes]
    d = random(*shapes[0][:-1], shapes[2][-1])
    expected = with_gradients(given, options, d)
    found = on(with_gradients, given, options, d)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=5e-6, rtol=1e-4)
        assert one.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["plain", "three axes"])
def test_our_kernel_computes_it(name, dtype):
    """The bits are those of the operator attention."""
    q, k, v = (random(*shape[:-2], 70, 40, dtype=dtype) for shape in CALLS[name][0])
    ours = torch.ops.pto.attention(q, k, v, causal=True)
    assert torch.equal(on(attend, q, k, v, is_causal=True), ours)
    with torch.inference_mode():
        inferred = on(attend, q, k, v, is_causal=True)
    if name == "plain":  # PyTorch composes others in this mode
        assert torch.equal(inferred, ours)
    # On tiles and in pairs weights are rounded to bf16, each by half a last place.
    rounds = any(name in _core.matmul_layout("bf16") for name in ("AMX", "AVX512_BF16"))
    near = {"atol": 2**-8, "rtol": 2**-7} if rounds and dtype == torch.bfloat16 else {}
    torch.testing.assert_close(inferred, ours, **near)
    assert not torch.equal(attend(q, k, v, is_causal=True).float(), ours.float())


@pytest.mark.parametrize("name", ["plain", "three axes"])
def test_our_kernel_computes_the_gradients(name):
    """The bits are those of the operator that differentiates attention."""
    given = [random(*shape[:-2], 70, 40).requires_grad_() for shape in CALLS[name][0]]
    d = random(*given[0].shape)
    ours = torch.ops.pto.attention_with_log_sums(*given)[0]
    expected = torch.autograd.grad(ours, given, d)
    assert all(map(torch.equal, on(with_gradients, given, {}, d)[1:], expected))


def test_elements_may_lie_apart():
    q, k, v = (random(2, 4, 16, n).mT for n in (9, 14, 14))
    assert torch.equal(on(attend, q, k, v), torch.ops.pto.attention(q, k, v))


def test_off_it_is_pytorchs_own_again():
    q = random(2, 4, 70, 40)
    before = attend(q, q, q), attend(q[0], q[0], q[0])
    on(attend, q, q, q)
    assert torch.equal(attend(q, q, q), before[0])
    assert torch.equal(attend(q[0], q[0], q[0]), before[1])


@pytest.mark.parametrize("starts_on", [True, False])
def test_the_switch_may_change_before_the_backward_pass(starts_on):
    """A query that sees no key too: PyTorch's backward gets a finite sum for it."""
    q, mask = random(2, 4, 9, 16), torch.ones(9, 9, dtype=torch.bool)
    mask[4] = False
    expected = with_gradients([q, q, q], {"attn_mask": mask}, q)[1:]
    pto.config.torch_attention = starts_on
    given = [q.clone().requires_grad_() for _ in range(3)]
    out = attend(*given, attn_mask=mask)
    assert torch.equal(out[:, :, 4], torch.zeros(2, 4, 16))
    pto.config.torch_attention = not starts_on
    for one, other in zip(torch.autograd.grad(out, given, q), expected, strict=True):
        torch.testing.assert_close(one, other, atol=5e-6, rtol=1e-4)


def refused_calls():
    q, wide = random(2, 4, 9, 16), random(2, 4, 9, 16).double()
    numbers = torch.zeros(9, 9)
    yield "f64", (wide, wide, wide), {}
    yield "a mask of f32 for bf16", (q.bfloat16(), q.bfloat16(), q.bfloat16(), numbers), {}
    yield "shared batch", (q, q[:1], q[:1]), {}
    yield "no elements", (q[..., :0], q[..., :0], q), {}
    yield "a matrix of f64", (wide[0, 0], wide[0, 0], wide[0, 0]), {}


@pytest.mark.parametrize("call", list(refused_calls()), ids=lambda call: call[0])
def test_other_calls_run_in_pytorchs_kernels(call):
    _, args, options = call
    expected = attend(*args, **options)
    assert torch.equal(on(attend, *args, **options).nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize("options", [{}, {"dropout_p": 0.0, "enable_gqa": True}], ids=str)
def test_a_mask_that_requires_grad_has_its_gradient(options):
    """Of our kernel, the mask alone or with the others."""
    q, k, mask = random(2, 4, 9, 16), random(2, 4, 9, 16), random(4, 1, 9).requires_grad_()
    expected = torch.autograd.grad(attend(q, k, k, mask, **options).square().sum(), mask)
    found = torch.autograd.grad(on(attend, q, k, k, mask, **options).square().sum(), mask)
    torch.testing.assert_close(found, expected, atol=5e-6, rtol=1e-4)
    ours = torch.ops.pto.attention_with_log_sums(q, k, k, mask)[0]
    assert torch.equal(found[0], torch.autograd.grad(ours.square().sum(), mask)[0])
    q.requires_grad_()
    found = torch.autograd.grad(on(attend, q, k, k, mask, **options).square().sum(), (q, mask))
    torch.testing.assert_close(found[1:], expected, atol=5e-6, rtol=1e-4)


@pytest.mark.parametrize("name", ["plain", "grouped", "three axes", "hidden"])
def test_dropout_is_seeded_by_pytorchs_generator(name):
    """What is dropped is the operator's choice for the seed that torch.manual_seed() gives."""
    shapes, options = CALLS[name]
    given = [random(*shape).requires_grad_() for shape in shapes]
    torch.manual_seed(11)
    found = on(attend, *given, dropout_p=0.25, **options)
    d_found = torch.autograd.grad(found.sum(), given)
    torch.manual_seed(11)
    seed = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)) % 2**64 >> 1
    ours = torch.ops.pto.attention_with_log_sums(
        *given, options.get("attn_mask"), dropout=0.25, seed=seed
    )[0]
    assert torch.equal(found, ours)
    assert all(map(torch.equal, d_found, torch.autograd.grad(ours.sum(), given)))
    assert not torch.equal(on(attend, *given, dropout_p=0.25, **options), found)


def test_dropout_keeps_the_mean():
    q = random(1, 4, 64, 16)
    mean = sum(on(attend, q, q, q, scale=0.01, dropout_p=0.3) for _ in range(400)) / 400
    torch.testing.assert_close(mean, attend(q, q, q, scale=0.01), atol=0.03, rtol=0)
    assert torch.equal(on(attend, q, q, q, dropout_p=1.0), torch.zeros_like(q))


def test_a_dropout_of_more_than_all_is_pytorchs_error():
    q = random(4, 9, 16)
    with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1"):
        on(attend, q, q, q, dropout_p=1.5)


def test_checkpoints_drop_the_same_again():
    q = random(2, 4, 9, 16).requires_grad_()
    pto.config.torch_attention = True
    gradients = []
    for again in (False, True):
        torch.manual_seed(2)
        args = (q, q, q, None, 0.5)
        out = checkpoint(attend, *args, use_reentrant=False) if again else attend(*args)
        gradients += torch.autograd.grad(out.sum(), q)
    assert torch.equal(*gradients)


def test_nested_tensors_run_in_pytorchs_kernels():
    q = torch.nested.nested_tensor([random(4, 5, 16), random(4, 7, 16)])
    expected = attend(q, q, q)
    for one, other in zip(on(attend, q, q, q).unbind(), expected.unbind(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "args",
    [
        (random(2, 3, 9, 16), random(2, 3, 9, 15), random(2, 3, 9, 15)),
        (random(9), random(9), random(9)),
        (random(9, 4), random(9, 4).half(), random(9, 4)),
        (random(9, 4), random(9, 4), random(9, 4), torch.zeros(8, 8)),
        (random(9, 4), random(9, 4), random(9, 4), torch.zeros(9, 9), 0.0, True),
    ],
    ids=["widths", "axes", "types", "mask", "causal mask"],
)
def test_errors_are_pytorchs(args):
    with pytest.raises(RuntimeError) as expected:
        attend(*args)
    with pytest.raises(RuntimeError) as found:
        on(attend, *args)
    assert str(found.value) == str(expected.value)


def test_pytorchs_choice_of_a_backend_counts():
    q = random(2, 4, 70, 40)
    with sdpa_kernel(SDPBackend.MATH):
        assert torch.equal(on(attend, q, q, q), attend(q, q, q))
        assert torch.equal(on(attend, q[0], q[0], q[0]), attend(q[0], q[0], q[0]))


def test_autocast_casts_first():
    q = random(2, 4, 70, 40)
    with torch.autocast("cpu", torch.bfloat16):
        found = on(attend, q, q, q)
    assert torch.equal(found, torch.ops.pto.attention(*[q.bfloat16()] * 3))


def test_transformations_of_functions():
    q = random(3, 4, 9, 16)
    expected = torch.func.grad(lambda x: attend(x, x, x).square().sum())(q[0])
    found = on(torch.func.grad(lambda x: attend(x, x, x).square().sum()), q[0])
    torch.testing.assert_close(found, expected, atol=5e-6, rtol=1e-4)
    expected = torch.vmap(lambda x: attend(x, x, x))(q)
    torch.testing.assert_close(on(torch.vmap(lambda x: attend(x, x, x)), q), expected)
    tangent = torch.func.jvp(lambda x: attend(x, x, x), (q[0],), (q[0],))
    found = on(torch.func.jvp, lambda x: attend(x, x, x), (q[0],), (q[0],))
    torch.testing.assert_close(found, tangent)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_programs_follow_the_switch(dynamic):
    """Compiled with it off or on; strides are those that the program was compiled for."""
    torch._dynamo.reset()

    def block(x):
        q, k, v = x.view(*x.shape[:2], 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
        y = attend(q, k, v, is_causal=True).transpose(1, 2).reshape(*x.shape[:2], 32)
        return y.tanh() + attend(q[0], k[0], v[0]).sum()

    compiled = torch.compile(block, backend="aot_eager_decomp_partition", dynamic=dynamic)
    for length in (40, 70):
        x = random(2, length, 96).requires_grad_()
        expected = block(x)
        (d_expected,) = torch.autograd.grad(expected.sum(), x)
        for is_on in (False, True, False):
            pto.config.torch_attention = is_on
            result = compiled(x)
            (d,) = torch.autograd.grad(result.sum(), x)
            torch.testing.assert_close(result, expected, atol=5e-5, rtol=1e-4)
            torch.testing.assert_close(d, d_expected, atol=5e-5, rtol=1e-4)


def test_exported_programs_follow_the_switch_and_decompose():
    class Program(torch.nn.Module):
        def forward(self, x):
            return attend(x, x, x, is_causal=True)

    q = random(2, 4, 70, 40)
    pto.config.torch_attention = True
    program = torch.export.export(Program(), (q,))
    assert torch.equal(program.module()(q), torch.ops.pto.attention(q, q, q, causal=True))
    names = {str(node.target) for node in program.run_decompositions().graph.nodes}
    assert "aten.scaled_dot_product_attention.default" not in names


def test_compiled_by_inductor_it_is_our_kernel():
    torch._dynamo.reset()
    q = random(2, 4, 70, 40)
    compiled = torch.compile(lambda x: attend(x, x, x, is_causal=True))
    own = compiled(q)
    pto.config.torch_attention = True
    assert torch.equal(compiled(q), torch.ops.pto.attention(q, q, q, causal=True))
    pto.config.torch_attention = False
    assert torch.equal(compiled(q), own)


@pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")
def test_the_npu_follows_the_switch():
    q = random(2, 4, 70, 40)
    found = on(attend, *[q.npu()] * 3, is_causal=True).cpu()
    assert torch.equal(found, torch.ops.pto.attention(q, q, q, causal=True))


def test_a_layer_trains_as_with_pytorchs_kernels():
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
    x = random(3, 20, 32)
    losses = []
    for is_on in (False, True):
        pto.config.torch_attention = is_on
        layer.zero_grad()
        layer(x).square().mean().backward()
        losses.append([p.grad.clone() for p in layer.parameters()])
    torch.testing.assert_close(*losses, atol=1e-5, rtol=1e-3)


def test_threads_may_attend_while_the_switch_changes():
    q, failures = random(2, 4, 70, 40), []
    expected = attend(q, q, q)

    def attend_often():
        for _ in range(200):
            found = attend(q, q, q), attend(q[0], q[0], q[0])
            failures.extend(x for x, y in zip(found, (expected, expected[0]), strict=True)
                            if not torch.allclose(x, y, atol=1e-5))  # fmt: skip

    workers = [threading.Thread(target=attend_often) for _ in range(2)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        pto.config.torch_attention = not pto.config.torch_attention
    assert not failures


def test_the_environment_turns_it_on():
    """Without a warning of PyTorch about kernels that are replaced."""
    code = """
import warnings
warnings.simplefilter("error")
import pto, pto.torch, torch
assert pto.config.torch_attention
q = torch.randn(2, 4, 70, 40)
found = torch.nn.functional.scaled_dot_product_attention(q, q, q)
assert torch.equal(found, torch.ops.pto.attention(q, q, q))
"""
    variables = os.environ | {"PTO_TORCH_ATTENTION": "1"}
    done = children.run("-c", code, env=variables)
    assert done.returncode == 0, done.stderr


def test_the_environment_without_its_kernels_is_one_warning():
    code = """
import warnings
from pto.adapters import build
build.built = lambda part: None
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import pto.torch, pto, torch
    q = torch.randn(2, 4, 7, 4)
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
[text] = [str(one.message) for one in said if "PTO_TORCH_ATTENTION=1 changes" in str(one.message)]
assert "not built" in text and "fix: python -m pto adapters build torch" in text, text
"""
    variables = os.environ | {"PTO_TORCH_ATTENTION": "1"}
    done = children.run("-c", code, env=variables)
    assert done.returncode == 0, done.stderr


def test_the_switch_is_true_or_false():
    with pytest.raises(Error, match="config.torch_attention is 1"):
        pto.config.torch_attention = 1


def test_without_its_kernels_it_says_what_builds_them(monkeypatch):
    monkeypatch.setattr(pto.torch, "_gradients", None)
    with pytest.raises(Error, match="python -m pto adapters build torch"):
        pto.config.torch_attention = True
    assert not pto.config.torch_attention
