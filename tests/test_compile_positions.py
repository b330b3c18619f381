# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, below Dynamo: bits, types and strides of eager, no step of ATen."""

import pytest
import torch
from compile_cases import assert_same, below_dynamo, by_turns, kinds, run
from torch import arange, randn, tensor

from pto.adapters.torch.compile.plan import ATEN

AT = tensor([3, 0, 2, -1])
ATEN_OPS = torch.ops.aten
torch.manual_seed(0)
THREE = randn(4, 6, 5)
CASES = {
    "every second": (lambda x: (x[:, ::2] * 2, x[1::2] * 2, x[..., 1::2] * 2), THREE),
    "every third, not whole": (lambda x: (x[:, 1::4] * 2, x[::3] * 2, x[1:3:2] * 2), THREE),
    "every second of a result": (lambda x: (lambda y: (y[:, ::2] + 1, y[..., ::2] + 1))(x * 2),
                                 THREE),
    "steps beyond the end": (lambda x: (x[:, 4::9] * 2, x[:, 9::2] * 2), THREE),
    "turned round": (lambda x: (x.flip(0) * 2, x.flip(1, -1) * 2, (x > 0).flip(0) & (x > -1)),
                     THREE),
    "rolled": (lambda x: (x.roll(1, 0) * 2, x.roll((-2, 9), (1, 2)) * 2, x.roll(7) * 2), THREE),
    "repeated": (lambda x: (x.repeat(2, 1, 3) * 2, x.repeat(2, 1, 1, 2) * 2,
                            x[:, :1].repeat(1, 3, 1) * 2), THREE),
    "repeated no time": (lambda x: x.repeat(0, 1, 2) * 2, THREE),
    "a written slice": (
        lambda x, y: (torch.slice_scatter(x, y * 2, 1, 1, 4) + 1,
                      torch.slice_scatter(x, y * 2, 1, 0, 6, 2) + 1,
                      torch.slice_scatter(x, y * 2, 1, 1, 99, 2) + 1,
                      torch.slice_scatter(x, y[:, :2] * 2, 1, -5, 99, 4) + 1),
        THREE, randn(4, 3, 5),
    ),
    "a written place": (lambda x, y: torch.select_scatter(x, y * 2, 1, -2) + 1, THREE, randn(4, 5)),
    "rows": (lambda x, i: (x[i] * 2, x[:, i] * 2, x[..., i] * 2, x[i[:, None]] * 2), THREE, AT),
    "small positions": (lambda x, i: x[i] * 2, THREE, AT.int()),
    "one row": (lambda x, i: ATEN_OPS.index(x, [i]) * 2, THREE, tensor(-2)),
    "no rows": (lambda x, i: x[i] * 2, THREE, AT[:0]),
    "pairs": (lambda x, i: (x[i, i] * 2, x[i[:, None], i] * 2, x[:, i, i] * 2), THREE, AT),
    "pairs apart": (lambda x, i: (x[i, :, i] * 2, x[i[:, None], :, i] * 2), THREE, AT),
    "written rows": (lambda x, i, y: (x.index_put((i,), y * 2) + 1, x.index_put((i,), y[0, 0]) + 1),
                     THREE, AT, randn(4, 6, 5)),
    "written pairs": (lambda x, i, y: (ATEN_OPS.index_put(x, [i, None, i], y * 2) + 1,
                                       ATEN_OPS.index_put(x, [None, i, i], y[0, :4]) + 1),
                      THREE, AT, randn(4, 6)),
    "a written mask": (
        lambda x, i, n: (x.index_put((i > 0,), n) + 1, x.index_put((x > 0,), n) + 1,
                         x.index_put((x[:, :, 0] > 0,), x[0, 0]) + 1),
        THREE, AT, tensor(7.0),
    ),
    "conditions": (lambda x, i: x[i, i] & x[0, :4], THREE > 0, AT),
    "whole numbers": (lambda x, i: (x[i] + 1, x[:, ::2] + 1, x.roll(1, 1) + 1),
                      arange(24).view(4, 6), AT),
    "scattered": (lambda x, i, y: (x.scatter(1, i, y * 2) + 1, x.scatter(1, i, 3.0) + 1),
                  randn(4, 6), tensor([[3, 0], [1, 2], [5, 4]]), randn(3, 2)),
    "sizes in places of a mask": (lambda x: (x + 1).masked_fill(x > 9, x.shape[0]) * 2,
                                  arange(24).view(4, 6)),
    "bfloat16": (lambda x, i: (x[i] * 2, x[:, ::2] * 2, x.flip(0) * 2), THREE.bfloat16(), AT),
}  # fmt: skip


@pytest.mark.parametrize("symbolic", (False, True), ids=("numbers", "symbols"))
@pytest.mark.parametrize("name", CASES)
def test_moved_elements_have_the_bits_of_eager(name, symbolic, deep):
    by_turns(CASES, name, symbolic, deep)
    function, *args = CASES[name]
    graph = below_dynamo(function, *args, symbolic=symbolic)
    assert ATEN not in [step.kind for step in graph.steps], [step.reason for step in graph.steps]
    for _ in range(2):
        assert_same(run(graph, *args), function(*args), rtol=0, atol=0)


def test_other_sizes_run_the_same_program(monkeypatch):
    def function(x, i, y):
        moved = x[:, ::2].repeat(1, 2) + x.roll(1, 0).flip(0)[:, :1]
        return moved, x[i] * 2, x.index_put((i,), y) + 1, torch.slice_scatter(x, y[:2] * 2, 0, 0, 2)

    def inputs(rows, columns):
        return randn(rows, columns), torch.randperm(rows)[:3], randn(3, columns)

    compiled = torch.compile(function, backend="pto", dynamic=True)
    compiled(*inputs(4, 6))
    monkeypatch.setattr("pto._core.compile", lambda *args, **more: pytest.fail("compiles again"))
    with torch.compiler.set_stance("fail_on_recompile"):
        for sizes in ((5, 8), (9, 7), (30, 11)):
            given = inputs(*sizes)
            assert_same(compiled(*given), function(*given), rtol=0, atol=0)


@pytest.mark.parametrize(
    "function",
    (
        lambda x, i: x[i] * 2,
        lambda x, i: x[i, i] * 2,
        lambda x, i: x.index_put((i,), x[0]) * 2,
        lambda x, i: x.scatter(0, i[:, None], 2.0) * 2,
    ),
    ids=("index", "pair", "index_put", "scatter"),
)
@pytest.mark.parametrize("position", (4, 9, -5, -8))
def test_a_position_that_does_not_exist_is_an_error_that_names_it(function, position):
    x = randn(4, 4)
    graph = below_dynamo(function, x, tensor([0, 1]))
    with pytest.raises(IndexError, match=f"position {position} along axis 0, which has the size 4"):
        run(graph, x, tensor([0, position]))


def put(x, i, j):
    return (x + 1).index_put((i, j), x[0, 0])


@pytest.mark.parametrize("function", (lambda x, i, j: (x + 1)[i, j] * 2, put), ids=("at", "put"))
@pytest.mark.parametrize(("i", "j", "named"), (
    (3, 0, "position 3 along axis 0, which has the size 3"),
    (0, -6, "position -6 along axis 1, which has the size 5"),
))  # fmt: skip
def test_of_several_axes_the_error_names_the_one_that_has_no_such_position(function, i, j, named):
    x, good = randn(3, 5, 2), tensor([0, 2])
    graph = below_dynamo(function, x, good, good.clone())
    with pytest.raises(IndexError, match=named) as caught:
        run(graph, x, tensor([1, i]), tensor([1, j]))
    assert "index.clamp" in caught.value.fix


SUMS = {
    "rows": lambda x, i, v: x.index_put((i,), v, accumulate=True),
    "one row": lambda x, i, v: x.index_put((i,), v[0], accumulate=True),
    "rows by a matrix": lambda x, i, v: x.index_put((i.view(4, 5),), v.view(4, 5, 3), True),
    "columns": lambda x, i, v: x.t().index_add(1, i.abs(), v.t(), alpha=2),
    "whole numbers": lambda x, i, v: x.long().index_put((i,), v.long(), accumulate=True),
    "halves": lambda x, i, v: x.half().index_put((i,), v.half(), accumulate=True),
    "rows of an embedding": lambda x, i, v: ATEN_OPS.embedding_dense_backward(
        v, i.abs(), 7, 2, False),
    "no position": lambda x, i, v: x.index_put((i[:0],), v[:0], accumulate=True) * 2,
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_rows_are_added_at_positions_in_a_program(name):
    draw = torch.Generator().manual_seed(1)
    x, v = (torch.randn(n, 3, generator=draw) for n in (7, 20))
    i = torch.randint(-6, 7, (20,), generator=draw)
    graph = below_dynamo(SUMS[name], x, i, v)
    assert kinds(graph) == ["program"]
    assert_same(run(graph, x, i, v), SUMS[name](x, i, v))


REFUSED = {
    "a mask": (lambda x, i: x[x > 0] * 2, "a size comes from data"),
    "values for a mask": (lambda x, i: x.index_put((i > 0,), x[:3]), "how many values are written"),
    "sums at positions": (lambda x, i: x.index_put((i, i), x[0, :4], accumulate=True),
                          "ATen adds faster"),
    "scattered sums": (lambda x, i: x.scatter_add(0, i[:, None], x), "ATen adds faster"),
    "many axes": (lambda x, i: x.view(2, 2, 1, 3, 1, 1, 1, 2).repeat(2, 2, 1, 2, 1, 1, 1, 2) * 2,
                  "need more than 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_aten_runs_what_is_left_with_a_reason(name):
    function, why = REFUSED[name]
    x, i = randn(4, 6), tensor([3, 0, 2, 1])
    graph = below_dynamo(function, x, i)
    assert any(step.kind == ATEN and why in step.reason for step in graph.steps), graph.steps
    assert_same(run(graph, x, i), function(x, i))
