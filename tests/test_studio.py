# SPDX-License-Identifier: Apache-2.0
"""The studio: what it reads of traces, what it says of a run, and that hostile names stay text."""

import json
import random
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import pto
from pto import pages, studio
from pto.errors import Error, Failure, InvalidValue, MissingFile
from pto.studio import analysis, layout

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


def test_memory_is_taken_until_the_end_of_what_is_around_it():
    events = [slice_of(0, 0, 10, "loop"), slice_of(0, 2, 3, "kernel"), slice_of(0, 6, 7, "kernel")]
    program = {"statements": [{"title": "kernel", "taken_bytes": 5}]}
    document = studio.document_of(trace(events, program=program))
    analysis.nest(document)
    series = analysis.memory(document)
    assert list(zip(series["time"], series["bytes"], strict=True))[:2] == [(2, 5), (6, 10)]
    assert series["bytes"][-1] == 0 and series["time"][-1] == 10
    document.statements = {}
    assert analysis.memory(document) is None


def test_names_of_a_trace_stay_text(tmp_path):
    source = tmp_path / "source.py"
    source.write_text(f"x = 1\n# {HOSTILE}\n")
    line = f"{source}:2"
    program = {"name": HOSTILE, "stages": [[HOSTILE, f'{HOSTILE} @ "{source}":2']],
               "cpp": [[HOSTILE, HOSTILE]], "sources": {HOSTILE: HOSTILE},
               "statements": [{"title": HOSTILE}]}  # fmt: skip
    events = [slice_of(0, 0, 4, HOSTILE, lines=[line, HOSTILE])]
    document = studio.document_of(trace(events, program=program))
    analysis.nest(document)
    waited = analysis.waits(document)
    assert "<" not in layout._data(document, waited, [])
    texts = layout._panes(document) + layout._lists(document, waited, [])
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
        studio.read(path)
    assert "why:" in str(caught.value) and "fix:" in str(caught.value)


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
            studio.read(path)
    path = tmp_path / "bytes.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidValue, match="it is no text"):
        studio.read(path)


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
    document = studio.read(tmp_path / "t.json")
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


def test_pages_need_bokeh_and_say_so(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "bokeh.embed", None)
    with pytest.raises(Failure, match="Bokeh is not installed"):
        studio.page(studio.document_of({"traceEvents": []}))


@pytest.mark.parametrize("text", ["f.py:", "f.py:f", "f.py:f(**x)", "f.py:1 +", "f.py:x = 1"])
def test_a_text_that_names_no_call_is_refused(text):
    with pytest.raises(InvalidValue, match="names no call"):
        pages.html_of_call(text, "page.html")


def test_a_call_of_a_file_becomes_a_page(tmp_path):
    pytest.importorskip("bokeh")
    file = tmp_path / "doubled.py"
    file.write_text(
        "import numpy as np\nimport pto\n\nx = np.ones((4, 8), np.float32)\n\n\n"
        "@pto.jit\ndef doubled(x, by=2.0):\n    return x * by\n\n\ndef plain(x): ...\n"
    )
    pages.html_of_call(f"{file}:doubled(x[1:3], by=3.0)", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "return x * by" in text and "Roofline" in text
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))
    parser.feed(text)
    assert any(tag == "script" for tag, _ in tags)
    assert not any(one.keys() & {"src", "href"} for _, one in tags)  # nothing is fetched
    with pytest.raises(InvalidValue, match="name 'y' is not defined"):
        pages.html_of_call(f"{file}:doubled(y)", tmp_path / "page.html")
    with pytest.raises(MissingFile, match="none.py does not exist"):
        pages.html_of_call(f"{tmp_path}/none.py:doubled(x)", tmp_path / "page.html")
    with pytest.raises(InvalidValue, match="plain in .* is no jitted function"):
        pages.html_of_call(f"{file}:plain(x)", tmp_path / "page.html")
    with pytest.raises(Error, match="cannot be written"):
        pages.html_of_call(f"{file}:doubled(x)", tmp_path / "none" / "page.html")
