# SPDX-License-Identifier: Apache-2.0
"""Libraries that are built for the installed framework: keys, seals, locks, failures."""

import dataclasses
import subprocess
import sys

import pytest

from pto.adapters import build
from pto.errors import Failure

SOURCE = '#include "pto/answer.h"\nextern "C" int answer() { return ANSWER; }\n'
COMPILER = """#!/bin/sh
[ "$1" = -shared ] && echo ran >> "{count}" && sleep {seconds}
exec g++ "$@"
"""
BUILD_IT = """
import pathlib, sys
from pto.adapters import build
folder = pathlib.Path(sys.argv[1])
build.ROOT = folder
print(build.build(build.Part("some", "answer", "the answer", "", "1.0", (), (folder / "a.cpp",),
                             (), (), ())))
"""


@pytest.fixture
def part(tmp_path, monkeypatch):
    """A part of one function, whose compiler counts the libraries in the file `count`."""
    (tmp_path / "pto").mkdir()
    (tmp_path / "pto/answer.h").write_text("#define ANSWER 42\n")
    (tmp_path / "a.cpp").write_text(SOURCE)
    monkeypatch.setattr(build, "ROOT", tmp_path)
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


def test_what_a_killed_build_left_is_swept(part):
    left = build.path(part).with_suffix(".part")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    build.build(part)
    assert not left.exists()


def test_a_failed_build_names_its_log_and_leaves_nothing_else(part, tmp_path):
    (tmp_path / "a.cpp").write_text("int answer() { return forty_two; }\n")
    with pytest.raises(Failure, match="building the answer failed with code 1: .*forty_two") as it:
        build.build(part)
    assert "without it: 41" in it.value.fix
    log = it.value.why.split()[-1]
    assert log in {str(file) for file in build.path(part).parent.iterdir()}
    assert build.built(part) is None and not list(tmp_path.rglob("*.part"))


def test_a_build_without_compiler_or_folder_says_what_to_do(part, tmp_path, monkeypatch):
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path / "a.cpp"))
    with pytest.raises(Failure, match="the cache folder cannot be written: ") as it:
        build.build(part)
    assert "PTO_CACHE_DIR" in it.value.fix
    for variable in ("PTO_CXX", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "pto"))
    with pytest.raises(Failure, match="no C\\+\\+ compiler was found to build the answer"):
        build.build(part)
