# SPDX-License-Identifier: Apache-2.0
"""The checker: programs that have each mistake, and programs that have none."""

from pathlib import Path

import numpy as np
import pytest

import pto
from pto.errors import Failure, InvalidType
from tests.test_runtime_chip import FAN_IN, FAN_OUT, LOOP, REDUCE, SYMBOLS, WAITS
from tests.test_runtime_chip import arguments as of_programs

FOLDER = Path(__file__).parent / "chip"
CLEAN, RACE, NO_DEP, INPUT, SURPLUS, FAILS = range(6)
LINES = (FOLDER / "faulty.cpp").read_text().splitlines()


def package_of(source, symbols):
    kernels = [{"source": FOLDER / "kernels.cpp", "symbol": symbol} for symbol in symbols]
    return pto.compile(orch=FOLDER / source, kernels=kernels)


@pytest.fixture(scope="module")
def package():
    return package_of("faulty.cpp", ("mix", "fails"))


@pytest.fixture
def rt(package):
    with pto.Runtime(level="chip", platform="cpu") as rt:
        rt.register("faulty", pkg=package)
        yield rt


def arguments(program):
    x, y = np.arange(4, dtype=np.int64), np.arange(4, dtype=np.int64)
    return [pto.Arg.scalar(program), pto.Arg.inout(x), pto.Arg.inout(y)]


def test_a_program_without_mistakes_is_clean_and_has_run(rt):
    args = arguments(CLEAN)
    report = rt.check("faulty", args)
    assert report.is_clean and not report.surplus
    assert (report.tasks, report.edges, report.unexamined) == (2, 1, 0)
    assert (args[1].data == 3 * np.arange(4) + np.arange(4) + 1).all()
    assert str(report) == (
        "faulty: 2 tasks, 1 edges: 0 races, 0 undeclared writes, 0 surplus edges"
    )


def test_the_programs_of_the_other_tests_are_clean():
    ints = lambda *shape: np.zeros(shape, np.int64)  # noqa: E731
    with pto.Runtime(level="chip", platform="cpu", checker=True) as rt:
        rt.register("programs", pkg=package_of("programs.cpp", SYMBOLS))
        for program, arrays in (
            (FAN_IN, (ints(8), ints(8, 8))),
            (FAN_OUT, (ints(10), ints(6))),
            (LOOP, (ints(1), ints(20))),
            (REDUCE, (ints(1), np.arange(10))),
            (WAITS, (ints(1), ints(9), ints(1))),
        ):
            report = rt.check("programs", of_programs(program, *arrays))
            assert report.is_clean, report
            rt.run("programs", of_programs(program, *(a * 0 for a in arrays)))


def test_a_race_names_both_tasks_their_lines_and_the_bytes(rt):
    report = rt.check("faulty", arguments(RACE))
    (race,) = report.races
    line = 1 + next(i for i, text in enumerate(LINES) if "the race" in text)
    assert (race.first.id, race.second.id) == (1, 2) and not report.writes
    assert race.first.kernel == race.second.kernel == "mix"
    assert race.first.site.endswith(f"faulty.cpp:{line - 1}")
    assert race.second.site.endswith(f"faulty.cpp:{line}")
    assert race.first_access == race.second_access == "reads and writes"
    assert (race.bytes.memory, race.bytes.begin, race.bytes.end) == ("argument 0", 8, 24)
    assert "16 bytes of argument 0, from 8 to 23; no path of edges orders them" in str(report)
    (race,) = rt.check("faulty", arguments(NO_DEP)).races
    assert (race.first_access, race.second_access) == ("reads and writes", "reads")


def test_a_write_into_an_input_is_found(rt):
    report = rt.check("faulty", arguments(INPUT))
    (write,) = report.writes
    assert not report.is_clean and write.task.id == 1
    assert write.bytes.memory == "argument 0" and write.bytes.begin == 0
    assert "changed a tensor that it declared as input or no_dep" in str(report)


def test_an_edge_that_nothing_needs_is_no_fault_but_said(rt):
    report = rt.check("faulty", arguments(SURPLUS))
    (edge,) = report.surplus
    assert report.is_clean and not edge.is_implied
    assert (edge.first.id, edge.second.id) == (1, 2)
    assert "nothing that they touch needs it" in str(report)


def test_a_checking_runtime_fails_runs_for_what_it_finds(package):
    with pto.Runtime(level="chip", platform="cpu", checker=True) as rt:
        rt.register("faulty", pkg=package)
        for program in (CLEAN, SURPLUS):
            rt.run("faulty", arguments(program))
        for program in (RACE, NO_DEP, INPUT):
            with pytest.raises(Failure, match=r"(?s)faulty: (race|write): .*another order"):
                rt.run("faulty", arguments(program))
        run = rt.submit("faulty", arguments(RACE))
        with pytest.raises(Failure, match="race: task 1"):
            run.result(60)
        with pytest.raises(
            Failure, match=r"^task \d+ \(.*failed while it was checked: the kernel.s own words"
        ):
            rt.run("faulty", arguments(FAILS))
    with pytest.raises(InvalidType, match="checker is 1"):
        pto.Runtime(level="chip", platform="cpu", checker=1)
