# SPDX-License-Identifier: Apache-2.0
"""Copies in torch.compile(backend="pto"): programs where ATen is no faster; values and strides."""

import pytest
import torch
from compile_cases import assert_same, below_dynamo, kinds, run
from torch.nn import functional as F

import pto.torch


def randn(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(1))


FORMAT = torch.channels_last
COPIES = {
    "turned": lambda x: x.permute(0, 1, 3, 2).contiguous(),
    "channels last": lambda x: x.contiguous(memory_format=FORMAT),
    "heads": lambda x: x.transpose(1, 2).reshape(2, 5, -1),
    "halves": lambda x: torch.cat([x[..., 2:], x[..., :2]], -1),
    "repeated": lambda x: x.repeat(1, 2, 1, 3),
    "interleaved": lambda x: x.repeat_interleave(2, 1),
    "shuffled": lambda x: F.pixel_unshuffle(x[:, :, :4], 2),
    "every second": lambda x: x[..., ::2].clone(),
    "flipped": lambda x: x.flip(3),
    "expanded": lambda x: x[:, :1].expand(2, 7, 5, 6).contiguous(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("name", COPIES)
def test_a_graph_of_copies_alone_is_a_program(name, dtype):
    x = (randn(2, 3, 5, 6) * 50).to(dtype)
    graph = below_dynamo(COPIES[name], x)
    assert kinds(graph) == ["program"]
    assert_same(run(graph, x), COPIES[name](x))


def test_beside_other_steps_only_copies_that_turn_are_programs():
    def function(x):
        y = torch.sort(x)[0]
        return torch.sort(torch.cat([y, y]))[0], torch.sort(y.mT.contiguous())[0]

    x = randn(5, 6)
    graph = below_dynamo(function, x)
    copies = {step.node.target.overloadpacket.__name__: step.kind for step in graph.steps}
    assert copies == {"sort": "ATen", "cat": "ATen", "clone": "program"}
    assert_same(run(graph, x), function(x))


def test_aten_copies_what_has_gaps_along_its_innermost_axis():
    x = randn(4, 12)[:, ::3]
    graph = below_dynamo(torch.clone, x)
    assert [(step.kind, step.reason) for step in graph.steps] == [("ATen", "a copy alone")]
    assert_same(run(graph, x), x.clone())


@pytest.mark.parametrize("function", [lambda x: x.mean(-1), lambda x: x.exp() + 1, torch.clone])
def test_programs_read_tensors_with_gaps_in_the_order_of_memory(function):
    x = randn(3, 40, 6).unfold(1, 8, 4)
    assert x.stride() == (240, 24, 1, 6)
    graph = below_dynamo(function, x)
    (step,) = graph.steps
    assert str(step.program.graph).splitlines()[0].count("f32[3, 9, 8, 6]") >= 1
    assert_same(run(graph, x), function(x))


BEGINS = {
    "second half": lambda x, at: x[:, x.shape[1] // 2 :] * 2,
    "last": lambda x, at: x.narrow(1, x.shape[1] - 1, 1) * 2,
    "position": lambda x, at: x[:, at:] * 2,
    "halves turned": lambda x, at: torch.cat([x[:, x.shape[1] // 2 :], -x], 1),
    "perhaps cut": lambda x, at: x[:, at : at + 2].sum(1),
}


@pytest.mark.parametrize("name", BEGINS)
def test_a_slice_that_begins_at_a_size_is_part_of_a_program(name):
    torch._dynamo.reset()
    compiled = torch.compile(BEGINS[name], backend="pto", dynamic=True)
    for n, at in ((6, 2), (7, 3), (3, 0), (1, 0), (9, 5), (4, -1), (5, 7)):
        assert_same(compiled(randn(3, n), at), BEGINS[name](randn(3, n), at))
    steps = pto.torch.explain(compiled, randn(3, 9), 5).steps
    assert {step.kind for step in steps} == {"program"} or name == "perhaps cut"
