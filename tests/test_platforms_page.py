# SPDX-License-Identifier: Apache-2.0
"""docs/platforms.md says what pyproject.toml and the sources say, and its blocks run."""

import os
import re
from pathlib import Path

import printed_pages
import pytest
import tomllib

import pto
from pto.__main__ import ADAPTERS, PREBUILT
from pto.config import TARGETS
from pto.tasks.compilation import PLATFORMS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/platforms.md"
TEXT = PAGE.read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def rows(heading):
    """The cells of the table of a section, without its head."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (.*) \|$", section, re.M)[1:]
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


def source(file):
    return (ROOT / file).read_text()


def test_python_and_numpy_are_those_of_the_project():
    assert f"| Python | {PROJECT['requires-python'].removeprefix('>=')} and later | " in TEXT
    (numpy,) = PROJECT["dependencies"]
    assert f"| NumPy | {numpy.removeprefix('numpy>=')} and later; before 2 with MindSpore |" in TEXT


def test_compilers_are_those_that_are_looked_for():
    text = source("pto/compiler/find_toolchain.cpp")
    gcc, clang = re.search(r"kGccMin = (\d+), kClangMin = (\d+);", text).groups()
    assert f"g++ {gcc} and later, clang {clang} and later" in TEXT
    names = re.findall(r'"([^"]+)"', re.search(r"kNames\[\] = \{(.*?)\};", text, re.S).group(1))
    assert names[:3] == ["g++", "c++", "clang++"]
    gcc, clang = ([n for n in names[3:] if n.startswith(k)] for k in ("g++", "clang"))
    said = " ".join(TEXT.split())
    assert f"`{gcc[0]}` to `{gcc[-1]}`, then `{clang[0]}` to `{clang[-1]}`" in said


def test_targets_and_their_flags_are_those_of_the_machine():
    flags = re.search(r"kFlags\[\] = \{(.*?)\};", source("pto/base/machine.cpp"), re.S).group(1)
    flags = re.findall(r'"([^"]*)"', flags)
    found = [(name.strip("`"), flag.strip("`")) for name, _, flag in rows("CPUs")]
    assert found == [*zip(TARGETS[1:],
                          ["none", *flags[1:]], strict=True)]  # fmt: skip


def test_chips_and_their_buffers_are_those_of_the_instruction_set():
    text = source("pto/isa/kernel/chip.hpp")
    names = re.findall(r'"([^"]+)"', re.search(r"kNames\[kBuffers\] = \{(.*?)\};", text, re.S)[1])
    sizes = re.search(r"kKilobytes\[2\]\[kBuffers\] = \{\{(.*?)\},\s*\{(.*?)\}\}", text).groups()
    sizes = [one.split(", ") for one in sizes]
    assert rows("Simulated chips") == [list(row) for row in zip(names, *sizes, strict=True)]
    assert all(f'"{name}"' in TEXT for name in PLATFORMS)


def test_frameworks_are_the_extras_of_the_package():
    found = rows("Frameworks")
    assert [row[2].strip("`") for row in found] == list(ADAPTERS)
    for _, version, extra, built in found:
        extra = extra.strip("`")
        assert re.findall(r"`(.*?)`", version) == PROJECT["optional-dependencies"][extra]
        assert (built == "nothing") == (extra in PREBUILT)
        assert built == "nothing" or f"`python -m pto adapters build {extra}`" in built


@pytest.fixture
def settings(monkeypatch):
    """The page changes settings; they come back."""
    before = pto.config.cache_dir
    monkeypatch.setenv("PATH", os.environ["PATH"])
    yield
    pto.config.cache_dir, pto.config.interpret = before, False


def test_the_blocks_print_what_the_page_says(settings, tmp_path):
    assert "\n\n".join(printed_pages.differences(PAGE, tmp_path)) == ""
