# SPDX-License-Identifier: Apache-2.0
"""pto.verify: every stage of a call against the interpreter; passes that are broken on purpose."""

import inspect
import re

import numpy as np
import pytest
import torch

import pto
from pto import _core
from pto.errors import InvalidValue

F32 = np.float32


@pto.jit
def blocks(x, lengths, out):
    total = pto.zeros([x.shape[1]])
    for i in pto.loop(x.shape[0]):
        n = lengths[i]
        near = pto.round(x[i] * 1.3)  # rounding
        total = near - total  # order
        out[i, :n] = total[:n]  # edge
    return pto.sum(total * total), pto.cumsum(total, 0)  # tail


def line_of(comment):
    lines, first = inspect.getsourcelines(blocks.__wrapped__)
    (found,) = (i for i, line in enumerate(lines) if f"# {comment}" in line)
    return f"{__file__.rpartition('/')[2]}:{first + found}"


def arrays(rows=3):
    x = np.random.default_rng(rows).standard_normal((rows, 5), F32) * 4
    return x, np.arange(rows) + 1, np.zeros((rows, 5), F32)


@pytest.fixture
def break_pass(monkeypatch):
    """Alters the text that a pass leaves; and by _core.compile what is compiled."""
    explain, compile_graph = _core.explain, _core.compile

    def broken(stage, pattern, becomes):
        made = []

        def alter(text):
            found, count = re.subn(pattern, becomes, text)
            made.append(count)
            return found

        if stage == "compiled form":
            monkeypatch.setattr(_core, "compile", lambda graph, *given, **named: compile_graph(
                _core.Graph.parse(alter(str(graph))), *given, **named))  # fmt: skip
        else:
            monkeypatch.setattr(_core, "explain", lambda graph, dump, *given, **named: explain(
                graph, lambda s, text: dump(s, alter(text) if s == stage else text),
                *given, **named))  # fmt: skip
        return made

    return broken


def test_what_is_right_is_equal_at_every_stage_and_nothing_is_written():
    x, lengths, out = arrays()
    report = pto.verify(blocks, x, lengths, out)
    assert report.is_equal and report.deviation is None
    stages = ["graph", *(name for name, *_ in _core.passes()), "compiled form"]
    assert [stage for stage, _ in report.stages] == stages
    assert dict(report.stages)["fuse_regions"] == "bit-equal"
    assert dict(report.stages)["compiled form"] == "within bounds"
    assert "every stage computes what its graph means" in str(report)
    assert not out.any()


BROKEN = {
    "order": ("move_broadcast_late", r"sub\((%\w+), (%\w+)\)", r"sub(\2, \1)", "sub"),
    "rounding": ("simplify_algebra", r"= round\(", "= floor(", "round"),
    "edge": ("fuse_regions", r"update\((%\w+),[^)]*\)", r"maximum(\1, \1)", "update"),
    "tail": ("remove_dead_nodes", r"cumsum\(([^)]*)\)", r"cummax(\1)", "cumsum"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_first_wrong_pass_is_named_with_operation_and_line(what, break_pass):
    stage, pattern, becomes, operation = BROKEN[what]
    made = break_pass(stage, pattern, becomes)
    report = pto.verify(blocks, *arrays())
    found = report.deviation
    assert any(made) and found.stage == stage and report.stages[-1] == (stage, "deviates")
    assert found.operation == operation and found.line.endswith(line_of(what)), str(report)
    assert found.expected != found.got and not found.error
    small = _core.Graph.parse(found.program)
    assert len(found.program.splitlines()) <= 12 and small.name in found.program
    for part in (stage, found.tensor, operation, found.line, str(found.got), found.program):
        assert part.rstrip() in str(report)


def test_the_tensor_is_the_one_that_differs(break_pass):
    break_pass("fold_constants", r"cumsum\(([^)]*)\)", r"cummax(\1)")
    assert pto.verify(blocks, *arrays()).deviation.tensor == "output 1"
    break_pass("move_broadcast_late", r"update\((%\w+),[^)]*\)", r"maximum(\1, \1)")
    assert pto.verify(blocks, *arrays()).deviation.tensor == "out"


def test_a_wrong_compiled_form_is_named(break_pass):
    @pto.jit
    def scaled(x, out):
        out[:] = pto.floor(x) + pto.exp(x)  # the line

    break_pass("compiled form", r"= floor\(", "= ceil(")
    x = np.array([0.5, 1.25], F32)
    found = pto.verify(scaled, x, np.zeros(2, F32)).deviation
    assert (found.stage, found.tensor, found.operation) == ("compiled form", "out", "floor")
    assert found.expected == pytest.approx(np.exp(0.5)) and found.got == found.expected + 1
    assert "floor(%x)" in found.program and "exp" not in found.program


def test_a_compiled_form_without_values_is_shown_by_a_program_that_has_a_call(break_pass):
    """No graph without an array does, and none whose result has a size from data."""

    @pto.jit
    def scaled(x, n):
        kept = pto.zeros([x.shape[0]])
        kept[: n[0]] = pto.exp(x[: n[0]])
        return kept

    break_pass("compiled form", r"= exp\(", "= unheard_of(")
    found = pto.verify(scaled, np.ones(4, F32), np.array([2])).deviation
    assert found.stage == "compiled form" and "unheard_of" in found.error
    assert "exp(" in found.program


def test_a_pass_that_leaves_no_graph_is_named_with_its_error(break_pass):
    break_pass("fold_constants", r"= round\(", "= unheard_of(")
    found = pto.verify(blocks, *arrays()).deviation
    assert found.stage == "fold_constants" and "unheard_of" in found.error


def test_calls_of_all_kinds_are_verified():
    @pto.jit
    def scaled(x, factor=2.0, *, bias=None):
        return {"y": x * factor, "z": pto.sum(x, -1)}

    @pto.jit
    def stacked(parts, out):
        for i in pto.loop(out.shape[0]):
            out[i] = parts[0][i] + parts[1][i]

    @pto.jit
    def fixed(x: pto.Tensor[pto.STATIC], out):
        out[:] = x * x.shape[0]

    @pto.jit
    def exponential(x):
        return pto.exp(x)

    x = np.arange(24, dtype=F32).reshape(4, 6) / 7
    assert pto.verify(exponential, np.array(0.3, F32)).is_equal
    for turned in (x, x[::-1, ::2], x.T, x[:0], np.broadcast_to(x[0], (3, 6))):
        assert pto.verify(scaled, turned, 0.3).is_equal
        assert pto.verify(scaled, torch.tensor(turned.copy()).bfloat16(), factor=0.1).is_equal
    one = torch.arange(9.0)
    for shared in (one.expand(4, 9), one[:, None].expand(9, 0), one.as_strided((3, 4), (2, 1), 1)):
        assert pto.verify(scaled, shared, 0.3).is_equal  # elements that share memory
        assert scaled.report(shared, repeats=1).statements or not shared.numel()
    assert pto.verify(stacked, [x, x], np.zeros_like(x)).is_equal
    assert pto.verify(fixed, x[0], np.zeros(6, F32)).is_equal


def written_both(x, y):
    x[...] = y + 1
    y[...] = x * 2


def test_what_is_no_call_is_refused():
    with pytest.raises(pto.Error, match="a function under @pto.jit"):
        pto.verify(np.exp, np.ones(3, F32))
    with pytest.raises(TypeError, match="blocks"):
        pto.verify(blocks, np.ones((3, 3), F32))
    x, lengths, out = arrays()
    with pytest.raises(pto.Error, match="a view lies inside its tensor"):
        pto.verify(blocks, x, lengths + 9, out)
    in_place = pto.jit(written_both)
    with pytest.raises(InvalidValue, match="x and y are both written and share memory"):
        pto.verify(in_place, x, x)
    with pytest.raises(InvalidValue, match="x and y are both written and share memory"):
        pto.verify(in_place, x[:2], x[1:])
    with pytest.raises(pto.Error, match="an output has the shape .*depends on data"):
        pto.verify(pto.jit(lambda x, lengths: x[: lengths[0]]), x, lengths)
