# SPDX-License-Identifier: Apache-2.0
"""Libraries that are built for the installed framework: keys, seals, locks, failures."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from pto.adapters import build
from pto.errors import Failure

SOURCE = '#include "pto/answer.h"\nextern "C" int answer() { return ANSWER; }\n'
COMPILER = """#!/bin/sh
case "$*" in *-shared*) echo ran >> "{count}"; sleep {seconds} ;; esac
exec g++ "$@"
"""
BUILD_IT = """
import pathlib, sys
from pto.adapters import build
folder = pathlib.Path(sys.argv[1])
print(build.build(build.Part("some", "answer", "the answer", "", "1.0", (), (folder / "a.cpp",),
                             (), (), ())))
"""


@pytest.fixture
def part(tmp_path, monkeypatch):
    """A part of one function, whose compiler counts the libraries in the file `count`."""
    (tmp_path / "pto").mkdir()
    (tmp_path / "pto/answer.h").write_text("#define ANSWER 42\n")
    (tmp_path / "a.cpp").write_text(SOURCE)
    monkeypatch.setenv("PTO_INCLUDE_DIR", str(tmp_path))
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path / "cache"))
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(count=tmp_path / "count", seconds=0))
    compiler.chmod(0o755)
    monkeypatch.setenv("PTO_CXX", str(compiler))
    return build.Part(
        framework="some", name="answer", title="the answer", without="without it: 41",
        version="1.0", identity=(), sources=(tmp_path / "a.cpp",), options=(), folders=(), links=(),
    )  # fmt: skip


def runs(tmp_path):
    return (tmp_path / "count").read_text().count("ran")


def test_a_library_is_built_once_and_loads(part, tmp_path):
    assert build.built(part) is None and build.load(part) is None
    assert build.build(part) == build.build(part) == build.built(part)
    assert build.load(part).answer() == 42 and runs(tmp_path) == 1
    build.build(part, force=True)
    assert runs(tmp_path) == 2


def test_all_that_a_library_depends_on_is_in_its_key(part, tmp_path, monkeypatch):
    paths = [build.path(part)]
    for changed in ({"version": "1.1"}, {"identity": ("git 7",)}, {"options": ("-DNDEBUG",)}):
        paths.append(build.path(dataclasses.replace(part, **changed)))
    for source in ("a.cpp", "pto/answer.h"):
        file = tmp_path / source
        file.write_text(file.read_text() + "\n")
        paths.append(build.path(part))
    monkeypatch.setenv("PTO_CXX", "g++")
    paths.append(build.path(part))
    assert len(set(paths)) == len(paths)
    assert build.path(dataclasses.replace(part, folders=("-I/elsewhere",))) == paths[-1]


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-1000]),
        lambda file: file.write_bytes(file.read_bytes().replace(b"\x2a", b"\x2b", 1)),
        lambda file: file.write_bytes(b""),
    ],
    ids=["truncated", "changed", "empty"],
)
def test_a_damaged_library_is_refused_and_built_again(part, tmp_path, damage):
    file = build.build(part)
    damage(file)
    with pytest.raises(Failure, match="the answer cannot be loaded: .* not as it was built") as it:
        build.load(part)
    assert str(file) in it.value.fix and "adapters build some" in it.value.fix
    assert build.build(part) == file and runs(tmp_path) == 2
    assert build.load(part).answer() == 42


def test_a_library_under_the_name_of_another_is_refused(part):
    other = dataclasses.replace(part, version="1.1")
    build.build(part).rename(build.path(other))
    with pytest.raises(Failure, match="built for version 1.1 but is damaged"):
        build.load(other)


def test_a_library_that_misses_a_symbol_is_refused(part, tmp_path):
    (tmp_path / "a.cpp").write_text("int nowhere(); int here = nowhere();\n")
    build.build(part)
    with pytest.raises(Failure, match="the answer cannot be loaded: .*nowhere"):
        build.load(part)


def test_processes_that_build_at_once_compile_once(part, tmp_path):
    (tmp_path / "compiler").write_text(COMPILER.format(count=tmp_path / "count", seconds=1))
    processes = [
        subprocess.Popen([sys.executable, "-c", BUILD_IT, tmp_path], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    printed = {process.communicate()[0] for process in processes}
    assert len(printed) == 1 and [process.returncode for process in processes] == [0, 0, 0]
    assert runs(tmp_path) == 1


def building(tmp_path, compiler):
    """A process that builds the part with this compiler, which writes its number into `count`."""
    (tmp_path / "compiler").write_text(compiler)
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD_IT, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert comes_true(lambda: (tmp_path / "count").exists() and runs(tmp_path))
    return process


def comes_true(condition):
    """Waits half a minute at most."""
    return any(condition() or time.sleep(0.02) for _ in range(1500))


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


ENDLESS = """#!/bin/sh
case "$*" in *-shared*) sleep 1000 & echo ran $$ $! >> "{count}"; wait ;; esac
exec g++ "$@"
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_compiler_ends_with_its_parent_however_that_ends(part, tmp_path, end):
    process = building(tmp_path, ENDLESS.format(count=tmp_path / "count"))
    pids = (tmp_path / "count").read_text().split()[1:]
    process.send_signal(end)
    process.communicate(timeout=30)
    gone = comes_true(lambda: all(map(is_gone, pids)))
    for pid in [] if gone else map(int, pids):
        os.kill(pid, signal.SIGKILL)
    assert gone and process.returncode != 0


def test_a_stopped_builder_does_not_stop_the_others(part, tmp_path):
    holder = building(tmp_path, ENDLESS.format(count=tmp_path / "count"))
    try:
        holder.send_signal(signal.SIGSTOP)
        (tmp_path / "compiler").write_text(COMPILER.format(count=tmp_path / "count", seconds=0))
        other = subprocess.run(
            [sys.executable, "-c", BUILD_IT, tmp_path], capture_output=True, timeout=30
        )
        assert other.returncode == 0 and runs(tmp_path) == 2
    finally:
        holder.kill()
        holder.communicate(timeout=30)


def test_a_folder_may_have_a_relative_name_that_looks_like_an_option(part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PTO_CACHE_DIR", "-cache")
    assert build.load(part) is None
    built = build.build(part)
    assert built.is_relative_to(tmp_path / "-cache") and build.load(part).answer() == 42


def test_what_a_killed_build_left_is_swept_after_an_hour(part):
    folder = build.path(part).parent
    for name, hours in (("work-old", 2), ("work-new", 0)):
        (folder / name).mkdir(parents=True)
        os.utime(folder / name, (time.time() - hours * 3600,) * 2)
    build.build(part)
    assert not (folder / "work-old").exists() and (folder / "work-new").exists()


def test_a_failed_build_names_its_log_and_leaves_nothing_else(part, tmp_path):
    (tmp_path / "a.cpp").write_text("int answer() { return forty_two; }\n")
    with pytest.raises(Failure, match="building the answer: .*exit status 1\n.*forty_two") as it:
        build.build(part)
    log = it.value.fix.partition("the whole output is kept in ")[2].partition("; without it: 41")[0]
    left = [file for file in build.path(part).parent.iterdir() if file.name != "swept.txt"]
    assert left == [pathlib.Path(log)] and build.built(part) is None
    assert "-shared" in left[0].read_text() and "forty_two" in left[0].read_text()


def test_a_build_without_compiler_or_folder_says_what_to_do(part, tmp_path, monkeypatch):
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path / "a.cpp"))
    with pytest.raises(Failure, match="the cache folder .*a.cpp/some cannot be written: ") as it:
        build.build(part)
    assert "PTO_CACHE_DIR" in it.value.fix
    monkeypatch.delenv("PTO_CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "pto"))
    assert build.load(part) is None
    with pytest.raises(Failure, match=r"building the answer: no C\+\+ compiler was found") as it:
        build.build(part)
    assert "without it: 41" in it.value.fix


def test_a_source_that_is_missing_is_named(part, tmp_path):
    missing = dataclasses.replace(part, sources=(tmp_path / "gone.cpp",))
    with pytest.raises(Failure, match="building the answer: the source .*gone.cpp cannot be read"):
        build.build(missing)
