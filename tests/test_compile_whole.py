# SPDX-License-Identifier: Apache-2.0
"""What stays a step of ATen in torch.compile(backend="pto"): resized pictures, borders, pixels."""

import pytest
import torch
from compile_cases import assert_same, by_turns
from torch import nn
from torch.export import Dim, export
from torch.nn import functional as F

import pto
import pto.torch
from pto import container

REASON = "pixels at other places, which ATen reads faster"
RESIZES = [("linear", 1, {}), ("bilinear", 2, {}), ("bicubic", 2, {"align_corners": True}),
           ("bilinear", 2, {"antialias": True}), ("trilinear", 3, {})]  # fmt: skip
BORDERS = [("reflect", (1, 2)), ("reflect", (2, 1, 0, 3)), ("reflect", (1, 0, 2, 1, 1, 2)),
           ("replicate", (1, 2)), ("replicate", (2, 1, 0, 7)),
           ("replicate", (1, 0, 2, 1, 9, 2))]  # fmt: skip
JOINED = [(2, 1), (1, 2, 3, 0), (0, 1, 2, 0, 0, 0)]
SHUFFLES = [nn.PixelShuffle(2), nn.PixelUnshuffle(2)]


def format_of(x):
    return {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.ndim, torch.contiguous_format)


def assert_whole(function, x, dynamic):
    """The compiled function has eager's results, gradients and strides, by one step of ATen."""
    compiled = torch.compile(function, backend="pto", dynamic=dynamic)
    for layout in (torch.contiguous_format, format_of(x)):
        inputs = [x.contiguous(memory_format=layout).requires_grad_() for _ in range(2)]
        found, wanted = compiled(inputs[0]), function(inputs[1])
        assert_same(found, wanted)
        d = torch.randn_like(wanted)
        gradients = (torch.autograd.grad(y, one, d)[0]
                     for y, one in ((found, inputs[0]), (wanted, inputs[1])))  # fmt: skip
        assert_same(*gradients)
    with torch.no_grad():
        (graph,) = pto.torch.explain(compiled, x.contiguous(memory_format=layout)).graphs
    (step,) = graph.steps
    assert (step.kind, step.why) == ("ATen", REASON)
    return graph


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("mode", "axes", "options"), RESIZES)
def test_a_resized_picture_is_one_step_of_aten(mode, axes, options, dynamic, deep):
    by_turns(RESIZES, (mode, axes, options), dynamic, deep)

    def resized(x):
        return F.interpolate(x, scale_factor=2, mode=mode, **options)

    torch._dynamo.reset()
    graph = assert_whole(resized, torch.randn(2, 3, *(6, 5, 4)[:axes]), dynamic)
    assert not graph.has_our_bits and "steps of ATen sum" in str(graph)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_a_batch_of_no_pictures_is_resized(mode, dynamic):
    def resized(x):
        return F.interpolate(x, scale_factor=1.5, mode=mode) * 2

    torch._dynamo.reset()
    compiled = torch.compile(resized, backend="pto", dynamic=dynamic)
    ours, theirs = (torch.randn(0, 3, 4, 5, requires_grad=True) for _ in range(2))
    found, wanted = compiled(ours), resized(theirs)
    assert_same(found, wanted)
    found.sum().backward(), wanted.sum().backward()
    assert_same(ours.grad, theirs.grad)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("mode", "border"), BORDERS)
def test_a_border_of_a_picture_is_one_step_of_aten(mode, border, dynamic, deep):
    by_turns(BORDERS, (mode, border), dynamic, deep)

    def bordered(x):
        return F.pad(x, border, mode=mode)

    torch._dynamo.reset()
    assert_whole(bordered, torch.randn(2, 3, *(6, 5, 4)[: len(border) // 2]), dynamic)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_what_stands_behind_the_end_of_a_row_of_classes_is_no_class(reduction):
    def loss(x):
        return F.multilabel_margin_loss(x, classes, reduction=reduction).sum() * 2

    torch._dynamo.reset()
    classes = torch.tensor([[3, 1, -1, 2], [-1, 2, 3, 0], [2, -1, -1, -1], [3, 2, 1, 0]])
    inputs = [torch.eye(4).requires_grad_() for _ in range(2)]
    found, wanted = torch.compile(loss, backend="pto")(inputs[0]), loss(inputs[1])
    assert_same(found, wanted)
    assert_same(torch.autograd.grad(found, inputs[0]), torch.autograd.grad(wanted, inputs[1]))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("border", JOINED)
def test_a_border_of_the_opposite_edges_is_joined_in_a_program(border, dynamic, deep):
    by_turns(JOINED, border, dynamic, deep)

    def bordered(x):
        return F.pad(x, border, mode="circular") * 2

    torch._dynamo.reset()
    compiled = torch.compile(bordered, backend="pto", dynamic=dynamic)
    x = torch.randn(2, 3, *(6, 5, 4)[: len(border) // 2])
    for layout in (torch.contiguous_format, format_of(x)):
        x = x.contiguous(memory_format=layout)
        ours, theirs = (x.detach().requires_grad_() for _ in range(2))
        found, wanted = compiled(ours), bordered(theirs)
        assert_same(found, wanted)
        found.sum().backward(), wanted.sum().backward()
        assert_same(ours.grad, theirs.grad)
    with torch.no_grad():
        assert [step.kind for step in pto.torch.explain(compiled, x).steps] == ["program"]


@pytest.mark.parametrize("border", [(-1, 2), (0, -1, 1, 0)])
def test_a_border_that_cuts_elements_off_is_pytorchs(border):
    torch._dynamo.reset()
    x = torch.randn(2, 3, *(6, 5)[: len(border) // 2])
    compiled = torch.compile(lambda x: F.pad(x, border, mode="circular"), backend="pto")
    assert_same(compiled(x), F.pad(x, border, mode="circular"))


def test_patches_are_added_by_aten():
    patches = torch.randn(2, 12, 20, generator=torch.Generator().manual_seed(1))

    def added(x):
        return F.fold(x, (5, 6), 2)

    assert_same(torch.compile(added, backend="pto")(patches), added(patches))
    (graph,) = pto.torch.explain(torch.compile(added, backend="pto"), patches).graphs
    assert [(step.kind, step.why) for step in graph.steps] == [("ATen", REASON)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shuffled", SHUFFLES)
def test_pixels_whose_channels_lie_innermost_are_shuffled_by_aten_that_keeps_bits(
    shuffled, dynamic
):
    torch._dynamo.reset()
    assert assert_whole(shuffled, torch.randn(2, 8, 6, 4), dynamic).has_our_bits


@pytest.mark.parametrize("shuffled", SHUFFLES)
def test_pixels_in_planes_are_shuffled_by_a_program(shuffled):
    torch._dynamo.reset()
    (step,) = pto.torch.explain(lambda x: shuffled(x) * 1.5, torch.randn(2, 8, 6, 4)).steps
    assert step.kind == "program"


def test_shuffled_channels_stay_innermost_as_in_eager_mode():
    x = torch.randn(2, 8, 6, 4).contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(nn.ChannelShuffle(4), backend="pto")
    assert_same(compiled(x), F.channel_shuffle(x, 4))
    (step,) = pto.torch.explain(compiled, x).steps
    assert (step.kind, step.operations, step.why) == ("ATen", ("channel_shuffle",), REASON)


def test_sizes_that_vary_compile_a_resize_once():
    compiled = torch.compile(
        lambda x: F.interpolate(x, size=[n + 3 for n in x.shape[2:]], mode="bilinear"),
        backend="pto", dynamic=True,
    )  # fmt: skip
    compiled(torch.randn(2, 3, 5, 6))
    with torch.compiler.set_stance("fail_on_recompile"):
        x = torch.randn(4, 3, 9, 7)
        assert_same(compiled(x), F.interpolate(x, size=(12, 10), mode="bilinear"))


def test_a_packaged_model_resizes_in_aten_and_shuffles_in_a_program(tmp_path):
    model = nn.Sequential(nn.Upsample(scale_factor=2, mode="bicubic"), nn.PixelUnshuffle(2)).eval()
    free = ({0: Dim("batch")},)
    exported = export(model, (torch.randn(2, 3, 4, 4),), dynamic_shapes=free)
    pto.torch.package(exported, tmp_path / "m.pto")
    loaded, x = pto.load(tmp_path / "m.pto"), torch.randn(5, 3, 4, 4)
    (shuffle,) = container.read(tmp_path / "m.pto").header["programs"]
    assert shuffle["name"] == "graph_clone"
    assert_same(loaded(x), model(x))


def test_pytorch_has_its_own_kernels_back():
    kernels = dict(torch.ops.aten.upsample_bilinear2d.vec.py_kernels)
    torch._dynamo.reset()
    torch.compile(nn.Upsample(scale_factor=2, mode="bilinear"), backend="pto")(
        torch.ones(1, 1, 2, 2)
    )
    assert torch.ops.aten.upsample_bilinear2d.vec.py_kernels == kernels
