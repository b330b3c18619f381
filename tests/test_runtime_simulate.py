# SPDX-License-Identifier: Apache-2.0
"""Simulated runs, and reports with what would help: laws, and programs whose answer is known."""

from pathlib import Path

import numpy as np
import pytest

import pto
from pto.errors import InvalidValue
from pto.tasks import Scaling, SimulatedRun

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
    """Of the program that is run, and of its graph that is replayed."""
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


def test_the_report_says_what_would_help_most(rt, tmp_path):
    rt.trace(tmp_path / "t.json", level=3)
    rt.run("sleepers", arguments(WIDE))
    report = rt.report()
    assert report.changes[0].kind in ("workers", "kernel") and len(report.changes) <= 3
    workers = next(change for change in report.changes if change.kind == "workers")
    assert workers.what == "4 workers instead of 2" and 0.1 < workers.gain < 0.9
    assert workers.predicted_s < report.duration_s
    assert 1.1 < report.overlap <= 2 and "workers busy on average" in str(report)
    assert "less with 4 workers instead of 2" in str(report)

    rt.run("sleepers", arguments(CHAIN))
    report = rt.report()
    assert [change.kind for change in report.changes][0] == "kernel"
    assert report.changes[0].what == "kernel sleeps at twice its speed"
    assert all(change.kind != "workers" for change in report.changes)
    assert report.overlap <= 1 and report.critical_s <= report.busy_s
    assert report.wait_for_dependency_s > 0.5 * report.busy_s  # of the worker that has nothing

    rt.run("sleepers", arguments(BUFFER))
    buffer = next(change for change in rt.report().changes if change.kind == "buffer")
    lines = (FOLDER / "sleepers.cpp").read_text().splitlines()
    number = 1 + next(i for i, line in enumerate(lines) if "line that overwrites" in line)
    assert f"sleepers.cpp:{number}" in buffer.what and 0.1 < buffer.gain < 0.9


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


@pytest.mark.parametrize("level", [-1, 4, 1.0, True, "3", None])
def test_levels_that_do_not_exist_are_refused(rt, level):
    with pytest.raises(InvalidValue, match="trace: level is"):
        rt.trace("t.json", level=level)
