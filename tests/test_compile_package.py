# SPDX-License-Identifier: Apache-2.0
"""pto.torch.package() and pto.load(): exported models in files, in this process and in others."""

import copy
import os
import pickle
from typing import NamedTuple

import children
import pytest
import torch
from compile_cases import ModuleOf, assert_same, by_turns
from torch import nn
from torch.export import Dim, export

import pto
import pto.torch
from pto import container
from pto.adapters.torch.graph_function import check

torch.manual_seed(0)


class Layer(nn.Module):
    """Products, attention, a norm, an operator that only ATen has, a buffer that is written."""

    def __init__(self, width=32):
        super().__init__()
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.tied = nn.LayerNorm(width), nn.Linear(width, width)
        self.tied.weight = self.out.weight
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x, *, shift=None, times: int = 2):
        self.calls.add_(1)
        parts = self.joined(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*parts.unbind(0))
        y = self.norm(x + self.tied(self.out(seen.transpose(1, 2).flatten(2))))
        y = y if shift is None else y + shift
        return {"y": y * times, "first": torch.sort(y, -1)[0][..., 0]}, self.calls.sum()


CHILD = """
import sys, torch, pto
model = pto.load(sys.argv[1])
given, wanted = torch.load(sys.argv[2])
found = model(given, shift=torch.ones(32), times=2)
torch.testing.assert_close(found[0], wanted, rtol=0, atol=0)
assert "torch._dynamo" not in sys.modules
"""


@pytest.fixture(scope="module")
def layer():
    torch.manual_seed(0)
    return Layer().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def packaged(layer, tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "layer.pto"
    free = {"x": {0: Dim("batch", max=64), 1: Dim("length", min=2)}, "shift": None, "times": None}
    given = {"shift": torch.ones(32), "times": 2}
    exported = export(layer, (torch.randn(2, 5, 32),), given, dynamic_shapes=free)
    pto.torch.package(exported, path)
    return path


def test_a_loaded_model_computes_what_the_model_does_at_every_size(layer, packaged):
    model = pto.load(packaged)
    first = layer.calls.clone()
    for n, size in enumerate([(2, 5), (7, 3), (1, 5), (0, 4), (64, 2)], 1):
        x = torch.randn(*size, 32)
        found, wanted = model(x, times=2, shift=torch.ones(32)), layer(x, shift=torch.ones(32))
        assert_same(found[0]["y"], wanted[0]["y"], rtol=1e-4, atol=1e-5)
        assert_same(found[0]["first"], wanted[0]["first"], rtol=1e-4, atol=1e-5)
        assert float(found[1]) == 2 * n and torch.equal(layer.calls - first, torch.full((2,), n))
    assert model.weights["tied.weight"] is model.weights["out.weight"]
    assert torch.equal(model.weights["calls"], torch.full((2,), 5.0))
    strided = torch.randn(3, 32, 4).transpose(1, 2)
    found = model(strided, shift=torch.ones(32), times=2)[0]["y"]
    assert_same(found, layer(strided, shift=torch.ones(32))[0]["y"], rtol=1e-4, atol=1e-5)


def test_another_process_needs_no_compiler(layer, packaged, tmp_path):
    x = torch.randn(3, 4, 32)
    model = pto.load(packaged)
    torch.save((x, model(x, shift=torch.ones(32), times=2)[0]), tmp_path / "x.pt")
    settings = {"PTO_CXX": "/no/compiler", "PTO_CACHE_DIR": str(tmp_path / "cache")}
    done = children.run("-c", CHILD, packaged, tmp_path / "x.pt", env=os.environ | settings)
    assert done.returncode == 0, done.stderr


def arguments(x=None, **more):
    return (torch.randn(2, 5, 32) if x is None else x,), {
        "shift": torch.ones(32), "times": 2} | more  # fmt: skip


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (arguments(torch.randn(2, 5, 31)), "axis 2 of the input x has the size 31.*for 32 here"),
        (arguments(torch.randn(2, 1, 32)), "axis 1 of .* has the size 1.*at least 2"),
        (arguments(torch.randn(65, 5, 32)), "axis 0 of .* has the size 65.*at most 64"),
        (arguments(torch.randn(5, 32)), "x is torch.float32 with 2 axes.*float32 with 3"),
        (arguments(torch.randn(2, 5, 32).double()), "x is torch.float64.*float32 with 3"),
        (arguments(None, times=3), "times is 3.*exported as 2"),
        (arguments(None, shift=3), "shift is int.*a dense tensor on the CPU.*torch.as_tensor"),
        (((), {}), "0 arguments by place and none by name.*1 by place and shift, times"),
        (arguments(None, other=1), "shift, times, other by name"),
        (arguments([torch.ones(2)]), "argument 0 in other containers.*containers included"),
    ],
)
def test_a_call_that_the_model_was_not_exported_for_is_refused(packaged, given, text):
    model = pto.load(packaged)
    before = model.weights["calls"].clone()
    with pytest.raises(pto.Error, match=f"(?s)layer.pto: .*{text}"):
        model(*given[0], **given[1])
    assert torch.equal(model.weights["calls"], before)


def changed(path, to, **fields):
    """The same package with other fields of its header."""
    package = container.read(path)
    header = {n: v for n, v in package.header.items() if n != "kind"} | fields
    container.save(to, container.content_of("model", header, [bytes(package.payload)]))
    return to


def test_files_of_others_are_refused(packaged, tmp_path):
    other = changed(packaged, tmp_path / "other.pto", torch="1.0.0")
    with pytest.raises(pto.Error, match="(?s)packaged by PyTorch 1.0.0.*here is PyTorch 2"):
        pto.load(other)
    text = container.read(packaged).header["text"]
    for wrong in (text.replace("args.clear()", "args.__class__"), "import os", text + "\nx = 1"):
        with pytest.raises(pto.Error, match="header that save.. did not write"):
            pto.load(changed(packaged, tmp_path / "wrong.pto", text=wrong))
    for field in ("weights", "programs", "constants", "inputs", "form"):
        with pytest.raises(pto.Error):
            pto.load(changed(packaged, tmp_path / "wrong.pto", **{field: [7]}))
    form = container.read(packaged).header["form"].replace("builtins.dict", "models.Results")
    text = r"(?s)container of the class models\.Results.*import models before pto\.load"
    with pytest.raises(pto.Error, match=text):
        pto.load(changed(packaged, tmp_path / "other.pto", form=form))
    content = packaged.read_bytes()
    (tmp_path / "short.pto").write_bytes(content[: len(content) // 2])
    with pytest.raises(pto.Error, match="truncated or altered"):
        pto.load(tmp_path / "short.pto")


def test_what_cannot_be_packaged_says_why(tmp_path):
    with pytest.raises(pto.Error, match="(?s)the model is .*Linear.*torch.export.export"):
        pto.torch.package(nn.Linear(2, 2), tmp_path / "m.pto")
    exported = export(nn.Linear(4, 2), (torch.randn(4, 3).t(),))
    with pytest.raises(
        pto.Error, match=r"(?s)strides \(1, 3\).*in the order of their axes.*contig"
    ):
        pto.torch.package(exported, tmp_path / "m.pto")
    chosen = export(
        ModuleOf(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))), (torch.ones(3),)
    )
    text = r"(?s)compile_cases.py:\d+: package: cond is a CondOp.*functions.*torch.where"
    with pytest.raises(pto.Error, match=text):
        pto.torch.package(chosen, tmp_path / "m.pto")
    conjugated = (torch.eye(3) + 1j).conj()
    odd = torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr(), conjugated
    for word, weight in zip(("sparse_coo", "sparse_csr", "conjugates"), odd, strict=True):
        with pytest.raises(pto.Error, match=rf"b0 is a tensor .*{word}(.|\n)*b0\.(to_d|resolve_c)"):
            pto.torch.package(export(Sums(weight), (torch.ones(3, 3),)), tmp_path / "m.pto")
    assert not list(tmp_path.iterdir())


class Sums(nn.Module):
    def __init__(self, *buffers):
        super().__init__()
        for place, one in enumerate(buffers):
            self.register_buffer(f"b{place}", one)

    def forward(self, x):
        return x * 2, [x + one for one in self.buffers() if one.layout is torch.strided]


def test_weights_that_torch_negates_where_it_reads_them_are_those_numbers(tmp_path):
    z, x = torch.randn(3, 3, dtype=torch.complex64), torch.randn(3, 3)
    model = Sums(z.imag.t(), z.conj().imag.t())
    pto.torch.package(export(model, (x,)), tmp_path / "m.pto")
    assert_same(pto.load(tmp_path / "m.pto")(x), model(x))


def joined(x):
    return torch.cat([x, x * 2, x.sum(0, keepdim=True)])


def attended(x):
    parts = (x * 2).unflatten(-1, (2, 4)).transpose(0, 1)
    return (
        nn.functional.scaled_dot_product_attention(parts, parts, parts).transpose(0, 1).flatten(1)
    )


def turned(x):
    return torch.sort((x + 1).t(), -1)[0] * 2, (x @ x.t()).softmax(-1) @ x


def spread(x):
    return torch.ones(8).expand(x.shape[0], 8) * 1.5, x.unsqueeze(0) * x.unsqueeze(1)


MODELS = [nn.Linear(8, 8), joined, attended, turned, spread,
          nn.Sequential(nn.Unflatten(1, (2, 4)), nn.Conv1d(2, 3, 3), nn.ReLU())]  # fmt: skip


@pytest.mark.parametrize(
    "model", MODELS, ids=["linear", "joined", "attended", "turned", "spread", "conv"]
)
@pytest.mark.parametrize("least", [0, 1])
def test_a_size_of_one_or_none_is_one_among_others(model, least, tmp_path, deep):
    by_turns(MODELS, model, bool(least), deep)
    free = ({0: Dim("batch", min=least, max=64)},)
    model = ModuleOf(model).eval().requires_grad_(False)
    exported = export(model, (torch.randn(4, 8),), dynamic_shapes=free)
    pto.torch.package(exported, tmp_path / "m.pto")
    loaded = pto.load(tmp_path / "m.pto")
    for size in (5, 1, 0)[: 3 - least]:
        x = torch.randn(size, 8)
        assert_same(loaded(x), model(x), rtol=1e-4, atol=1e-5)
    if least:
        with pytest.raises(
            pto.Error, match="(?s)axis 0 .*has the size 0.*at least 1 and at most 64"
        ):
            loaded(torch.randn(0, 8))


def test_an_axis_that_a_model_squeezes_is_at_least_two(tmp_path):
    exported = export(ModuleOf(lambda x: (x * 2).squeeze() + 1), (torch.randn(4, 8),),
                      dynamic_shapes=({0: Dim("batch")},))  # fmt: skip
    pto.torch.package(exported, tmp_path / "m.pto")
    with pytest.raises(pto.Error, match="(?s)has the size 1.*takes at least 2.*squeeze no axis of"):
        pto.load(tmp_path / "m.pto")(torch.randn(1, 8))


class Sizes(nn.Module):
    """Sizes from data, and one that is an argument."""

    def forward(self, x, n: int):
        return torch.nonzero(x), x.sort()[1], x.new_full((3,), float("-inf")), x * n, None


def test_sizes_from_data_numbers_and_none_are_among_the_results(tmp_path):
    model, x = Sizes(), torch.tensor([1.0, 0, 2, 0])
    pto.torch.package(export(model, (x, 3)), tmp_path / "m.pto")
    loaded, other = pto.load(tmp_path / "m.pto"), torch.tensor([0.0, 0, 2, 5])
    assert_same(loaded(other, 3)[:4], model(other, 3)[:4])
    assert loaded(other, 3)[4] is None


class Pair(nn.Module):
    def forward(self, x, y):
        return x.repeat(2, 1) + y, (x + 1).sum(0)


def test_sizes_that_follow_from_others_are_checked(tmp_path):
    batch = Dim("batch", max=100)
    free = {"x": {0: batch}, "y": {0: 2 * batch}}
    given = (torch.randn(3, 4), torch.randn(6, 4))
    pto.torch.package(export(Pair(), given, dynamic_shapes=free), tmp_path / "m.pto")
    loaded = pto.load(tmp_path / "m.pto")
    x, y = torch.randn(5, 4), torch.randn(10, 4)
    assert_same(loaded(x, y), Pair()(x, y), rtol=1e-5, atol=1e-6)
    with pytest.raises(pto.Error, match=r"(?s)y has the sizes \[9, 4\].*make them \[10, 4\]"):
        loaded(x, y[:9])
    with pytest.raises(pto.Error, match="(?s)input x requires a gradient.*x.detach"):
        loaded(x.requires_grad_(), y)
    with torch.no_grad():
        assert_same(loaded(x, y), Pair()(x, y), rtol=1e-5, atol=1e-6)


def test_sizes_that_inputs_share_are_checked(tmp_path):
    class Sum(nn.Module):
        def forward(self, x, y):
            return x + y

    batch = Dim("batch")
    given = (torch.randn(3, 4), torch.randn(3, 4))
    exported = export(Sum(), given, dynamic_shapes={"x": {0: batch}, "y": {0: batch}})
    pto.torch.package(exported, tmp_path / "m.pto")
    with pytest.raises(pto.Error, match="(?s)axis 0 of the input y has the size 6.*for 5 here"):
        pto.load(tmp_path / "m.pto")(torch.randn(5, 4), torch.randn(6, 4))


def test_an_input_that_the_model_writes_is_written(tmp_path):
    class Adding(nn.Module):
        def forward(self, x):
            x.add_(1)
            return x * 2

    pto.torch.package(export(Adding(), (torch.ones(3),)), tmp_path / "m.pto")
    loaded = pto.load(tmp_path / "m.pto")
    for x in (torch.ones(3), torch.ones(6)[::2]):
        assert_same(loaded(x), torch.full((3,), 4.0))
        assert torch.equal(x, torch.full((3,), 2.0))


class Arranged(nn.Module):
    """Weights in other orders than that of their axes: turned, repeated, by channels."""

    def __init__(self):
        super().__init__()
        self.pictures = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        self.linear = nn.Linear(8, 8)
        self.linear.weight = nn.Parameter(torch.randn(8, 8).t())
        self.register_buffer("repeated", torch.randn(8).expand(5, 8))
        self.register_buffer("turned", torch.randn(8, 5).t())

    def forward(self, x):
        self.turned[1] = x[0, 0, 0, 0]
        y = self.linear(torch.relu(self.pictures(x)).mean((2, 3)))
        return y[:, None] * self.repeated + self.turned


def test_weights_lie_as_in_the_model(tmp_path):
    model, x = Arranged().eval().requires_grad_(False), torch.randn(2, 3, 7, 7)
    pto.torch.package(export(model, (x,)), tmp_path / "m.pto")
    loaded = pto.load(tmp_path / "m.pto")
    for given in (x, x + 1):
        assert_same(loaded(given), model(given), rtol=1e-5, atol=1e-5)
    assert torch.equal(loaded.weights["turned"], model.turned)
    assert loaded.weights["linear.weight"].stride() == model.linear.weight.stride() == (1, 8)


def test_the_options_of_the_backend_count(tmp_path):
    exported = export(nn.Linear(64, 64).requires_grad_(False), (torch.randn(8, 64),))
    x, path = torch.randn(8, 64), tmp_path / "m.pto"
    pto.torch.package(exported, path, options={"precision": "bf16"}, targets="portable,avx2")
    assert container.read(path).header["target"] == "portable,avx2"
    assert_same(pto.load(path)(x), exported.module()(x), rtol=2e-2, atol=2e-2)
    with pytest.raises(pto.Error, match="target 'sse9' is unknown"):
        pto.torch.package(exported, path, targets="sse9")
    with pytest.raises(pto.Error, match="no option 'presicion'"):
        pto.torch.package(exported, tmp_path / "m.pto", options={"presicion": "bf16"})


@pytest.mark.parametrize(
    "line",
    ["import os", "v0 = __import__('os')", "v0 = k0.__class__", "v0 = torch.load('x')", "k0 = v0",
     "v0 = open('x')", "v0 = [x for x in args]", "v0 = lambda: 0", "while True: pass",
     "v0 = (v1 := 2)", "v0 = f'{v1}'", "math.floor = k0", "v0 = k1(v0)", "global k0",
     "v0 = args[0].__dict__", "v0 = math.log.__self__", "exec('')", "yield v0", "await v0"],
)  # fmt: skip
def test_only_texts_of_graphs_become_functions(line):
    head = "def run(args):\n    v0, = args\n"
    check(f"{head}    v1 = k0(v0, [1, 2.0], int(s0 + 1)); del v0\n    return [v1]\n", {"k0": 0})
    with pytest.raises((ValueError, SyntaxError)):
        check(f"{head}    {line}\n    return [v0]\n", {"k0": 0})


class Twice(nn.Module):
    def forward(self, x):
        return (x * 2).softmax(-1)


def test_a_package_puts_on_a_sign_that_waits(tmp_path):
    pto.torch.package(export(Twice(), (torch.ones(3, 4),)), path := tmp_path / "twice.pto")
    x = torch._neg_view(torch.randn(3, 4))
    assert_same(pto.load(path)(x), Twice()(x))


class Named(NamedTuple):
    first: torch.Tensor


def test_results_are_in_containers_that_have_a_name(tmp_path):
    for function, kind in ((lambda x: {"a": x.max(-1)}, "torch.return_types.max"),
                           (lambda x: [Named(x + 1)], f"{__name__}.Named")):  # fmt: skip
        exported = export(ModuleOf(function), (torch.ones(3, 4),))
        text = f"(?s)the model returns a {kind}.*PyTorch has none.*a tuple"
        with pytest.raises(pto.Error, match=text):
            pto.torch.package(exported, tmp_path / "m.pto")
    exported = export(ModuleOf(lambda x: tuple(x.max(-1))), (x := torch.randn(3, 4),))
    pto.torch.package(exported, tmp_path / "m.pto")
    assert_same(pto.load(tmp_path / "m.pto")(x), tuple(x.max(-1)))


def test_complex_numbers_are_among_the_constants(tmp_path):
    function = lambda x: torch.view_as_complex(x) * (2j - 0.1) + complex("inf")  # noqa: E731
    pto.torch.package(export(ModuleOf(function), (x := torch.randn(4, 2),)), tmp_path / "m.pto")
    assert_same(pto.load(tmp_path / "m.pto")(x), function(x))


def test_a_loaded_model_is_pickled_and_copied_with_its_weights_as_they_are(packaged):
    model = pto.load(packaged)
    given, named = arguments()
    model(*given, **named)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert repr(other) == repr(model)
        assert torch.equal(other.weights["calls"], torch.ones(2))
        assert other.weights["tied.weight"] is other.weights["out.weight"]
        found, wanted = other(*given, **named), pto.load(packaged)(*given, **named)
        assert torch.equal(found[0]["y"], wanted[0]["y"]) and float(found[1]) == 4
    assert torch.equal(model.weights["calls"], torch.ones(2))
