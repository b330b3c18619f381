# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs: every node and value stands in them, whatever its name."""

import html
import re
import shutil

import numpy as np
import pytest

import pto
from pto.tasks.check import CheckReport

X = np.ones((3, 4), np.float32)


@pto.jit
def softmax(x):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True), pto.sort(x).indices


@pto.jit
def running(x, out):
    for i in pto.loop(x.shape[0]):
        out[i] = pto.sum(x[i])


@pytest.mark.parametrize("function, args", [(softmax, (X,)), (running, (X, X[:, 0].copy()))])
def test_a_picture_has_a_box_for_each_node_and_an_arrow_for_each_operand(function, args):
    graph = function.compiled.trace_with_form(*args)[0]
    text, lines = graph.dot(), str(graph).splitlines()
    nodes = [line for line in lines if re.match(r"  %\w", line)]
    for line in nodes:
        name, op = re.match(r"  %(\w+) = (\w+)", line).groups()
        assert re.search(f'"{name}" \\[label="{op}', text), line
        for operand in re.findall(r"%(\w+)", line.split(" = ", 1)[1].split(")")[0]):
            assert f'"{operand}" -> "{name}"' in text
    assert text.count("shape=oval") == len(graph.inputs) + len(graph.outputs)
    assert len(nodes) > 0 and '"x" [label="x: f32[s0, s1]' in text


def test_a_picture_is_drawn_where_graphviz_is(monkeypatch):
    graph = softmax.trace(X)
    if shutil.which("dot"):
        assert graph.svg().startswith("<svg") and graph.svg().count("<g id=") > 8
        assert graph._repr_html_().startswith("<svg")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pto.Error, match="dot was not found on PATH\n.*\n.*graph.dot"):
        graph.svg()
    shown = graph._repr_html_()
    assert shown.startswith("<pre>graph softmax(%x") and "-&gt;" in shown and "->" not in shown


def test_a_graph_that_nobody_could_read_is_refused():
    def many(x):
        for i in range(600):
            x = x * (i + 2.0) + pto.abs(x)
        return x

    graph = pto.jit(many).trace(X)
    with pytest.raises(ValueError, match="more than 1000 nodes"):
        graph.dot()
    assert graph._repr_html_().startswith("<pre>")


def test_reports_stand_in_cells_as_print_shows_them():
    def weighed(x):
        return pto.sum(pto.maximum(x, 0), -1)

    function = pto.jit(weighed)
    check = CheckReport("p", 2, 1, (), (), (), 0)
    checks = check, pto.health(function, X), pto.verify(function, X), function.explain(X)
    for report in (*checks, function.report(X, repeats=1)):
        shown = report._repr_html_()
        assert shown.startswith("<pre>") and html.unescape(shown)[5:-6] == str(report) != ""
        assert "<" not in shown[5:-6]
