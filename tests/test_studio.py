# SPDX-License-Identifier: Apache-2.0
"""The studio: what it reads of traces, what it says of a run, and that hostile names stay text."""

import json
import math
import random
import re

import numpy as np
import pytest

import pto
from pto import pages, studio
from pto.errors import Failure, InvalidValue, MissingFile
from pto.language import program_page
from pto.studio import analysis, layout
from pto.studio.document import Kind

HOSTILE = "</script><script>alert(1)</script>'\"&"


def slice_of(lane, start, end, name="kernel", **args):
    return {"ph": "X", "pid": 1, "tid": lane, "ts": start, "dur": end - start, "name": name,
            "args": args}  # fmt: skip


def trace(events, **other):
    lanes = {event["tid"] for event in events if event["ph"] == "X"}
    names = [{"ph": "M", "pid": 1, "tid": lane, "name": "thread_name",
              "args": {"name": f"worker {lane}"}} for lane in lanes]  # fmt: skip
    return {"traceEvents": [*names, *events], "otherData": {"dropped": 0, **other}}


def arrow(number, first, second):
    ends = ("s", first["tid"], first["ts"] + first["dur"]), ("f", second["tid"], second["ts"])
    return [{"ph": ph, "pid": 1, "tid": tid, "ts": ts, "id": number, "name": "follows"}
            for ph, tid, ts in ends]  # fmt: skip


def nested(random_, lane, start, end, depth):
    """Slices within each other, the ends of some the same."""
    yield slice_of(lane, start, end, f"k{random_.randrange(3)}")
    at = start
    while depth and at < end - 2:
        last = random_.randrange(at + 1, end + 1)
        yield from nested(random_, lane, at, last, depth - 1)
        at = last + random_.randrange(2)


@pytest.mark.parametrize("seed", range(20))
def test_each_slice_lies_in_the_one_around_it(seed):
    random_ = random.Random(seed)
    events = [one for lane in (3, 1) for one in nested(random_, lane, 0, 60, 3)]
    random_.shuffle(events)
    document = studio.document_of(trace(events))
    analysis.nest(document)
    assert len(document.slices) == len(events) and document.lanes == ["worker 1", "worker 3"]
    for one in document.slices:
        if one.around < 0:
            assert one.depth == 0
            continue
        outer = document.slices[one.around]
        assert outer.depth == one.depth - 1 and outer.lane == one.lane
        assert outer.start <= one.start and one.end <= outer.end


@pytest.mark.parametrize("seed", range(20))
def test_the_critical_path_is_the_longest_chain(seed):
    random_ = random.Random(seed)
    events = [slice_of(at % 3, 100 * at, 100 * at + random_.randrange(1, 90), task=at)
              for at in range(12)]  # fmt: skip
    pairs = [(a, b) for b in range(12) for a in range(b) if random_.random() < 0.3] or [(0, 1)]
    arrows = [one for at, (a, b) in enumerate(pairs) for one in arrow(at, events[a], events[b])]
    document = studio.document_of(trace(events + arrows))
    analysis.nest(document)
    assert sorted((document.slices[a].number, document.slices[b].number)
                  for a, b in document.edges) == sorted(pairs)  # fmt: skip

    def longest(task):
        return events[task]["dur"] + max((longest(a) for a, b in pairs if b == task), default=0)

    path = [document.slices[at].number for at in analysis.critical_path(document)]
    assert all(pair in pairs for pair in zip(path, path[1:], strict=False))
    assert sum(events[task]["dur"] for task in path) == max(map(longest, range(12)))


@pytest.mark.parametrize("seed", range(20))
def test_every_lane_is_busy_or_idle_with_a_cause(seed):
    random_ = random.Random(seed)
    events = []
    for lane in range(3):
        at = 0.0
        for _ in range(40):
            at += random_.random() * 5
            took = random_.random() * 5
            events.append(slice_of(lane, at, at + took, waited_us=random_.random() * 9))
            at += took
    document = studio.document_of(trace(events))
    analysis.nest(document)
    series = analysis.workers(document)
    begin, end = analysis.span(document)
    total = series["busy"] + series["ready"] + series["none"]
    np.testing.assert_allclose(total, 3, atol=1e-6)
    assert all((series[name] > -1e-6).all() for name in ("busy", "ready", "none"))
    cell = (end - begin) / analysis.CELLS
    assert series["busy"].sum() * cell == pytest.approx(sum(one["dur"] for one in events))


def test_a_wait_is_what_the_trace_says_or_the_time_that_the_lane_idled():
    events = [slice_of(0, 0, 4), slice_of(0, 7, 9), slice_of(1, 1, 2, waited_us=0.5),
              slice_of(0, 7.5, 8)]  # fmt: skip
    document = studio.document_of(trace(events))
    analysis.nest(document)
    found = {(one.lane, one.start): wait for one, wait in
             zip(document.slices, analysis.waits(document), strict=True)}  # fmt: skip
    assert found == {(0, 0): 0, (0, 7): 3, (0, 7.5): 0, (1, 1): 0.5}


def test_the_idle_times_of_lanes_add_up_to_those_of_all():
    events = [slice_of(0, 0, 10), slice_of(1, 0, 2), slice_of(1, 6, 10, waited_us=4),
              slice_of(2, 9, 10, waited_us=1)]  # fmt: skip
    document = studio.document_of(trace(events))
    analysis.nest(document)
    series = analysis.workers(document)
    np.testing.assert_allclose(series["lanes"].sum(1), 1)
    for at, name in enumerate(("busy", "ready", "none")):
        assert series["lanes"][:, at].sum() == pytest.approx(series[name].mean(), abs=1e-9)
    shares = 10 * series["lanes"]
    np.testing.assert_allclose(shares[0], [10, 0, 0], atol=0.05)
    np.testing.assert_allclose(shares[1], [6, 2, 2], atol=0.05)  # half of what was ready is its
    np.testing.assert_allclose(shares[2], [1, 3, 6], atol=0.05)


def program_slice(lane, start, end, name, part, **args):
    return slice_of(lane, start, end, name, **{"is": part}, **args)


def test_the_path_of_a_program_has_its_statements_and_the_longest_block_of_each_job():
    events = [program_slice(0, 0, 30, "f", "call"), program_slice(0, 1, 5, "first", "statement"),
              program_slice(0, 6, 20, "loop", "statement"), program_slice(0, 7, 19, "loop", "job"),
              program_slice(0, 8, 12, "a", "part"), program_slice(1, 9, 18, "b", "part"),
              program_slice(1, 10, 17, "inner", "statement"),
              program_slice(0, 21, 29, "last", "statement")]  # fmt: skip
    document = studio.document_of(trace(events))
    analysis.nest(document)

    def name(at):
        return document.kinds[document.slices[at].kind].name

    assert [name(at) for at in analysis.critical_path(document)] == ["first", "inner", "last"]
    assert [(name(a), name(b)) for a, b in document.edges] == [
        ("first", "a"), ("first", "inner"), ("inner", "last")]  # fmt: skip
    waited = {name(at): wait for at, wait in enumerate(analysis.waits(document))}
    assert (waited["a"], waited["b"]) == (1, 2)  # since the job began
    series = analysis.workers(document)
    busy, ready, none = 30 * series["lanes"].T
    np.testing.assert_allclose(busy, [30 - 12 + 4, 9], atol=0.2)  # a thread waits for its job
    assert ready.sum() > 0.5 and none[0] > 5


def test_lanes_that_ran_nothing_are_shown():
    made = trace([slice_of(1, 0, 4)])
    made["traceEvents"].append({"ph": "M", "tid": 3, "name": "thread_name",
                                "args": {"name": "worker 3"}})  # fmt: skip
    document = studio.document_of(made)
    analysis.nest(document)
    assert document.lanes == ["worker 1", "worker 3"] and layout.rows(document) == [(0, 0), (1, 0)]
    lanes = analysis.workers(document)["lanes"]
    np.testing.assert_allclose(lanes, [[1, 0, 0], [0, 0, 1]], atol=1e-6)
    shown = layout._lists(document, [0.0], [], lanes)
    times = "busy 0 ns, idle while a task was ready 0 ns, idle: no task was ready 4 us"
    assert f"worker 3<small>{times}" in shown
    assert "id='longest'" in shown and "left out" not in shown  # its one slice is there


def test_memory_is_taken_until_the_end_of_what_is_around_it():
    events = [slice_of(0, 0, 10, "loop"), slice_of(0, 2, 3, "kernel"), slice_of(0, 6, 7, "kernel")]
    program = {"statements": [{"title": "kernel", "taken_bytes": 5}]}
    document = studio.document_of(trace(events, program=program))
    analysis.nest(document)
    series = analysis.memory(document)
    assert list(zip(series["time"], series["bytes"], strict=True)) == [
        (0, 0), (2, 5), (6, 10), (10, 0), (10, 0)]  # fmt: skip
    assert analysis.memory(studio.document_of(trace(events))) is None


def test_tasks_that_failed_are_listed_first():
    document = studio.document_of(trace([slice_of(0, 0, 4), slice_of(0, 4, 5, failed="no room")]))
    analysis.nest(document)
    lists = layout._lists(document, analysis.waits(document), [], np.zeros((1, 3)))
    assert lists.index("Failed") < lists.index("no room") < lists.index("Longest waits")
    assert json.loads(layout._data(document, [0, 0], []))["failed"] == {"1": "no room"}


def test_names_of_a_trace_stay_text(tmp_path):
    source = tmp_path / "source.py"
    source.write_text(f"x = 1\n# {HOSTILE}\n")
    line = f"{source}:2"
    program = {"name": HOSTILE, "stages": [[HOSTILE, f'{HOSTILE} @ "{source}":2']],
               "cpp": [[HOSTILE, HOSTILE]], "sources": {HOSTILE: HOSTILE},
               "statements": [{"title": HOSTILE}]}  # fmt: skip
    events = [slice_of(0, 0, 4, HOSTILE, lines=[line, HOSTILE], failed=HOSTILE)]
    document = pages.read(trace(events, program=program))
    analysis.nest(document)
    waited = analysis.waits(document)
    assert "<" not in layout._data(document, waited, [])
    texts = layout._panes(document) + layout._lists(document, waited, [], np.zeros((1, 3)))
    assert "<script" not in texts and "alert(1)" in texts
    assert f"data-line='{source}:2' data-kinds='0'" in texts  # of the source
    assert "<span class='line' data-kinds='0'>&lt;/script&gt;" in texts  # of the stage


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"traceEvents": 3}', '{"traceEvents": [1]}', '{"traceEvents": [{}]}',
     '{"traceEvents": [{"ph": "X", "tid": 0}]}',
     '{"traceEvents": [], "otherData": {"program": {"stages": [1]}}}',
     '{"traceEvents": [], "otherData": [1]}', '{"traceEvents": [], "otherData": {"dropped": "x"}}',
     '{"traceEvents": [], "otherData": {"program": {"sources": {"a.py": 1}}}}',
     '{"traceEvents": [{"ph": "X", "tid": 0, "name": "a", "ts": NaN, "dur": 1}]}',
     '{"traceEvents": [{"ph": "X", "tid": 0, "name": "a", "ts": 1e308, "dur": 1e308}]}',
     "[" * 100000],
)  # fmt: skip
def test_what_is_no_trace_is_refused(text, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(InvalidValue, match=r"t\.json is no trace|t\.json.*why") as caught:
        pages.read(path)
    assert "why:" in str(caught.value) and "fix:" in str(caught.value)


BAD = ({"waited_us": "x"}, {"waited_us": math.nan}, {"waited_us": [1]}, {"waited_us": -1},
       {"lines": "a.py:1"}, {"lines": [1]}, {"source": 3}, {"task": "one"}, {"task": 10**400},
       {"iteration": {}}, {"step": "1"}, {"is": 1})  # fmt: skip


@pytest.mark.parametrize("args", BAD, ids=str)
def test_a_slice_with_other_arguments_is_refused(args):
    (name,) = args
    with pytest.raises(InvalidValue, match=f"is no trace\n.*why: .*{name}.*where a trace has"):
        studio.document_of(trace([slice_of(0, 0, 4, **args)]))


@pytest.mark.parametrize(
    "program",
    [{"name": 5}, {"rates": [1]}, {"rates": {"operations": "x"}}, {"stages": [["a", 1]]},
     {"cpp": [["a"]]}, {"statements": [{"title": 1}]}, {"statements": [{}]}, {"notes": [1]},
     {"tables": [["a", 1]]}, {"tables": [["a", [1]]]},
     *({"statements": [{"title": "k", name: value}]} for name, value in
       [("bytes", "1"), ("operations", []), ("total_s", "x"), ("calls", math.inf), ("share", {}),
        ("limit_s", "x"), ("taken_bytes", "zz"), ("symbol", ["a"]), ("lines", 1), ("cpp", 1)])],
    ids=str,
)  # fmt: skip
def test_a_program_with_other_members_is_refused(program):
    with pytest.raises(InvalidValue, match="is no trace\n.*why: .*where a trace has"):
        studio.document_of(trace([slice_of(0, 0, 4, "k")], program=program))


@pytest.mark.parametrize("change", [{"tid": "a"}, {"tid": [1]}, {"dur": -1}, {"ts": None},
                                    {"name": 7}, {"args": 3}, {"ph": 1}], ids=str)  # fmt: skip
def test_an_event_with_other_members_is_refused(change):
    with pytest.raises(InvalidValue, match="is no trace\n.*why: .*where a trace has"):
        studio.document_of({"traceEvents": [slice_of(0, 0, 4) | change]})


def test_statements_belong_to_slices_by_their_step_or_their_title():
    program = {"statements": [{"title": "loop", "step": 1, "bytes": 1},
                              {"title": "loop", "step": 2, "bytes": 2}, {"title": "k", "bytes": 3},
                              {"title": "never", "lines": ["a.py:1"]}]}  # fmt: skip
    events = [slice_of(0, 0, 4, "loop, a part", step=2), slice_of(0, 5, 6, "loop", step=1),
              slice_of(0, 7, 8, "k"), slice_of(0, 9, 10, "other", step=9)]  # fmt: skip
    document = studio.document_of(trace(events, program=program))
    found = [document.about(one.kind).get("bytes") for one in document.slices]
    assert found == [2, 1, 3, None]
    assert document.kinds[-1] == Kind("never", ("a.py:1",), 3)


def test_the_roofline_shows_what_takes_longest_and_lists_what_only_moves_bytes():
    statements = [{"title": f"k{at}", "calls": 2, "total_s": 1e-5 * (at + 1), "bytes": 100,
                   "operations": 10 * (at % 4)} for at in range(800)]  # fmt: skip
    document = studio.document_of(trace([], program={"statements": statements}))
    points, moves = layout._roofline_points(document)
    assert len(points) == layout.POINTS_MAX and len(points) + len(moves) == 800
    assert [one["label"] for one in points[:3]] == ["k799", "k798", "k797"]
    assert points[0]["x"] == 0.3 and points[0]["y"] == pytest.approx(30 / 4e-3)
    assert document.kinds[points[0]["place"]].name == "k799"
    assert moves[0] == ("kind", 796, "k796 2.51e+04 bytes a second, - of its roofline")
    shown = layout._list("Moved bytes", moves[:100], len(moves))
    assert shown.count("<li") == 100 and "500 more are left out" in shown


def test_a_page_says_what_a_trace_does_not_know():
    document = studio.document_of(trace([slice_of(0, 0, 4)]))
    shown = layout._sections(document, {"timeline": "drawn", "workers": "drawn"})
    assert "which bytes are held" in shown and "compute and move" in shown
    assert "rt.trace(path, level=3)" in shown and "nothing ran" not in shown
    assert "nothing ran" in layout._sections(studio.document_of({"traceEvents": []}), {})


def test_the_first_pane_of_each_kind_is_open():
    program = {"sources": {"a.py": "", "b.py": ""}, "stages": [["graph", ""], ["fused", ""]]}
    for kinds in (["sources"], ["sources", "stages"]):
        some = {kind: program[kind] for kind in kinds}
        document = studio.document_of(trace([], program=some))
        panes = layout._panes(document).split("<details")[1:]
        assert ["open" in pane.partition(">")[0] for pane in panes] == [True, False] * len(kinds)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(MissingFile, match="cannot be read"):
            pages.read(path)
    path = tmp_path / "bytes.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidValue, match="it is no text"):
        pages.read(path)


def test_a_trace_without_slices_has_a_page_of_nothing():
    document = studio.document_of({"traceEvents": []})
    analysis.nest(document)
    assert analysis.waits(document) == [] and analysis.critical_path(document) == []
    assert analysis.workers(document)["busy"].sum() == 0
    assert json.loads(layout._data(document, [], []))["start"] == []


@pto.jit
def softmax_rows(x, out):
    for i in pto.loop(x.shape[0]):
        e = pto.exp(x[i] - pto.amax(x[i], -1, keepdim=True))
        out[i] = e / pto.sum(e, -1, keepdim=True)


def test_the_trace_of_a_program_brings_its_stages_its_texts_and_its_lines(tmp_path):
    x = np.random.default_rng(0).random((8, 40), np.float32)
    softmax_rows.trace(tmp_path / "t.json", x, np.zeros_like(x))
    document = pages.read(tmp_path / "t.json")
    found = softmax_rows.explain(x, np.zeros_like(x))
    assert dict(document.stages) == found.levels and document.cpp == [("C++", found.cpp)]
    (source,) = document.sources.values()
    assert "def softmax_rows" in source
    kernel = next(one for one in document.kinds if one.name.startswith("kernel"))
    (step,) = found.steps_of("kernel")
    assert kernel.lines == step.lines
    shown = layout._panes(document)
    place = document.kinds.index(kernel)
    inside = [line for line in shown.split("<span")
              if re.search(rf"data-kinds='(\d+ )*{place}[ ']", line)]  # fmt: skip
    assert any(f"int32_t {step.name}(" in line for line in inside)
    assert any("TEXP" in line for line in inside) and any("div" in line for line in inside)


def test_no_statement_within_its_roofline_lies_above_the_roofs():
    x = np.random.default_rng(0).random((64, 256), np.float32)
    found = softmax_rows.report(x, np.zeros_like(x), repeats=1)
    trace = program_page.trace_of(found._recorded, found)
    rates = trace["otherData"]["program"]["rates"]
    known = [one for one in trace["otherData"]["program"]["statements"] if one["limit_s"]]
    assert known
    for one in known:  # at its roofline it would be a point there
        roof = min(rates["operations"], rates["near_bytes"] * one["operations"] / one["bytes"])
        assert one["operations"] / one["limit_s"] <= roof * (1 + 1e-6)
    document = studio.document_of(trace)
    analysis.nest(document)
    path = analysis.critical_path(document)
    assert path and len(document.edges) >= len(path) - 1


def test_the_nearer_roof_counts_reading_too(monkeypatch):
    x = np.ones((8, 40), np.float32)
    found = softmax_rows.report(x, np.zeros_like(x), repeats=1)
    monkeypatch.setattr(program_page, "read_rate", lambda size, threads: 1e16)
    rates = program_page.trace_of(found._recorded, found)["otherData"]["program"]["rates"]
    assert rates["near_bytes"] == 1e16


def test_pages_need_bokeh_and_say_so(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "bokeh.embed", None)
    with pytest.raises(Failure, match="Bokeh is not installed"):
        studio.page(studio.document_of({"traceEvents": []}))
