# SPDX-License-Identifier: Apache-2.0
"""trace("t.json", ...): what ran when in one call, as a file for Perfetto."""

import inspect
import json
import os
import subprocess
import sys
import threading
from collections import Counter

import numpy as np
import pytest

import pto
from pto import _core
from pto.language import recording

F32 = np.float32
rng = np.random.default_rng(7)


@pto.jit
def softmax(x):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)


@pto.jit
def row_sums(x, lengths, out):
    longest = 0
    for i in pto.loop(x.shape[0]):
        n = lengths[i]
        longest = pto.max(longest, n)
        pto.set_semantic_label("one row")
        out[i] = pto.sum(x[i, :n])  # sum
    return longest * pto.ones([1])


@pto.jit
def attend(q, keys, lengths, out):
    page = keys.shape[1]
    for i in pto.loop(q.shape[0]):  # queries
        d, o = pto.zeros([q.shape[1], 1]), pto.zeros([q.shape[1], keys.shape[2]])
        for j in pto.loop((lengths[i] + page - 1) // page):  # pages
            k = keys[j, : pto.min(page, lengths[i] - j * page)]
            p = pto.exp(pto.matmul(q[i], k, b_trans=True))  # product
            d, o = d + p.sum(-1, keepdim=True), o + p @ k
        out[i] = o / d


@pto.jit
def halved(x, out):
    for i in pto.loop(x.shape[0]):
        n = x.shape[1]
        while n > 1:
            n = n // 2
            if n > 2:
                out[i] = out[i] + x[i]


@pto.jit
def added(x, out):
    out[:] = out + x


@pto.jit
def far_row(x, rows, out):
    for i in pto.loop(rows.shape[0]):
        out[i] = x[rows[i]]


def array(*shape):
    return rng.standard_normal(shape, F32)


def arguments(name):
    """The function, arguments, and how often each loop's body runs in all, loops in text order."""
    rows, columns = (int(n) for n in rng.integers(1, 9, 2))
    if name == "softmax":
        return softmax, (array(rows, columns),), []
    if name == "row_sums":
        lengths = rng.integers(0, columns + 1, rows)
        return row_sums, (array(rows, columns), lengths, np.zeros(rows, F32)), [rows]
    if name == "attend":
        lengths = rng.integers(1, 41, rows)
        given = array(rows, 3, 4), array(5, 8, 4), lengths, np.zeros((rows, 3, 4), F32)
        return attend, given, [rows, int(sum(-(-lengths // 8)))]
    rounds = columns.bit_length() - 1
    times = sum(columns >> k > 2 for k in range(1, rounds + 1))
    given = array(rows, columns), np.zeros((rows, columns), F32)
    return halved, given, [rows, rows * rounds, (rows * times, rows * (rounds - times))]


NAMES = ["softmax", "row_sums", "attend", "halved"]


def traced(path, function, args):
    result = function.trace(str(path), *args)
    return json.loads(path.read_text()), result


def slices(found, kind="statement"):
    return [one for one in found["traceEvents"]
            if one["ph"] == "X" and one["args"].get("is") == kind]  # fmt: skip


def sums_of(found):
    """Of each slice with a sum in it, the arguments."""
    return [one["args"] for one in slices(found) if "sum" in one["args"].get("operations", ())]


def executions(steps, bodies, times=1):
    """(number, how often it runs) of each statement; consumes `bodies`, a count for each loop."""
    for step in steps:
        if not step.is_quiet:
            yield step.number, times
        if step.kind in ("loop", "while"):
            inside = bodies.pop(0)
            blocks = Counter(one.block for one in step.steps)
            for block in blocks:  # the condition of a while runs once more
                own = [one for one in step.steps if one.block == block]
                is_condition = step.kind == "while" and block == min(blocks) and len(blocks) > 1
                yield from executions(own, bodies, inside + times * is_condition)
        elif step.kind == "branch":
            for inside, block in zip(bodies.pop(0), sorted({s.block for s in step.steps}),
                                     strict=False):  # fmt: skip
                yield from executions([s for s in step.steps if s.block == block], bodies, inside)


@pytest.mark.parametrize("name", NAMES)
def test_every_execution_of_a_statement_is_a_slice(name, tmp_path):
    for _ in range(3):
        function, args, bodies = arguments(name)
        want = dict(executions(function.explain(*args).steps, bodies))
        found, _ = traced(tmp_path / "t.json", function, args)
        got = Counter(one["args"]["step"] for one in slices(found))
        assert got == {number: times for number, times in want.items() if times}
        assert len(slices(found, "call")) == 1 and found["otherData"]["dropped"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_slices_have_the_names_lines_and_operations_of_explain(name, tmp_path):
    function, args, _ = arguments(name)
    steps = {one.number: one for one in function.explain(*args).every_step()}
    found, _ = traced(tmp_path / "t.json", function, args)
    for one in slices(found):
        step = steps[one["args"]["step"]]
        assert one["name"] == step.title and tuple(one["args"]["lines"]) == step.lines
        assert tuple(one["args"].get("operations", ())) == step.operations


@pytest.mark.parametrize(("function", "mark", "kind"), [
    (row_sums, "# sum", "kernel"), (attend, "# product", "product"), (attend, "# pages", "loop"),
])  # fmt: skip
def test_a_slice_knows_its_line_and_label(function, mark, kind, tmp_path):
    _, args, _ = arguments(function.__name__)
    lines, first = inspect.getsourcelines(function.__wrapped__)
    line = first + next(at for at, text in enumerate(lines) if mark in text)
    found, _ = traced(tmp_path / "t.json", function, args)
    there = [one["args"] for one in slices(found)
             if any(where.endswith(f"test_program_traces.py:{line}") for where in
                    one["args"]["lines"])]  # fmt: skip
    assert kind in {one["kind"] for one in there}
    if function is row_sums:
        assert {one["label"] for one in there if one["kind"] == "kernel"} == {"one row"}


@pytest.mark.parametrize("name", NAMES)
def test_the_file_keeps_the_rules_of_perfetto(name, tmp_path):
    function, args, _ = arguments(name)
    found, _ = traced(tmp_path / "t.json", function, args)
    assert {one["ph"] for one in found["traceEvents"]} == {"M", "X"}
    named = {one["tid"]: one["args"]["name"] for one in found["traceEvents"]
             if one["name"] == "thread_name"}  # fmt: skip
    assert len(set(named.values())) == len(named) >= _core.num_threads()
    for one in found["traceEvents"]:
        if one["ph"] == "X":
            assert one["ts"] >= 0 and one["dur"] >= 0 and one["pid"] == 1 and one["tid"] in named


def nests(events):
    """Says whether slices of one lane nest or follow each other."""
    ends = []
    for one in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        start, end = round(one["ts"] * 1000), round((one["ts"] + one["dur"]) * 1000)
        while ends and ends[-1] <= start:
            ends.pop()
        if ends and end > ends[-1]:
            return False
        ends.append(end)
    return True


@pytest.mark.parametrize("name", NAMES)
def test_slices_of_a_lane_nest(name, tmp_path):
    function, args, _ = arguments(name)
    found, _ = traced(tmp_path / "t.json", function, args)
    lanes = {}
    for one in found["traceEvents"]:
        if one["ph"] == "X":
            lanes.setdefault(one["tid"], []).append(one)
    assert all(nests(events) for events in lanes.values())
    call = slices(found, "call")[0]
    for one in lanes[0]:
        assert call["ts"] <= one["ts"] and one["ts"] + one["dur"] <= call["ts"] + call["dur"] + 1e-3


def test_iterations_are_numbered(tmp_path):
    rows = 5
    found, _ = traced(tmp_path / "t.json", row_sums,
                      (array(rows, 3), np.full(rows, 2), np.zeros(rows, F32)))  # fmt: skip
    assert [one["iteration"] for one in sums_of(found)] == list(range(rows))


@pytest.mark.skipif(_core.num_threads() < 2, reason="needs two threads")
def test_each_worker_has_a_lane(tmp_path):
    q, lengths = array(64, 8, 16), np.full(64, 320)
    args = q, array(40, 8, 16), lengths, np.zeros_like(q)
    for _ in range(50):  # a worker may come too late
        found, _ = traced(tmp_path / "t.json", attend, args)
        parts = slices(found, "part")
        if len({one["tid"] for one in parts}) > 1:
            break
    assert len({one["tid"] for one in parts}) > 1
    assert Counter(one["args"]["kind"] for one in slices(found))["product"] == 2 * 64 * 40
    own = [one for one in found["traceEvents"] if one.get("tid") == 1 and one["ph"] == "X"]
    assert own and nests(own)


@pytest.mark.parametrize("name", NAMES)
def test_a_traced_call_does_what_a_call_does(name, tmp_path):
    function, args, _ = arguments(name)
    plain = [one.copy() for one in args]
    want = function(*plain)
    _, got = traced(tmp_path / "t.json", function, args)
    assert (got is None) == (want is None)
    pairs = [*zip(args, plain, strict=True), *([(got, want)] if want is not None else [])]
    assert all(a.tobytes() == b.tobytes() for a, b in pairs)


def test_a_traced_call_runs_once(tmp_path):
    out = np.zeros((2, 3), F32)
    added.trace(tmp_path / "t.json", np.ones((2, 3), F32), out)  # a path object, too
    assert (out == 1).all() and (tmp_path / "t.json").exists()


def test_a_call_that_fails_leaves_no_file(tmp_path):
    path = tmp_path / "t.json"
    path.write_text("older")
    args = array(3, 4), np.array([0, 9]), np.zeros((2, 4), F32)
    with pytest.raises(pto.Error, match="far_row"):
        far_row.trace(str(path), *args)
    assert path.read_text() == "older" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_that_leaves_no_file(tmp_path):
    link = tmp_path / "full.json"
    link.symlink_to("/dev/full")
    with pytest.raises(pto.Error, match="cannot be written to .*full.json: No space left"):
        softmax.trace(str(link), array(2, 3))
    link.unlink()
    code = (
        "import resource, signal, numpy as np, test_program_traces as t\n"
        "args = np.ones((64, 8), np.float32), np.full(64, 8), np.zeros(64, np.float32)\n"
        "t.row_sums(*args); t.row_sums.recorded_form()(*args)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: t.row_sums.trace('t.json', *args)\n"
        "except t.pto.Error as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True,
                          text=True, env=environment)  # fmt: skip
    assert "cannot be written to t.json: File too large" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error_before_the_call(tmp_path):
    out = np.zeros((2, 3), F32)
    with pytest.raises(pto.Error, match="there is no folder"):
        added.trace(str(tmp_path / "nowhere" / "t.json"), np.ones((2, 3), F32), out)
    assert (out == 0).all()


def test_a_function_that_is_being_traced_is_refused(tmp_path):
    @pto.jit
    def outer(x):
        return softmax.trace(str(tmp_path / "t.json"), x)

    with pytest.raises(pto.Error, match="softmax: a tool gets a tensor of a function"):
        outer(array(2, 3))
    assert list(tmp_path.iterdir()) == []
    for call in (lambda x: softmax.explain(x), lambda x: softmax.trace(x), lambda x: pto.health(
            softmax, x), lambda x: pto.verify(softmax, x)):  # fmt: skip
        with pytest.raises(TypeError, match="softmax: a tool gets a tensor of a function that is"):
            pto.jit(call)(array(2, 3))


def test_two_threads_trace_at_once(tmp_path):
    rows = [17, 29]
    args = [(array(n, 6), np.full(n, 6), np.zeros(n, F32)) for n in rows]
    row_sums.trace(str(tmp_path / "warm.json"), *args[0])
    barrier, found = threading.Barrier(2), {}

    def run(at):
        barrier.wait()
        for turn in range(5):
            found[at, turn], _ = traced(tmp_path / f"{at}.json", row_sums, args[at])

    threads = [threading.Thread(target=run, args=(at,)) for at in (0, 1)]
    [one.start() for one in threads]
    [one.join() for one in threads]
    for (at, _), one in found.items():
        assert len(sums_of(one)) == rows[at]
        np.testing.assert_allclose(args[at][2], args[at][0].sum(1), rtol=1e-5, atol=1e-6)


def test_what_has_no_room_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "SPANS", 16)
    args = array(40, 3), np.full(40, 2), np.zeros(40, F32)
    want = sum(times for _, times in executions(row_sums.explain(*args).steps, [40]))
    sizes = 40  # one of each iteration, which takes a place
    found, _ = traced(tmp_path / "t.json", row_sums, args)
    kept = [one for one in found["traceEvents"] if one["ph"] == "X"]
    assert 8 <= len(kept) < 16 and found["otherData"]["dropped"] == want + 1 + sizes - 16
    assert {one["args"]["kind"] for one in kept} > {"call", "loop"}  # what is around is there


def test_the_usual_form_of_a_program_has_no_calls_that_record():
    _, args, _ = arguments("attend")
    assert "pto_record" not in attend.explain(*args).cpp
