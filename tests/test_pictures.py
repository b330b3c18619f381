# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs, and what stands in the cells of notebooks: nothing is left out, whatever its
name. ./dev test --site installs Graphviz; elsewhere the drawing alone is skipped."""

import dataclasses
import html
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import pto
from pto.graphviz import Drawn, digraph, quoted
from pto.language.program_page import trace_of
from pto.language.roofline_plot import Point, Rates, Roofline
from pto.language.tune import Trial, Tuned
from pto.language.verify import Deviation, Report
from pto.tasks.check import CheckReport
from pto.tasks.report import KernelTime, TraceReport

X = np.ones((3, 4), np.float32)
HOSTILE = '<script>x</script>"\\N" -> \u2028]; b -> c'
needs_dot = pytest.mark.skipif(not shutil.which("dot"), reason="./dev test --site has Graphviz")


@pto.jit
def softmax(x):
    """Rows that sum to 1."""
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True), pto.sort(x).indices


@pto.jit
def running(x, start, out):
    for i in pto.loop(x.shape[0]):
        s = pto.sum(x[i])
        for j in pto.loop(2):
            s = s + pto.exp(x[i, j])
        if s > 3:
            out[i] = s
        else:
            out[i] = s * 2
    k = start
    while pto.sum(k) < 5:
        k = k + 1
    out[0] = pto.sum(k)


CALLS = [(softmax, (X,)), (running, (X, X[0].copy(), X[:, 0].copy()))]


def cells_of(shown):
    """The texts of the cells of a table in HTML."""
    return [html.unescape(text) for text in re.findall(r"<t[dh]>(.*?)</t[dh]>", shown)]


def check_nodes(graph, dot, inside, arrows):
    """Finds each node of a graph and of its bodies in a picture, by the text of each."""
    lines = str(graph).splitlines()
    names = [name for name, *_ in graph.inputs]
    assert all(f'"{inside}{name}" [label="{name}: ' in dot for name in names)
    places = []
    for line in lines:
        if found := re.match(r"  %(\w+) = (\w+)(?:\((.*?)\))?", line):
            name, op, operands = found.groups()
            places.append(name)
            assert f'"{inside}{name}" [label="{op}' in dot, line
            for operand in re.findall(r"%(\w+)", operands or ""):
                arrows.append(f'"{inside}{operand}" -> "{inside}{name}"')
    nodes = [one for one in pto._core.nodes_of(graph) if one["form"] != "parameter"]
    for name, node in zip(places, nodes, strict=True):
        for number, body in enumerate(node["bodies"]):
            frame = f"{inside}{name}.{number}/"
            statements = dot.partition(f'subgraph "cluster {frame}" {{')[2]
            assert statements.split("\n")[1].strip() == f'label="{body.name}"'
            arrows += [f'"{inside}{name}" -> "{frame}{one[0]}" [style=dashed]'
                       for one in body.inputs]  # fmt: skip
            check_nodes(body, dot, frame, arrows)
    returned = [line for line in lines if line.startswith("  return")][0]
    for place, name in enumerate(re.findall(r"%(\w+)", returned)):
        arrows.append(f'"{inside}{name}" -> "{inside}out {place}"')


@pytest.mark.parametrize("function, args", CALLS, ids=["softmax", "running"])
def test_a_picture_has_a_box_for_each_node_and_an_arrow_for_each_operand(function, args):
    graph = function.compiled.trace_with_form(*args)[0]
    dot, arrows = graph.dot(), []
    check_nodes(graph, dot, "", arrows)
    drawn = [line.strip() for line in dot.splitlines() if " -> " in line]
    assert sorted(drawn) == sorted(arrows) and len(arrows) > 8
    assert '"x" [label="x: f32[s0, s1]' in dot


def test_bodies_are_frames_within_each_other():
    dot = running.trace(*CALLS[1][1]).dot()
    depths, depth = {}, 0
    for line in map(str.strip, dot.splitlines()):
        if line.startswith("subgraph"):
            depth += 1
        if found := re.match(r'label="(\w+)"$', line):
            depths.setdefault(found[1], []).append(depth)
        depth -= line == "}"
    assert depths == {"loop": [1, 2], "then": [2], "otherwise": [2], "condition": [1], "step": [1]}
    # a node that a frame's statement names would lie in the frame
    for frame in re.findall(r'subgraph "cluster (\S*?)" ', dot):
        inner, open_frames = dot.partition(f'"cluster {frame}" {{')[2], 1
        for line in inner.splitlines():
            open_frames += line.strip().startswith("subgraph") - (line.strip() == "}")
            if not open_frames:
                break
            named = re.findall(r'"([^"]*)"', re.sub(r"label=.*", "", line))
            assert all(name.startswith((frame, f"cluster {frame}")) for name in named), line


@needs_dot
@pytest.mark.parametrize("function, args", CALLS, ids=["softmax", "running"])
def test_graphviz_draws_each_box_and_each_frame(function, args):
    graph = function.trace(*args)
    root = ElementTree.fromstring(graph.svg())
    kinds = [one.get("class") for one in root.iter("{http://www.w3.org/2000/svg}g")]
    dot = graph.dot()
    boxes = len(re.findall(r'^\s*"[^"]*" \[label=', dot, re.MULTILINE))
    assert kinds.count("node") == boxes
    assert kinds.count("cluster") == dot.count("subgraph")
    assert kinds.count("edge") == dot.count(" -> ")
    assert graph._repr_html_().startswith("<svg")


@needs_dot
def test_hostile_names_are_text_in_a_picture():
    class Hostile(Drawn):
        def dot(self):
            return digraph([f"{quoted(HOSTILE + chr(0xD800))} [label={quoted(HOSTILE)}]"])

    root = ElementTree.fromstring(Hostile().svg())
    texts = "".join(one.text for one in root.iter("{http://www.w3.org/2000/svg}text"))
    assert texts == HOSTILE
    assert not [*root.iter("{http://www.w3.org/2000/svg}script")]


def test_a_machine_without_graphviz_shows_the_text_and_says_what_to_install(monkeypatch):
    graph = softmax.trace(X)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pto.Error, match="dot was not found on PATH\n.*\n.*graph.dot"):
        graph.svg()
    shown = graph._repr_html_()
    assert shown.startswith("<pre>graph softmax(%x") and "-&gt;" in shown and "->" not in shown
    assert "apt install graphviz" in shown


def test_a_drawing_that_fails_or_takes_too_long_is_an_error(monkeypatch, tmp_path):
    program = tmp_path / "dot"
    for text, match in (("echo no >&2; exit 3", "refused the graph\n.*no"),
                        ("exec /bin/sleep 20", "took more than 0.2 s")):  # fmt: skip
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr("pto.graphviz.SECONDS", 0.2)
        with pytest.raises(pto.Error, match=match):
            softmax.trace(X).svg()
        assert softmax.trace(X)._repr_html_().startswith("<pre>graph softmax(%x")


def test_a_graph_that_nobody_could_read_is_refused():
    def many(x):
        for i in range(600):
            x = x * (i + 2.0) + pto.abs(x)
        return x

    graph = pto.jit(many).trace(X)
    with pytest.raises(ValueError, match="more than 1000 nodes"):
        graph.dot()
    assert graph._repr_html_().startswith("<pre>")


def weighed(x):
    return pto.sum(pto.maximum(x, 0), -1)


def test_reports_without_rows_stand_in_cells_as_print_shows_them():
    function = pto.jit(weighed)
    check = CheckReport("p", 2, 1, (), (), (), 0)
    for report in (check, function.explain(X)):
        shown = report._repr_html_()
        assert shown.startswith("<pre>") and html.unescape(shown)[5:-6] == str(report) != ""
        assert "<" not in shown[5:-6]


def reports():
    """A report of each kind, and texts that stand in cells of its table."""
    function = pto.jit(weighed)
    found = function.report(X, repeats=1)
    yield found, ["statement", found.statements[0].step.title, f"{found.statements[0].share:.1%}"]
    deviation = Deviation("fuse", "output 0", (1,), 1, 2, HOSTILE, "", "graph")
    yield pto.verify(function, X), ["fuse_regions", "bit-equal", "compiled form"]
    yield Report(HOSTILE, (("fuse", HOSTILE),), deviation), ["fuse", HOSTILE]
    trials = (Trial({"order": "depth"}, 2e-6, 1e-6), Trial({"merge": 2}, 0, 0, HOSTILE))
    yield (Tuned(HOSTILE, {"merge": 4}, 1e-6, 3e-6, trials, 2.0, "here.json", "cpu"),
           ["order='depth'", "2.0 us", "0.50", "merge=2", HOSTILE])  # fmt: skip

    @pto.jit
    def in_order(x, out):
        for i in pto.loop(1, x.shape[0]):
            out[i] = out[i - 1] + x[i]

    yield pto.health(in_order, X, X.copy()), ["loop in order"]
    for level in (0, 1):
        yield (TraceReport(HOSTILE, level, 2, 1.0, 0.5, None, (), 0, 0, 0, 0,
                           (KernelTime(HOSTILE, 4, 1.0, 0.5),), 0, False, None, "", ()),
               [HOSTILE, "4", *(["250 ms"] if level else [])])  # fmt: skip


def test_rows_of_reports_are_tables_and_hostile_names_are_text():
    for report, texts in reports():
        shown = report._repr_html_()
        cells = cells_of(shown)
        assert all(text in cells for text in texts), (type(report), cells)
        assert "<script" not in shown
        first = str(report).splitlines()[0]
        assert html.escape(first) in shown


def test_a_search_prints_what_it_found():
    found = Tuned("f", {"merge": 4}, 1e-6, 3e-6, (), 2.0, "here.json", "cpu")
    want = "f: merge=4, 1.0 us, 3.00 x the default of 3.0 us\n  in 2.0 s, kept in here.json for cpu"
    assert repr(found) == str(found) == want


def test_a_notebook_in_a_terminal_shows_the_text():
    class Printer:
        def text(self, text):
            self.printed = text

    printer, report = Printer(), CheckReport("p", 2, 1, (), (), (), 0)
    report._repr_pretty_(printer, False)
    assert printer.printed == str(report)


def test_a_jitted_function_shows_its_signature_and_what_it_was_compiled_for():
    @pto.jit
    def scaled(x, factor=2.0, times=2, *, mode="<a>"):
        """Scales <x>."""
        for _ in range(times):
            x = x * factor
        return x

    assert "not compiled" in scaled._repr_html_()
    for args in ((X,), (X, 3.0), (X, 2.0, 3), (X.astype("f8")[:1],)):
        scaled(*args)
    shown = scaled._repr_html_()
    head = "def scaled(x, factor=2.0, times=2, *, mode='<a>')\n    Scales <x>.\n"
    assert html.unescape(shown).startswith(f"<pre>@pto.jit\n{head}")
    assert "<a>" not in shown and "<x>" not in shown
    assert cells_of(shown) == [
        "arguments", "result",
        "x: f32[s0, s1], factor: f32[], times=2, mode='<a>'", "f32[s0, s1]",
        "x: f32[s0, s1], factor: f32[], times=3, mode='<a>'", "f32[s0, s1]",
        "x: f64[1, s0], factor: f64[], times=2, mode='<a>'", "f64[1, s0]",
    ]  # fmt: skip


def test_a_constant_whose_text_is_a_users_code_is_left_out():
    @dataclasses.dataclass(frozen=True)
    class Hostile:
        factor: float

        def __repr__(self):
            raise RuntimeError("no text")

    @pto.jit
    def scaled(x, by, sizes=(1, (2, "b"))):
        return x * by.factor

    assert (scaled(X, Hostile(3.0)) == 3).all()
    assert cells_of(scaled._repr_html_())[2] == "x: f32[s0, s1], sizes=(1, (2, 'b'))"


def test_programs_and_functions_of_static_sizes_show_each_of_their_forms():
    @pto.jit
    def added(parts, out):
        for i in pto.loop(out.shape[0]):
            out[i] = parts[0][i] + parts[-1][i]

    @pto.jit
    def doubled(x: pto.Tensor[pto.DYN, pto.STATIC]):
        return x * 2

    added([X[0], X[1]], X[0].copy())
    added([X[0]] * 3, X[0].copy())
    assert len(cells_of(added._repr_html_())) == 6
    doubled(X)
    doubled(X[:, :2])
    assert cells_of(doubled._repr_html_())[2:] == ["x: f32[s0, 4]", "f32[s0, 4]",
                                                   "x: f32[s0, 2]", "f32[s0, 2]"]  # fmt: skip


def test_an_operator_shows_its_schema_and_its_frameworks():
    shown = pto.ops.gelu._repr_html_()
    assert html.escape(pto.ops.gelu.schema) in shown and "no gradient" not in shown
    cells = cells_of(shown)
    assert "torch.ops.pto.gelu" in cells and "pto.jax.gelu" in cells
    assert "refused" not in shown
    shown = pto.ops.nonzero._repr_html_()
    assert "no gradient" in shown and shown.count("refused: the size") == 2


def test_a_roofline_is_drawn_with_a_numbered_point_for_each_known_statement():
    @pto.jit
    def layer(x, w):
        return pto.exp(x @ w)

    x = np.ones((64, 64), np.float32)
    report = layer.report(x, x, repeats=1)
    plot = report.roofline()
    known = [one for one in report.statements if one.bytes and one.operations]
    assert [one.title for one in plot.points] == [one.step.title for one in known] != []
    for point, one in zip(plot.points, known, strict=True):
        assert point.intensity == one.operations / one.bytes
        assert point.rate * one.total_s == pytest.approx(one.operations * one.calls)
    page = trace_of(report._recorded, report)["otherData"]["program"]
    assert dataclasses.asdict(plot.rates) == page["rates"]
    root = ElementTree.fromstring(plot.svg())
    assert len([*root.iter("{http://www.w3.org/2000/svg}circle")]) == len(known)
    assert plot.svg() in plot._repr_html_() and known[0].step.title in cells_of(plot._repr_html_())
    assert str(plot).splitlines()[0].startswith("layer: at most ")


def test_points_and_ceilings_of_a_roofline_lie_where_their_numbers_say():
    points = (Point(HOSTILE, 1.0, 1e9, 0.1, ("a.py:1",)), Point("b", 100.0, 1e9, None, ()),
              Point("c", 1.0, 1e10, 1.0, ()))  # fmt: skip
    plot = Roofline(HOSTILE, points, Rates(1e12, 1e10, 1e11))
    root = ElementTree.fromstring(plot.svg())
    circles = [*root.iter("{http://www.w3.org/2000/svg}circle")]
    (ax, ay), (bx, by), (cx, cy) = ((float(c.get("cx")), float(c.get("cy"))) for c in circles)
    assert ay == by and ax == cx and bx > ax and cy < ay
    lines = [one for one in root.iter("{http://www.w3.org/2000/svg}polyline")
             if one.get("stroke") == "#404040"]  # fmt: skip
    far, near = ([tuple(map(float, corner.split(","))) for corner in one.get("points").split()]
                 for one in lines)  # fmt: skip
    assert far[1][0] == pytest.approx(bx, abs=0.2)  # the ridge: 1e12 / 1e10 operations a byte
    slope = (far[0][1] - far[1][1]) / (far[1][0] - far[0][0])
    assert slope == pytest.approx((ay - cy) / ((bx - ax) / 2), rel=0.01)  # both axes: a decade
    assert near[1][0] == pytest.approx((ax + bx) / 2, abs=0.2)
    assert near[1][1] == near[2][1] == far[2][1]
    assert all(0 <= x <= 640 and 0 <= y <= 400 for x, y in (*far, *near))
    assert HOSTILE.replace("\u2028", "") in root.find("{*}title").text.replace("\u2028", "")
    assert Roofline("none", (), Rates(float("inf"), 1e10, 1e11)).svg().startswith("<svg")


def test_the_page_of_tiles_draws_each_layout():
    page = (Path(__file__).parent.parent / "docs/cpp/1_tiles.md").read_text()
    drawn = set()
    for tile in re.findall(r'^(?:\w+ = )?pto.tile_layout\("(.*)"\)$', page, re.MULTILINE):
        layout = pto.tile_layout(tile)
        (rows, columns), at = layout.box, layout.offsets
        outer = "Z" if at[0, columns] < at[rows, 0] else "N"
        inner = "" if layout.box == (1, 1) else "z" if at[0, 1] < at[1, 0] else "n"
        drawn.add(outer + inner)
    assert drawn == {"Z", "N", "Zz", "Zn", "Nz", "Nn"}
