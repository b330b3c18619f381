# SPDX-License-Identifier: Apache-2.0
"""Simulated runs, and reports with what would help: laws, and programs whose answer is known."""

from pathlib import Path

import numpy as np
import pytest

import pto
from pto.errors import InvalidValue
from pto.tasks import Scaling, SimulatedRun
from pto.tasks.report import report_of

FOLDER = Path(__file__).parent / "chip"
WIDE, CHAIN, BUFFER = range(3)
TASKS, MILLISECONDS = 16, 3


@pytest.fixture(scope="module")
def package():
    kernels = [{"source": FOLDER / "kernels.cpp", "symbol": "sleeps"}]
    return pto.compile(orch=FOLDER / "sleepers.cpp", kernels=kernels)


@pytest.fixture
def rt(package):
    with pto.Runtime(level="chip", platform="cpu", workers=2) as rt:
        rt.register("sleepers", pkg=package)
        yield rt


def arguments(program, tasks=TASKS):
    scalars = map(pto.Arg.scalar, (program, tasks, MILLISECONDS))
    return [*scalars, pto.Arg.inout(np.zeros(tasks, np.int64))]


def simulations(rt, program, cores):
    """Simulates the program as it is run, and its graph as it is replayed."""
    yield rt.simulate("sleepers", arguments(program), cores=cores)
    graph = rt.capture("sleepers", arguments(program))
    yield graph.simulate(arguments(program), cores=cores)


@pytest.mark.parametrize("program", [WIDE, CHAIN, BUFFER])
def test_simulated_times_keep_to_the_bounds_that_every_schedule_has(rt, program):
    for scaling in simulations(rt, program, [1, 2, 3, 8, 64, 1024]):
        one = scaling[0]
        assert one.speedup == 1 and one.busy_s <= one.predicted_s <= 1.5 * one.busy_s
        for run in scaling:
            assert run.predicted_s >= run.critical_s
            assert run.predicted_s >= run.busy_s / run.cores
            assert run.predicted_s <= 1.2 * (one.predicted_s / run.cores + run.critical_s)
            assert run.speedup == pytest.approx(one.predicted_s / run.predicted_s)
            assert 0 < run.busy_share <= 1


def test_wide_work_scales_and_a_chain_does_not(rt):
    for wide in simulations(rt, WIDE, 8):
        assert wide.speedup > 2 and wide.cores == 8
    for chain in simulations(rt, CHAIN, 8):
        assert chain.speedup < 1.2 and chain.critical_s == pytest.approx(chain.busy_s)


def test_a_simulation_runs_the_program_once_and_prints_a_table(rt):
    scaling = rt.simulate("sleepers", arguments(WIDE, 4), cores=[1, 4])
    text = str(scaling).splitlines()
    assert isinstance(scaling, Scaling) and isinstance(scaling[0], SimulatedRun)
    assert len(scaling) == 2 and text[0].startswith("sleepers: critical path ")
    assert "1 cores" in text[1] and "4 cores" in text[2] and "x one core" in text[2]
    assert "critical path" in str(scaling[1]) and "4 cores" in str(scaling[1])
    with pytest.raises(pto.errors.Failure, match="no run of this runtime was traced"):
        rt.report()  # it leaves nothing behind


@pytest.mark.parametrize("cores", [0, -1, 1025, 2.0, True, "4", None, [], [2, 0]])
def test_numbers_of_cores_that_cannot_be_simulated_are_refused(rt, cores):
    graph = rt.capture("sleepers", arguments(WIDE))
    for simulate in (lambda: rt.simulate("sleepers", arguments(WIDE), cores=cores),
                     lambda: graph.simulate(arguments(WIDE), cores=cores)):  # fmt: skip
        with pytest.raises(InvalidValue, match="cores is"):
            simulate()
    with pytest.raises(KeyError, match="registered: 'sleepers'"):
        rt.simulate("others", cores=2)


class FixedTrace:
    """The trace of a run of one second on two workers, whose simulation takes 500 ns."""

    def __init__(self, advice):
        self.advice = lambda: (500, advice)

    def summary(self):
        times = dict.fromkeys(("duration_ns", "busy_ns", "critical_ns"), 10**9)
        rest = ("idle_while_ready_ns", "starved_ns", "waited_ns", "tracing_ns", "dropped")
        return {**times, **dict.fromkeys(rest, 0), "level": 3, "workers": 2, "kernels": [],
                "critical": [1], "is_replay": False, "is_simulated": True}  # fmt: skip


def test_the_report_says_what_would_help_most():
    """Of known times; pto/tasks/book/advice_test.cpp says which changes help known runs."""
    advice = [
        ("workers", "4 workers instead of 2", 250),
        ("kernel", "kernel a at twice its speed", 300),
        ("split", "task 1 in two halves", 400),
        ("buffer", "the fourth best", 450),
    ]
    report = report_of("it", FixedTrace(advice), "t.json", ())
    assert [change.kind for change in report.changes] == ["workers", "kernel", "split"]
    assert [change.gain for change in report.changes] == pytest.approx([0.5, 0.4, 0.2])
    assert [change.predicted_s for change in report.changes] == pytest.approx([25e-8, 3e-7, 4e-7])
    assert report.overlap == 1 and report.busy_share == 0.5
    assert "1.00 workers busy on average, 50% of their time in kernels" in str(report)
    assert "  50% less with 4 workers instead of 2: 250 ns" in str(report)
    report = report_of(
        "it", FixedTrace([("workers", "what gains next to nothing", 499)]), "t.json", ()
    )
    assert report.changes == () and "no single change would help" in str(report)


def test_the_report_of_a_run_says_what_holds_however_long_its_tasks_took(rt, tmp_path, monkeypatch):
    monkeypatch.setattr("pto.advice._CHANGES", 100)
    monkeypatch.setattr("pto.advice._LEAST_GAIN", 0)
    rt.trace(tmp_path / "t.json", level=3)

    def report_with(program):
        rt.run("sleepers", arguments(program))
        report = rt.report()
        gains = [change.gain for change in report.changes]
        assert gains == sorted(gains, reverse=True) and all(0 < gain < 1 for gain in gains)
        assert 0 < report.critical_s <= report.busy_s and 0 < report.overlap <= 2
        return report, {change.kind: change for change in report.changes}

    report, changes = report_with(WIDE)
    assert len(report.critical) == 1 and "buffer" not in changes
    assert changes["kernel"].what == "kernel sleeps at twice its speed"

    report, changes = report_with(CHAIN)
    assert len(report.critical) == TASKS and "workers" not in changes
    assert report.overlap <= 1 and changes["kernel"].gain > changes["split"].gain

    report, changes = report_with(BUFFER)
    lines = (FOLDER / "sleepers.cpp").read_text().splitlines()
    number = 1 + next(i for i, line in enumerate(lines) if "line that overwrites" in line)
    assert f"sleepers.cpp:{number}" in changes["buffer"].what


@pytest.mark.parametrize("level", range(4))
def test_each_level_of_a_trace_reports_what_it_keeps(rt, tmp_path, level):
    path = tmp_path / "t.json"
    rt.trace(path, level=level)
    rt.run("sleepers", arguments(CHAIN, 3))
    graph = rt.capture("sleepers", arguments(CHAIN, 3))
    reports = [rt.report()]
    path.unlink()
    graph.replay(arguments(CHAIN, 3))
    reports.append(rt.report())
    assert path.exists()
    for report, is_replay in zip(reports, (False, True), strict=True):
        assert report.level == level and report.is_replay == is_replay
        assert [(kernel.kernel, kernel.calls) for kernel in report.kernels] == [("sleeps", 3)]
        assert (report.busy_s > 0.008) == (level > 0) == (report.tracing_s > 0)
        assert (report.critical_s is not None) == (level == 3) == bool(report.critical)
        assert ("critical path   " in str(report)) == (level == 3) == bool(report.changes)
        assert ("tracing took about" in str(report)) == (level > 0)
        assert ("trace(path, level=3)" in str(report)) == (level < 3)
        assert str(report).startswith("replay of ") == is_replay


def test_a_report_names_the_file_that_its_run_wrote(rt, tmp_path):
    path = tmp_path / "t.json"
    rt.trace(path)
    run = rt.submit("sleepers", arguments(CHAIN, 3))
    rt.trace(None)
    run.result()
    assert rt.report().trace == str(path) and path.exists()


@pytest.mark.parametrize("level", [-1, 4, 1.0, True, "3", None])
def test_levels_that_do_not_exist_are_refused(rt, level):
    with pytest.raises(InvalidValue, match="trace: level is"):
        rt.trace("t.json", level=level)
