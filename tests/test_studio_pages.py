# SPDX-License-Identifier: Apache-2.0
"""The studio's pages in a browser: ./dev test --site. Elsewhere they are skipped."""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from studio_browser import (
    SHAPES_MAX,
    about,
    all_of,
    open_page,
    selected_lines,
    selenium,
    start,
    until,
)
from test_studio import HOSTILE, arrow, slice_of, trace
from test_studio_memory import allocated, freed

import pto
from pto import pages, studio_command

POINTS, DRAWN = (f"Bokeh.documents[0].get_model_by_name('{name}')" for name in ("points", "drawn"))

browser = pytest.fixture(scope="module")(start)


def test_at_any_zoom_few_shapes_are_drawn(browser, tmp_path):
    rng = np.random.default_rng(0)
    events = []
    for lane in range(8):
        ends = np.cumsum(rng.exponential(3, 2 * 12500))
        events += [slice_of(lane, float(a), float(b), f"kernel {k}") for a, b, k in
                   zip(ends[::2], ends[1::2], rng.integers(0, 5, 12500), strict=True)]  # fmt: skip
    pages.html(trace(events), tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    end = max(one["ts"] + one["dur"] for one in events)
    for share in (1, 0.3, 0.1, 0.01, 1e-3, 1e-4):
        begin = end / 3
        browser.execute_script(f"studio.zoom({begin}, {begin + share * end})")
        seen = sum(begin <= one["ts"] + one["dur"] and one["ts"] <= begin + share * end
                   for one in events)  # fmt: skip
        time.sleep(0.2)
        boxes, shapes = until(browser, "[studio.boxes(), studio.shapes()]")
        assert shapes <= SHAPES_MAX
        assert boxes >= min(seen, 100), (share, seen, boxes)
        if seen < 300:
            assert boxes == seen


@pto.jit
def attend(q, keys, table, lengths, out):
    for i in pto.loop(q.shape[0]):
        d, o = pto.zeros([q.shape[1], 1]), pto.zeros(q.shape[1:])
        for j in pto.loop((lengths[i] + 15) // 16):
            k = keys[table[i, j], : pto.min(16, lengths[i] - j * 16)]
            p = pto.exp(pto.matmul(q[i], k, b_trans=True) * 0.01)
            d, o = d + p.sum(-1, keepdim=True), o + pto.matmul(p, k)
        out[i] = o / d


def test_clicks_lead_from_a_slice_of_a_program_to_python_and_cpp(browser, tmp_path):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((8, 4, 32), np.float32)
    keys = rng.standard_normal((20, 16, 32), np.float32)
    table = rng.integers(0, 20, (8, 20))
    lengths, out = rng.integers(1, 300, 8), np.zeros_like(q)
    report = attend.report(q, keys, table, lengths, out, repeats=1)
    report.html(tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    kernel = next(one for one in report.statements if one.step.kind == "kernel")
    item = next(one for one in all_of(browser, "#statements li") if kernel.step.title in one.text)
    item.click()
    found = about(browser)
    assert found["statement"] == [kernel.step.title] and found["calls"] == [str(kernel.calls)]
    assert found["line"] == list(kernel.step.lines)
    lines = selected_lines(browser)
    source = Path(__file__).read_text().splitlines()
    for line in kernel.step.lines:
        assert any(source[int(line.rpartition(":")[2]) - 1].strip() in one for one in lines)
    assert any(f"int32_t {kernel.step.name}(" in one for one in lines)
    points = browser.execute_script(
        "return Bokeh.documents[0].get_model_by_name('points').data.label"
    )
    assert kernel.step.title in list(points)


def data_of(browser):
    return json.loads(until(browser, "document.getElementById('data').textContent"))


def selected_points(browser):
    return until(browser, f"Array.from({POINTS}.selected.indices)")


def test_more_lanes_than_rows_are_joined_and_none_is_lost(browser, tmp_path):
    lanes, each = 3500, 6
    events = [slice_of(lane, 10 * at + lane % 7, 10 * at + 5 + lane % 7, "kernel", task=lane)
              for lane in range(lanes) for at in range(each)]  # fmt: skip
    pages.html(trace(events), tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    assert until(browser, "studio.seen()") == lanes * each
    assert until(browser, "studio.shapes()") <= SHAPES_MAX
    label = until(browser, f"{DRAWN}.data.label[0]")
    assert re.fullmatch(r"\d+ slices of \d\d lanes: kernel", label)
    browser.execute_script("studio.zoom(0, 39)")  # tasks are longer than a cell
    time.sleep(0.2)
    assert until(browser, "studio.shapes()") <= SHAPES_MAX
    assert until(browser, "studio.seen()") == sum(
        10 * at + lane % 7 <= 39 for lane in range(lanes) for at in range(each))  # fmt: skip
    browser.execute_script("studio.zoom(0, 4.5)")
    time.sleep(0.2)
    begun = sum(lane % 7 <= 4.5 for lane in range(lanes))
    assert until(browser, "studio.seen()") == begun
    browser.execute_script("Bokeh.documents[0].get_model_by_name('rows').setv({start: 70, end: 0})")
    time.sleep(0.2)
    assert until(browser, "studio.boxes()") == sum(lane % 7 <= 4.5 for lane in range(70))


def test_points_and_entries_are_few_too(browser, tmp_path):
    statements = [{"title": f"k{at}", "calls": 1, "total_s": 1e-5, "bytes": 1000, "operations": at}
                  for at in range(6000)]  # fmt: skip
    events = [slice_of(0, 10 * at, 10 * at + 5, f"k{at}", lines=[f"a.py:{at}"])
              for at in range(6000)]  # fmt: skip
    pages.html(trace(events, program={"statements": statements}), tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    points = until(browser, f"{POINTS}.data.x.length")
    items = len(all_of(browser, "li"))
    shapes, boxes = until(browser, "[studio.shapes(), studio.boxes()]")
    assert 100 <= points <= 300 and 100 <= items <= 600
    assert shapes == boxes + points + items <= SHAPES_MAX
    assert "5900 more are left out" in browser.page_source


def test_a_click_on_a_box_of_several_tasks_selects_all_of_them(browser, tmp_path):
    events = [slice_of(0, at, at + 0.9, f"k{at % 2}", lines=["a.py:1"], task=at)
              for at in range(9000)]  # fmt: skip
    program = {"sources": {"a.py": "both\n"}}
    pages.html(trace(events, program=program), tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    browser.execute_script("studio.tapped([3])")
    label = until(browser, f"{DRAWN}.data.label[3]")
    found = about(browser)
    assert label.startswith(f"{found['tasks'][0]} slices: several statements")
    assert sorted(found["statement"]) == ["k0", "k1"]
    all_of(browser, "#about [data-slice]")[1].click()
    assert len(about(browser)["task"]) == 1
    all_of(browser, ".line[data-kinds]")[0].click()  # a line of two statements
    assert sorted(about(browser)["statement"]) == ["k0", "k1"]


def test_plots_and_statements_select_each_other(browser, tmp_path):
    statements = [{"title": f"k{at}", "lines": [f"a.py:{at + 1}"], "calls": 1, "total_s": 1e-5,
                   "bytes": 1000, "operations": 1000 * at, "taken_bytes": 100 * at}
                  for at in range(3)]  # fmt: skip
    events = [slice_of(at % 2, 10 * at, 10 * at + 5, f"k{at}", lines=[f"a.py:{at + 1}"], task=at)
              for at in range(3)]  # fmt: skip
    program = {"statements": statements, "sources": {"b.py": "", "a.py": "zero\none\ntwo\n"},
               "cpp": [["A", ""], ["B", 'fail("a.py:2")']]}  # fmt: skip
    pages.html(trace(events + arrow(1, events[0], events[2]), program=program),
               tmp_path / "page.html")  # fmt: skip
    open_page(browser, tmp_path / "page.html")
    labels = list(until(browser, f"{POINTS}.data.label"))
    assert sorted(labels) == ["k1", "k2"]  # k0 computes nothing
    assert "k0" in all_of(browser, "#moved-bytes li")[0].text
    item = next(one for one in all_of(browser, "#statements li") if "k1" in one.text)
    item.click()
    assert selected_points(browser) == [labels.index("k1")]
    panes = all_of(browser, ".pane.cpp")
    assert panes[1].get_attribute("open")  # it was closed, and has the line
    assert any("fail" in line for line in selected_lines(browser))
    mark = "Bokeh.documents[0].get_model_by_name('mark')"
    assert until(browser, f"[{mark}.left, {mark}.right]") == [10, 15]
    browser.execute_script("studio.chosen([arguments[0]])", labels.index("k2"))
    assert about(browser)["statement"] == ["k2"]
    assert any("two" in line for line in selected_lines(browser))
    browser.execute_script("studio.at(12, false)")  # of the workers
    assert about(browser)["task"] == ["1"] and selected_points(browser) == [labels.index("k1")]
    browser.execute_script("studio.at(22, true)")  # of the memory: until the end of the run
    assert sorted(about(browser)["statement"]) == ["k1", "k2"]
    for item in all_of(browser, "#lanes li"):
        item.click()
        assert about(browser)["lane"][0] in item.text
    browser.execute_script("studio.zoom(0, 30)")
    time.sleep(0.2)
    critical = until(browser, f"Array.from({DRAWN}.data.critical)")
    assert critical == [1, 1, 0]  # k0 and k2 of the first lane


def memory_drawn(browser, begin, end):
    browser.execute_script(f"studio.zoom({begin}, {end})")
    time.sleep(0.2)
    held = "Bokeh.documents[0].get_model_by_name('held').data"
    return until(browser, f"[Array.from({held}.time), Array.from({held}.bytes)]")


def test_memory_of_many_tasks_is_few_shapes_and_selects_its_tasks(browser, tmp_path):
    count, lanes, took = 100_000, 8, 2
    events = [slice_of(at % lanes, at, at + took, f"k{at % 5}", lines=[f"a.py:{at % 5 + 1}"],
                       task=at + 1) for at in range(count)]  # fmt: skip
    program = {"sources": {"a.py": "zero\none\ntwo\nthree\nfour\n"}}
    records = []
    for at in range(count):  # each task has 100 bytes, which two later ones read
        records += [allocated(at + 1, at, 100, at + 1), freed(at + 1, at + 2.5)]
    made = trace(events + records, program=program)
    pages.html(made, tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    for share in (1, 0.1, 1e-3, 1e-4):
        browser.execute_script(f"studio.zoom({count / 3}, {count * (1 / 3 + share)})")
        time.sleep(0.2)
        shapes, boxes = until(browser, "[studio.shapes(), studio.boxes()]")
        assert boxes < shapes <= SHAPES_MAX
    for begin, end in ((0, count + 2), (count / 3, count * 2 / 3)):  # many changes a step
        _, steps = memory_drawn(browser, begin, end)
        assert 300 <= len(steps) <= 401 and max(steps) == 300 == min(steps[1:-1])
    assert memory_drawn(browser, count - 0.2, count + 2)[1] == [200, 100, 0, 0]
    times, steps = memory_drawn(browser, 50000.2, 50001.2)  # exact: two starts, two ends
    assert times == [50000, 50000.5, 50001, 50001.5] and steps == [300, 200, 300, 200]
    browser.execute_script("studio.at(50000.25, true)")
    found = about(browser)
    assert found["tasks"] == ["3"] and found["bytes taken"] == ["300"]
    links = all_of(browser, "#about [data-slice]")
    assert sorted(one.text for one in links) == ["49999", "50000", "50001"]
    assert sorted(found["line"]) == ["a.py:1", "a.py:4", "a.py:5"]
    assert len(selected_lines(browser)) == 3
    next(one for one in links if one.text == "50001").click()
    found = about(browser)
    assert found["task"] == ["50001"] and found["bytes taken"] == ["100"]
    browser.execute_script("studio.at(-5, true)")  # nothing is held: the selection stays
    assert about(browser)["task"] == ["50001"]


def test_the_mouse_selects_in_every_plot_over_time(browser, tmp_path):
    program = {"statements": [{"title": "k", "taken_bytes": 8}]}
    pages.html(trace([slice_of(0, 0, 10, "k")], program=program), tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    for name in ("timeline", "workers", "memory"):
        plot = all_of(browser, f"#{name}")[0]
        for at in (0.5, 0.6, 0.7):
            offset = int((at - 0.5) * plot.size["height"])
            actions = selenium.ActionChains(browser)
            actions.move_to_element_with_offset(plot, 40, offset).click().perform()
            time.sleep(0.1)
            if about(browser):
                break
        assert about(browser)["task"] == ["0"], name
        open_page(browser, tmp_path / "page.html")


def test_the_path_of_a_program_is_marked_and_its_blocks_have_arrows(browser, tmp_path):
    x = np.random.default_rng(0).random((256, 512), np.float32)
    multiplied.report(x, x.T.copy(), repeats=1).html(tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    data = data_of(browser)
    assert len(data["critical"]) >= 2 and len(data["edges"]) >= 2
    all_of(browser, "#critical-path li")[1].click()
    assert about(browser)["critical"] == ["on the longest chain"] and about(browser)["after"]
    arrows = until(browser, "Bokeh.documents[0].get_model_by_name('arrows').data.x0.length")
    assert arrows >= 1
    critical = until(browser, f"Array.from({DRAWN}.data.critical)")
    assert 1 in critical


@pto.jit
def multiplied(a, b):
    return pto.exp(pto.matmul(a, b) * 0.001)


def test_a_package_is_a_page_of_linked_texts(browser, tmp_path):
    x = np.ones((8, 16), np.float32)
    multiplied.package(tmp_path / "f.pto", (x, x.T.copy()), texts=True)
    studio_command.write(str(tmp_path / "f.pto"), str(tmp_path / "page.html"))
    open_page(browser, tmp_path / "page.html")
    cells = [cell.text for cell in all_of(browser, "#plots td")]
    assert "multiplied(a: f32[s0, s1], b: f32[s2, s3])" in cells
    for link in ("#statements li", "#plots tr[data-kinds]"):  # a statement, the row of a call
        all_of(browser, link)[0].click()
        lines = selected_lines(browser)
        assert any("pto.matmul(a, b)" in one and "return" in one for one in lines)
        assert any("@" in one for one in lines) and len(lines) > 4  # a stage, and C++
    assert len(all_of(browser, "#statements li.selected")) == len(all_of(browser, "#statements li"))


def test_hostile_names_do_nothing(browser, tmp_path):
    name = "<img src=x onerror='window.hacked=1'>" + HOSTILE.replace("alert(1)", "window.hacked=1")
    events = [slice_of(0, 0, 4, name, lines=[name]), slice_of(1, 5, 6, name, lines=[name])]
    program = {"name": name, "stages": [[name, name]], "cpp": [[name, name]],
               "sources": {name: name}, "statements": [{"title": name}]}  # fmt: skip
    made = trace(events + arrow(1, *events), program=program)
    made["traceEvents"] += [{"ph": "M", "pid": 1, "tid": lane, "name": "thread_name",
                             "args": {"name": name}} for lane in (0, 1)]  # fmt: skip
    pages.html(made, tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    for item in all_of(browser, "li"):
        item.click()
    assert about(browser)["statement"] == [name]
    assert browser.execute_script("return window.hacked") is None
