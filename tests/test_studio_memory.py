# SPDX-License-Identifier: Apache-2.0
"""The studio's curve of memory: what traces of tasks say is held, to the byte; wrong traces."""

import json
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from test_studio import slice_of, trace

import pto
from pto import pages, studio
from pto.errors import InvalidValue
from pto.studio import analysis, layout

VECTOR = Path(__file__).parents[1] / "examples" / "runtime" / "vector.cpp"
ORCH = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args) {
  pto::Orchestration o(rt, args);
  auto x = o.input(0), y = o.output(1);
  auto n = o.scalar(x.numel()), one = o.scalar(1.0f);
  auto last = o.tensor({x.numel()}, x.dtype());
  for (int i = 0; i < 2; ++i) {
    auto scope = o.scope();
    auto first = o.tensor({x.numel()}, x.dtype());
    o.submit("add_constant", {o.out(first), o.in(x), one, n});
    auto second = o.tensor({2 * x.numel()}, x.dtype());
    o.submit("add_constant", {o.out(second), o.in(first), one, n});
    o.submit("add_constant", {o.out(last), o.in(second), one, n});
  }
  o.submit("add_constant", {o.out(y), o.in(last), one, n});
  return 0;
}
"""


def allocated(number, at, size, task=None):
    args = {"bytes": size} | ({} if task is None else {"task": task, "source": "o.cpp:1"})
    return {"ph": "N", "pid": 1, "tid": 0, "ts": at, "id": number, "name": "memory", "args": args}


def freed(number, at):
    return {"ph": "D", "pid": 1, "tid": 0, "ts": at, "id": number, "name": "memory", "args": {}}


def read(trace_or_path):
    document = pages.read(trace_or_path)
    analysis.nest(document)
    return document


def points(document):
    series = analysis.memory(document)
    return list(zip(series["time"].tolist(), series["bytes"].tolist(), strict=True))


@pytest.fixture(scope="module")
def kernels():
    return [{"source": VECTOR, "symbol": "add_constant"}]


def test_a_known_graph_of_tasks_has_its_exact_curve(kernels, tmp_path):
    x = np.zeros(100, np.float32)
    y = np.empty_like(x)
    path = tmp_path / "t.json"
    with pto.Runtime(level="chip", workers=1) as rt:
        rt.register("known", orch=ORCH, kernels=kernels)
        rt.trace(path)
        args = [pto.Arg.input(x), pto.Arg.output(y)]
        rt.run("known", args)
        document = read(path)
        a_scope = [800, 1600, 800, 400]  # the second tensor goes first
        assert [size for _, size in points(document)] == [400, *a_scope, *a_scope, 0, 0]
        owners = [document.slices[one.owner].number for one in analysis.held(document)]
        assert owners == [3, 1, 2, 4, 5]  # the first task that uses each
        rt.capture("known", args).replay(args)
        replayed = read(path)
    assert y.tolist() == [4] * 100
    assert {size for _, size in points(replayed)} == {400 + 2 * (400 + 800)}  # all of it, always
    assert "which bytes are held" not in layout._sections(document, {"memory": "drawn"})


def scaled(ctx, args):
    with ctx.scope():
        part = ctx.alloc((50,))
        ins = [pto.Arg.input(args["x"]), pto.Arg.scalar(1.0), pto.Arg.scalar(50)]
        ctx.submit(0, "add_constant", [pto.Arg.output(part), *ins])
        ins[0] = pto.Arg.input(part)
        ctx.submit(0, "add_constant", [pto.Arg.output(args["y"]), *ins])


def test_tasks_of_worker_processes_have_the_curve_of_shared_memory(kernels, tmp_path):
    path = tmp_path / "t.json"
    with pto.Runtime(level="host", devices=[0]) as rt:
        rt.register("scaled", orch=scaled, kernels={"add_constant": pto.compile(kernels=kernels)})
        x, y = rt.alloc((50,)), rt.alloc((50,))
        rt.run("scaled", {"x": x, "y": y})
        code = 0
        for _ in range(2):  # the second run names tasks anew
            rt.trace(path)
            rt.run("scaled", {"x": x, "y": y})
            document = read(path)
            curve = [size for _, size in points(document)]
            code = curve[0] - 2 * 200  # programs lie there too
            assert code >= 0 and curve == [code + 400, code + 600, code + 400, code + 400]
            held = [one for one in analysis.held(document) if one.owner >= 0]
            numbers = [document.slices[one.owner].number for one in held]
            first, second = sorted({one.number for one in document.slices})
            assert numbers == [first, second, first]  # x and y, then what the run allocates
            lines = {document.kinds[document.slices[one.owner].kind].lines for one in held}
            assert all(line.startswith("test_studio_memory.py:") for (line,) in lines)
    assert y.numpy().tolist() == [2] * 50


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("count", [5, 5000])
def test_the_curve_is_the_sum_of_what_is_held(seed, count):
    random_ = random.Random(seed)
    events, changes = [slice_of(0, 0, 1000)], defaultdict(int)
    for number in range(count):
        start, size = random_.randrange(0, 900), random_.randrange(100)
        events.append(allocated(number, start, size))
        changes[start] += size
        if random_.random() < 0.9:
            end = random_.randrange(start, 950)
            events.append(freed(number, end))
            changes[end] -= size
    held = np.cumsum([changes[at] for at in sorted(changes)])
    exact = dict(zip(sorted(changes), held.tolist(), strict=True))
    found = points(read(trace(events)))
    assert found[-1] == (1000, held[-1]) and max(size for _, size in found) == max(held)
    assert {at: size for at, size in found if at in exact} == exact
    assert len(found) <= len(exact) + 2 and all(size >= 0 for _, size in found)
    assert [at for at, _ in found] == sorted(at for at, _ in found)


def test_a_file_without_records_of_memory_still_opens():
    document = read(trace([slice_of(0, 0, 4)]))
    assert analysis.memory(document) is None and document.notes == []
    assert "which bytes are held" in layout._sections(document, {})


def test_a_free_without_its_allocation_and_a_number_that_is_taken_are_left_out():
    events = [slice_of(0, 0, 9), freed(3, 1), allocated(1, 2, 10), allocated(1, 3, 7),
              freed(1, 4), freed(1, 5), allocated(2, 6, 5), freed(2, 5.5)]  # fmt: skip
    document = read(trace(events))
    assert points(document) == [(0, 0), (2, 10), (4, 0), (6, 5), (9, 5)]
    assert document.notes == ["4 records of memory are left out: frees without an allocation "
                              "before them, or allocations whose number is taken."]  # fmt: skip
    assert document.notes[0] in layout._tables(document)
    again = [allocated(1, 2, 10), freed(1, 3), allocated(1, 4, 7)]  # of a later allocation
    assert read(trace(again)).notes == []
    other = [{"ph": "N", "name": "object", "id": 1, "ts": 0}]  # of another tool
    assert read(trace(other)).memory == []


def test_a_page_says_that_the_trace_dropped_records_of_memory():
    document = read(trace([slice_of(0, 0, 9)], memory_dropped=3))
    assert "dropped 3 records of memory" in document.notes[0]


@pytest.mark.parametrize(
    "change",
    [{"args": {"bytes": -1}}, {"args": {"bytes": "1"}}, {"args": {}}, {"args": None}, {"ts": "1"},
     {"ts": None}, {"args": {"bytes": 1, "task": []}}, {"args": {"bytes": float("nan")}},
     {"args": {"bytes": 10**400}}], ids=str,
)  # fmt: skip
def test_a_record_of_memory_with_other_members_is_refused(change):
    with pytest.raises(InvalidValue, match="is no trace\n.*why: .*where a trace has"):
        studio.document_of({"traceEvents": [allocated(1, 0, 5) | change]})


def test_a_trace_that_is_cut_short_is_refused(tmp_path):
    text = json.dumps(trace([slice_of(0, 0, 9), allocated(1, 2, 10), freed(1, 4)]))
    path = tmp_path / "t.json"
    for size in range(0, len(text), 7):
        path.write_text(text[:size])
        with pytest.raises(InvalidValue, match=r"t\.json is no trace\n.*why: it is no JSON"):
            pages.read(path)


def test_memory_that_no_slice_owns_is_in_the_curve():
    events = [slice_of(0, 0, 9, task=5), allocated(1, 2, 10, 77), allocated(2, 3, 1, 5),
              allocated(3, 4, 2, 0)]  # fmt: skip
    document = read(trace(events))
    assert [one.owner for one in analysis.held(document)] == [-1, 0, -1]
    assert points(document)[-1] == (9, 13)
    data = json.loads(layout._data(document, [0.0], []))
    assert data["held"] == [[-1, 2000, 10, None], [0, 3000, 1, None], [-1, 4000, 2, None]]
