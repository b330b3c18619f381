# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="pto"): options, capture, mutations, sizes, weights, training."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from compile_cases import assert_same
from torch import nn

import pto.torch
from pto import _core
from pto.adapters.torch import direct
from pto.adapters.torch.compile.compiled import graphs

ALONE = """
import torch
def f(x):
    return torch.softmax(x * 2, -1).sum(0)
x = torch.randn(5, 4)
found = torch.compile(f, backend="pto")(x)
torch.testing.assert_close(found, f(x))
from pto.adapters.torch import direct
from pto.adapters.torch.compile.compiled import graphs
print([step.kind for step in graphs()[0].steps])
"""


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(function, **more):
    return torch.compile(function, backend="pto", **more)


def test_a_program_that_imports_torch_alone_finds_the_backend():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert done.stdout == "['program']\n", done.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"precison": "f32"}, "has no option 'precison'.*precision, bits, fallback, weights, dump"),
        ({"precision": "f8"}, "precision of the backend pto is 'f8'.*one of 'f32', 'bf16'"),
        ({"dump": 3}, "dump of the backend pto is 3.*a folder"),
        ({"dump": __file__}, "dump of the backend pto is '.*backend.py': .*exists.*a folder"),
        ({"dump": "nul\0"}, r"dump of the backend pto is 'nul\\x00': .*null.*a folder"),
    ],
)
def test_an_unknown_option_is_an_error_with_the_list(options, text):
    with pytest.raises(Exception, match=f"(?s){text}"):
        compiled(lambda x: x + 1, options=options)(torch.ones(2))


def test_an_unknown_mode_is_an_error_and_reduce_overhead_changes_nothing():
    x = torch.randn(3)
    assert_same(compiled(torch.tanh, mode="reduce-overhead")(x), torch.tanh(x))
    with pytest.raises(Exception, match="has no mode 'fastest'"):
        compiled(torch.tanh, mode="fastest")(x)


def test_fallback_error_names_the_line_that_aten_would_run():
    def model(x):
        return torch.sort(x * 2)[0]

    with pytest.raises(Exception, match=r"test_compile_backend.py:\d+: .*sort would run in ATen"):
        compiled(model, options={"fallback": "error"})(torch.randn(4))
    x = torch.randn(4)
    assert_same(compiled(torch.exp, options={"fallback": "error"})(x), x.exp())
    checked, x = compiled(F.binary_cross_entropy, options={"fallback": "error"}), x.sigmoid()
    assert_same(checked(x, x), F.binary_cross_entropy(x, x))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        checked(x + 1, x)


def test_dump_writes_the_graph_its_function_and_each_program(tmp_path):
    compiled(lambda x: torch.sort(x.tanh() + 1)[0], options={"dump": tmp_path})(torch.randn(4))
    names = {path.name.partition("_")[2] for path in tmp_path.iterdir()}
    assert names == {"inference.fx.txt", "inference.py.txt", "inference_step0.pto.txt"}
    assert "tanh(%x0)" in next(tmp_path.glob("*step0*")).read_text()


def test_programs_are_compiled_for_the_target_of_the_settings(monkeypatch):
    targets, real = [], _core.compile
    monkeypatch.setattr(
        _core,
        "compile",
        lambda *args, **more: targets.append(more["target"]) or real(*args, **more),
    )
    monkeypatch.setenv("PTO_TARGET", "portable")
    assert_same(compiled(lambda x: x.tanh() + 3)(x := torch.randn(4)), x.tanh() + 3)
    assert set(targets) == {"portable"}


def test_mutations_aliases_and_views_among_outputs_are_as_in_eager():
    def model(x, y):
        x.mul_(2)
        y[1:].add_(x[0])
        part = x[:, 1:]
        return part, x.t(), part + 1, y

    args, same = ([torch.arange(12.0).view(3, 4), torch.ones(3, 4)] for _ in range(2))
    found, wanted = compiled(model)(*args), model(*same)
    assert_same(found, wanted)
    assert_same(args, same)
    assert found[0].data_ptr() == args[0].data_ptr() + 4 and found[3] is args[1]


def test_inputs_that_share_memory_are_read_as_they_lie():
    base = torch.randn(10)
    x, y = base[:8].view(2, 4), base[2:].view(2, 4)
    assert_same(compiled(lambda x, y: (x * y).sum(-1))(x, y), (x * y).sum(-1))


def test_buffers_and_random_numbers_follow_pytorch():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    other = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    other.load_state_dict(model.state_dict())
    x, run = torch.randn(6, 4), compiled(model)
    for seed in range(3):
        torch.manual_seed(seed)
        found = run(x)
        torch.manual_seed(seed)
        assert_same(found, other(x))
    assert_same(list(model.state_dict().values()), list(other.state_dict().values()))


class Mixed(nn.Module):
    """Embedding, product, norm, attention, views."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.words, self.heads = nn.Embedding(20, width), heads
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, mask=None):
        x = self.words(ids)
        parts = self.joined(x).view(*ids.shape, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts.unbind(0), attn_mask=mask)
        return self.norm(x + self.out(F.gelu(seen.transpose(1, 2).flatten(2))))


def test_a_new_size_of_a_dynamic_graph_captures_and_compiles_nothing(monkeypatch):
    model = Mixed().eval().requires_grad_(False)
    run = compiled(model, dynamic=True)
    run(torch.randint(0, 20, (2, 3)))
    monkeypatch.setattr("pto._core.compile", lambda *args, **more: pytest.fail("compiles again"))
    with torch.compiler.set_stance("fail_on_recompile"):
        for shape in ((3, 5), (2, 9), (7, 2)):
            ids = torch.randint(0, 20, shape)
            assert_same(run(ids), model(ids))


def _step(model):
    model.out.weight.grad = torch.ones_like(model.out.weight)
    torch.optim.SGD([model.out.weight], lr=0.5).step()


def _load(model):
    model.load_state_dict({n: t + 0.5 for n, t in model.state_dict().items()})


def _in_place(model):
    with torch.no_grad():
        model.out.weight.mul_(3)


def _other_data(model):
    model.out.weight.data = torch.randn_like(model.out.weight)


def _into_data(model):
    model.out.weight.data.copy_(torch.randn_like(model.out.weight))


def _other_parameter(model):
    model.out.weight = nn.Parameter(torch.randn_like(model.out.weight))


def _other_type(model):
    model.to(torch.bfloat16)


CHANGES = (_step, _load, _in_place, _other_data, _into_data, _other_parameter, _other_type)


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__.strip("_"))
def test_a_change_of_weights_is_seen_at_the_next_call(change):
    model, ids = Mixed(64).eval(), torch.randint(0, 20, (2, 3))
    run = compiled(model)
    with torch.no_grad():
        for _ in range(4):  # by then weights are packed
            before = run(ids)
    change(model)
    with torch.no_grad():
        after = run(ids)
        assert not torch.equal(before, after)
        assert_same(after, model(ids), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not pto.torch.has_cpp_gradients(), reason="python -m pto adapters build torch")
@pytest.mark.parametrize(
    ("option", "sees_one_element", "sees_all", "said"),
    [
        ("checked", False, True, "but for writes of a few elements"),
        ("hashed", True, True, "every change of a weight is seen"),
        ("trusted", False, False, "weights are trusted"),
    ],
)
def test_the_option_weights_says_which_changes_in_place_are_seen(
    option, sees_one_element, sees_all, said
):
    model, ids = Mixed(64).eval().requires_grad_(False), torch.randint(0, 20, (2, 3))
    run = compiled(model, options={"weights": option})
    packed = pto.memory()["packed_weights"]
    for _ in range(4):
        before = run(ids)
    assert pto.memory()["packed_weights"] > packed
    model.out.weight.data[7, 9] += 3  # counted by nobody, and no sample
    assert torch.equal(run(ids), before) != sees_one_element
    model.out.weight.mul_(3)
    assert torch.equal(run(ids), before) != sees_all
    assert said in str(pto.torch.explain(run, ids))
    pto.repack(model.out.weight)
    assert_same(run(ids), model(ids), rtol=1e-4, atol=1e-4)


def test_the_check_of_a_graph_ends_with_its_run():
    from pto import _core

    def model(i, w):
        return F.embedding(i, w) * 2

    run = compiled(model, options={"weights": "trusted"})
    run(torch.tensor([1]), weight := torch.randn(4, 3))
    with pytest.raises(Exception, match="position 7"):
        run(torch.tensor([7]), weight)
    assert _core.exchange_thread_weight_check(None) is None


def test_precision_bf16_gives_products_medium_and_leaves_the_switch_alone():
    model, ids = Mixed(64).eval().requires_grad_(False), torch.randint(0, 20, (3, 7))
    rounded, medium = compiled(model, options={"precision": "bf16"}), compiled(model)
    before = pto.config.matmul_precision
    try:
        pto.config.matmul_precision = "medium"
        wanted = [medium(ids) for _ in range(3)]
    finally:
        pto.config.matmul_precision = before
    for want in wanted:
        assert torch.equal(rounded(ids), want)
    report = pto.torch.verify(rounded, ids)
    assert report.is_right, report
    programs = [str(step.program.graph) for step in graphs()[-1].steps if step.program is not None]
    assert sum(text.count("{precision=medium}") for text in programs) == 2


def test_gradients_are_those_of_eager():
    model, other = Mixed().train(), Mixed().train()
    other.load_state_dict(model.state_dict())
    run, ids = compiled(model), torch.randint(0, 20, (2, 5))
    for _ in range(2):
        run(ids).square().sum().backward()
        other(ids).square().sum().backward()
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    for one, wanted in pairs:
        assert_same(one.grad, wanted.grad, rtol=1e-4, atol=1e-4)
    assert {graph.kind for graph in graphs()} >= {"forward", "backward"}


def test_a_size_that_the_graph_was_captured_for_as_1_is_repeated():
    def function(x, y, step):
        return torch.minimum(x, y[::step])

    x, y = torch.randn(2), torch.randn(2)
    compiled = torch.compile(function, backend="pto", dynamic=True)
    for step in (3, 1, 2):
        assert torch.equal(compiled(x, y, step), function(x, y, step))


SIGNED = {
    "pad": lambda x, n: F.pad(x * 2, (n, 6)) + 1,
    "end": lambda x, n: (x * 2)[:n] + 1,
    "begin": lambda x, n: (x * 2)[n:] + 1,
    "range": lambda x, n: torch.arange(n, 6) * 2 + x[0],
}


@pytest.mark.parametrize("name", SIGNED)
def test_a_number_of_the_call_may_be_negative(name):
    function, x = SIGNED[name], torch.arange(6.0)
    compiled = torch.compile(function, backend="pto", dynamic=True)
    for number in (5, -1, -3, 0, 1, 2, -5):
        assert torch.equal(compiled(x, number), function(x, number)), number


def test_an_error_in_a_step_names_the_line_of_the_model():
    weight = torch.randn(4, 3)

    def model(x):
        return F.embedding(x, weight) * 2

    run = compiled(model)
    run(torch.tensor([1, 2]))
    with pytest.raises(Exception, match=r"test_compile_backend.py:\d+"):
        run(torch.tensor([1, 9]))


def test_weights_that_nothing_packs_are_told(monkeypatch):
    monkeypatch.setattr(direct, "knows_owners", lambda: False)
    model, ids = Mixed(64).eval().requires_grad_(False), torch.randint(0, 20, (2, 3))
    run = compiled(model)
    with pytest.warns(RuntimeWarning, match="no weight is packed.*adapters build torch"):
        run(ids)
    assert "no weight is packed" in str(pto.torch.explain(run, ids))


@pytest.mark.parametrize(
    "function",
    (lambda x: (x * 2).softmax(-1), lambda x: torch.complex(x, x).conj().imag.exp() + x),
    ids=("of an input", "on the way"),
)
def test_a_program_puts_on_a_sign_that_waits(function):
    for x in (torch._neg_view(torch.randn(3, 4)), torch.randn(3, 4, 2)[..., 0]):
        assert_same(compiled(function)(x), function(x))


def test_a_derivative_in_forward_mode_is_never_lost():
    run, x = compiled(lambda x: (x * 2).softmax(-1)), torch.randn(3, 4)
    run(x)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(pto.Error, match="forward mode"):
        run(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))


def on_a_stream(x):
    with torch.npu.stream(torch.npu.current_stream()):
        return x.relu() * 2


@pytest.mark.parametrize("function", [on_a_stream, lambda x: x.relu() * 2])
def test_streams_are_passed_on_where_a_function_names_one(function, monkeypatch):
    x, asked, ask = torch.randn(300, 5, device="npu"), [], torch.accelerator.current_stream
    found = compiled(function)
    assert torch.equal(found(x), function(x))
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda *a: asked.append(a) or ask(*a))
    assert torch.equal(found(x), x.relu() * 2)
    assert bool(asked) == (function is on_a_stream)
