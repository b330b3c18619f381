# SPDX-License-Identifier: Apache-2.0
"""Captured graphs, traces and reports of level chip."""

import json
import warnings

import numpy as np
import pytest

import pto
from pto.errors import Failure, InvalidType
from tests.test_runtime_chip import (
    FAILS,
    FAN_IN,
    FAN_OUT,
    FOLDER,
    LOOP,
    REDUCE,
    SYMBOLS,
    WAITS,
    arguments,
    fails,
    run,
    runtime,
)


@pytest.fixture(scope="module")
def package():
    kernels = [{"source": FOLDER / "kernels.cpp", "symbol": symbol} for symbol in SYMBOLS]
    return pto.compile(orch=FOLDER / "programs.cpp", kernels=kernels)


@pytest.fixture(params=[1, 0], ids=["one worker", "all workers"])
def rt(request, package):
    with runtime(package, workers=request.param) as rt:
        yield rt


def test_capturing_runs_nothing_and_a_replay_serves_other_arrays(rt):
    arrays = np.zeros(100, np.int64), np.zeros(64, np.int64)
    graph = rt.capture("programs", arguments(FAN_OUT, *arrays))
    assert not arrays[0].any() and not arrays[1].any()
    for elements, sums in ((np.zeros(100, np.int64), np.zeros(64, np.int64)), arrays):
        graph.replay(arguments(FAN_OUT, elements, sums))
        assert (elements == np.arange(100)).all() and (sums == 4950).all()
    assert graph.recaptures == 0 and graph.tasks == 164 and graph.edges > 0


def test_a_graph_is_replayed_again_and_again(rt):
    buffer, seen = np.zeros(1, np.int64), np.empty(500, np.int64)
    graph = rt.capture("programs", arguments(LOOP, buffer, seen))
    for times in range(1, 4):
        graph.replay(arguments(LOOP, buffer, seen))
        assert (seen == np.arange(500) + 500 * (times - 1)).all() and buffer == [500 * times]
    assert repr(graph) == f"<CapturedGraph 'programs': {graph.tasks} tasks, {graph.edges} edges>"


def test_other_shapes_and_scalars_are_captured_anew_with_a_warning(rt):
    total, elements = np.zeros(1, np.int64), np.arange(1000)
    graph = rt.capture("programs", arguments(REDUCE, total, elements))
    with pytest.warns(RuntimeWarning, match="graph 'programs' is captured anew"):
        graph.replay(arguments(REDUCE, total, elements[::2]))
    assert total == [249500] and graph.recaptures == 1
    sums, rounds = np.zeros(64, np.int64), np.empty((64, 64), np.int64)
    with pytest.warns(RuntimeWarning):
        graph.replay(arguments(FAN_IN, sums, rounds))  # another program by its scalar
    assert (sums == 2016).all() and graph.recaptures == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.replay(arguments(FAN_IN, sums, rounds))


def test_derived_scalars_are_computed_again_for_each_replay(rt):
    derived = 16  # of programs.cpp: min(2 n, 64), x / (n + 1), 100 / n, m

    def replay(n, x, m):
        out = np.zeros(4, np.int64)
        graph.replay(arguments(derived, out, scalars=(n, x, m)))
        return out[0], out[1:2].view(np.float64)[0], out[2], out[3]

    graph = rt.capture("programs", arguments(derived, np.zeros(4, np.int64), scalars=(4, 1.0, 9)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert replay(4, 1.0, 9) == (8, 0.2, 25, 9)
        assert replay(7, 2.0, 9) == (14, 0.25, 14, 9)
        assert replay(99, -1e300, 9) == (64, -1e300 / 100, 1, 9)
        with pytest.raises(ValueError, match="a derived scalar divides by zero: 100 / 0"):
            replay(0, 1.0, 9)
        assert replay(4, 1.0, 9) == (8, 0.2, 25, 9) and graph.recaptures == 0
    with pytest.warns(RuntimeWarning, match="captured anew"):
        assert replay(3, 1.0, 8) == (6, 0.25, 33, 8)  # m was read as a number
    assert graph.recaptures == 1
    with pytest.raises(RuntimeError, match="a derived scalar divides by zero: 100 / 0"):
        rt.run("programs", arguments(derived, np.zeros(4, np.int64), scalars=(0, 1.0, 9)))


def test_what_waits_cannot_be_captured(rt):
    arrays = np.zeros(1, np.int64), np.zeros(9, np.int64), np.zeros(1, np.int64)
    with pytest.raises(Failure, match="waits for a tensor while it is captured"):
        rt.capture("programs", arguments(WAITS, *arrays))
    with pytest.raises(KeyError, match="registered: 'programs'"):
        rt.capture("other", [])


def test_a_trace_has_a_lane_a_worker_an_event_a_task_and_an_arrow_an_edge(package, tmp_path):
    with runtime(package, workers=2) as rt:
        path = tmp_path / "t.json"
        with pytest.raises(Failure, match="no run of this runtime was traced"):
            rt.report()
        rt.trace(path, level=3)
        sums, elements = np.zeros(64, np.int64), np.empty((8, 8), np.int64)
        report = run(rt, FAN_IN, sums, elements)
        events = json.loads(path.read_text())["traceEvents"]
        kinds = [event["ph"] for event in events]
        assert kinds.count("X") == report.tasks == 72
        assert kinds.count("s") == kinds.count("f") >= 64
        lanes = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
        assert lanes == {"worker 0", "worker 1"}
        tasks = [event for event in events if event["ph"] == "X"]
        assert all("programs.cpp:" in event["args"]["source"] for event in tasks)
        assert {event["args"]["task"] for event in tasks} == set(range(1, 73))

        summary = rt.report()
        assert summary.program == "programs" and summary.workers == 2 and summary.dropped == 0
        assert sum(kernel.calls for kernel in summary.kernels) == 72
        assert 0 < summary.critical_s <= summary.duration_s
        assert len(summary.critical) == 2  # an element and its sum
        assert "critical path" in str(summary) and "on 2 workers" in str(summary)

        rt.trace(None)
        path.unlink()
        run(rt, FAN_IN, sums, elements)
        assert not path.exists()


def failed_slices(path):
    """Name and text of what a trace shows as failed."""
    events = json.loads(path.read_text())["traceEvents"]
    marked = [event for event in events if event.get("cname") == "terrible"]
    assert marked == [event for event in events if "failed" in event.get("args", {})]
    return [(event["name"], event["args"]["failed"]) for event in marked]


def test_a_failed_replay_leaves_its_trace(rt, tmp_path):
    graph = rt.capture("programs", arguments(FAILS, np.zeros(3, np.int64)))
    rt.trace(tmp_path / "t.json")
    with pytest.raises(Failure, match="own words"):
        graph.replay(arguments(FAILS, np.zeros(3, np.int64)))
    assert failed_slices(tmp_path / "t.json") == [("fails", "the kernel's own words")]


def test_a_failed_run_leaves_its_trace_and_a_bad_path_says_so(rt, tmp_path):
    path = tmp_path / "t.json"
    rt.trace(path)
    sums, elements = np.zeros(64, np.int64), np.empty((8, 8), np.int64)
    run(rt, FAN_IN, sums, elements)
    assert rt.report().kernels
    fails(rt, FAILS, np.zeros(3, np.int64))
    assert failed_slices(path) == [("fails", "the kernel's own words")]
    with pytest.raises(Failure, match=r"run, of 'programs', failed(.|\n)*studio .*t.json"):
        rt.report()  # it does not tell of the run before
    rt.trace(tmp_path / "missing" / "t.json")
    with pytest.raises(Failure, match="trace cannot be written"):
        rt.run("programs", arguments(FAN_IN, sums, elements))
    with pytest.raises((TypeError, InvalidType)):
        rt.trace(7)


def test_a_closed_runtime_captures_and_traces_nothing(package):
    rt = runtime(package)
    buffer, seen = np.zeros(1, np.int64), np.empty(5, np.int64)
    graph = rt.capture("programs", arguments(LOOP, buffer, seen))
    rt.close()
    for call in (
        lambda: rt.capture("programs", []),
        lambda: rt.trace("t.json"),
        lambda: graph.replay(arguments(LOOP, buffer, seen)),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    assert isinstance(graph, pto.tasks.graph.CapturedGraph)
