# SPDX-License-Identifier: Apache-2.0
"""./dev test NAME and ./dev test pto/FOLDER find their tests; the minutes stand by folder."""

import threading
from types import SimpleNamespace

import choose
import pytest
import run
from laws import LONGER, QUICK, Law, laws
from minutes import Minutes

FOUND = [
    Law("pto/base/a_test.cpp", "Sums", "are_exact", QUICK),
    Law("pto/base/a_test.cpp", "Sums", "are_exact_in_f64", LONGER),
    Law("tests/test_sums.py", "", "test_sums_are_exact", QUICK),
]


def test_a_name_is_that_of_a_test_or_a_part_of_one():
    one = choose.by_name("are_exact", FOUND)
    assert one.cpp == {"pto/base/a_test.cpp": ["*Sums.are_exact*"]} and not one.python
    assert choose.by_name("Sums.are_exact", FOUND) == one
    part = choose.by_name("exact", FOUND)
    assert len(part.cpp["pto/base/a_test.cpp"]) == 2
    assert part.python == ["tests/test_sums.py::test_sums_are_exact"]


def test_an_unknown_name_is_refused_with_its_neighbours():
    with pytest.raises(SystemExit, match="no test 'are_exakt'(.|\n)*why: (.|\n)*fix: .*are_exact"):
        choose.by_name("are_exakt", FOUND)
    with pytest.raises(SystemExit) as refused:
        choose.by_name("sums_are_exakt", FOUND)
    assert str(refused.value).count("test_sums_are_exact") == 1


def test_a_folder_stands_for_what_includes_it(tmp_path):
    files = {
        "pto/base/a.hpp": "",
        "pto/ir/b.hpp": '#include "pto/base/a.hpp"\n',
        "pto/ir/b_test.cpp": "#include <pto/ir/b.hpp>\n",
        "pto/operators/c_test.cpp": '#include "pto/operators/c.hpp"\n',
        "tests/test_jit.py": "",
        "tests/test_tidy.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = choose.by_folder("pto/base/", tmp_path)
    assert list(found.cpp) == ["pto/ir/b_test.cpp"]
    assert found.python == ["tests/test_jit.py", "tests/errors"]
    assert choose.by_folder("pto/operators", tmp_path).cpp == {"pto/operators/c_test.cpp": []}


def test_each_cpp_test_is_in_a_program():
    build = choose.ROOT / "build" / "default"
    files = {law.file for law in laws() if law.suite}
    found = choose.programs(build, list(files))
    assert files and not files - {source for sources in found.values() for source in sources}


def test_each_python_test_has_a_subject():
    patterns = [p for row in list(choose.SUBJECTS)[1:] for p in row.split("|")]
    found = {path for p in patterns for path in choose.ROOT.glob(f"tests/{p}.py")}
    assert not set(choose.ROOT.glob("tests/test_*.py")) - found


def test_options_their_values_and_paths_are_for_pytest():
    assert run.is_of_pytest("-q", []) and run.is_of_pytest("sums and not f64", ["-k"])
    assert run.is_of_pytest("tests/test_dev.py::test_x", []) and not run.is_of_pytest("Sums.a", [])


def test_all_steps_count_of_a_log_that_was_written_anew(tmp_path):
    log, line = tmp_path / "log", "0\t60000\t1\tCMakeFiles/pto.dir/pto/base/a.cpp.o\tf\n"
    log.write_text("# ninja log v7\n" + line)
    for start in range(len(log.read_text())):  # where the old, longer one ended
        minutes = Minutes()
        minutes.built(log, start)
        assert minutes.seconds["pto/base"]["build"] == 60
    minutes = Minutes()
    minutes.built(log, len(log.read_text()))
    assert not minutes.seconds


def test_minutes_are_those_of_the_folder_and_of_the_subject(tmp_path):
    log, junit = tmp_path / "log", tmp_path / "junit.xml"
    old = "# ninja log v7\n0\t9000\t1\tCMakeFiles/pto.dir/pto/base/old.cpp.o\tf\n"
    log.write_text(
        old + "0\t60000\t1\tCMakeFiles/pto.dir/pto/base/a.cpp.o\tf\n"
        "0\t18000\t1\tCMakeFiles/pto.dir/Unity/unity_pto.tasks.book_cxx.cxx.o\tf\n"
        "5\t30005\t1\tCMakeFiles/base_test.dir/pto/base/a_test.cpp.o\tf\n"
        "0\t1000\t1\tlib.so\tf\n"
    )
    junit.write_text('<testsuite><testcase name="base" time="120"/></testsuite>')
    minutes = Minutes()
    minutes.built(log, len(old))
    minutes.ran(junit)
    minutes.write(tmp_path / "minutes.json")
    minutes = Minutes.read(tmp_path / "minutes.json")

    class Report:
        nodeid, duration = "tests/test_jit_views.py::test_a[x::y]", 90

    minutes.tested([Report])
    rows = [line.rsplit(maxsplit=2) for line in minutes.table().splitlines()[1:]]
    assert rows == [
        ["C++ tests of base", "0.0", "2.0"],
        ["tests/test_jit*", "0.0", "1.5"],
        ["pto/base", "1.0", "0.0"],
        ["pto/base tests", "0.5", "0.0"],
        ["pto/tasks", "0.3", "0.0"],
        ["less", "0.0", "0.0"],
        ["sum", "1.8", "3.5"],
    ]


def test_cpp_tests_of_one_build_run_while_the_next_one_compiles(tmp_path, monkeypatch):
    builds = ["default", *run.SANITIZERS]
    begun, done = {name: threading.Event() for name in builds}, []

    def cmake(preset, target):
        begun[preset].set()
        done.append(f"build {preset}")

    def shown(command, **more):
        words = " ".join(map(str, command))
        for preset, following in zip(builds, [*builds[1:], builds[-1]], strict=True):
            if f"build/{preset} " in words:
                assert begun[following].wait(60), f"{following} waits for the tests of {preset}"
                (tmp_path / f"ctest_{preset}.xml").write_text("<testsuite/>")
                return int(preset == "tsan")
        done.append("pytest" if "pytest" in words else "style")
        return 0

    fake = SimpleNamespace(
        BUILD=tmp_path / "build", LOGS=tmp_path, BIN=tmp_path, PYTHON="python", JOBS="2",
        cmake=cmake, shown=shown, say=done.append, fmt=lambda check: 0,
    )  # fmt: skip
    for preset in builds:
        (fake.BUILD / preset).mkdir(parents=True)
        run.log_of(fake, preset).write_text("")
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    assert run.everything(fake, deep=False) == 1
    assert done[-2:] == ["pytest", "FAILED: C++ tests under tsan"]
    assert {"build tsan", "build asan", "style"} <= {*done}
