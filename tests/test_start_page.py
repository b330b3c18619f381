# SPDX-License-Identifier: Apache-2.0
"""docs/start.md: its blocks run, and what it says of installing is what the package has."""

import re
import subprocess
import sys
from pathlib import Path

import printed_pages
import pytest
import tomllib

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/start.md"
TEXT = PAGE.read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_blocks_print_what_the_page_says(tmp_path):
    assert "\n\n".join(printed_pages.differences(PAGE, tmp_path)) == ""


def test_the_extras_are_those_of_the_package():
    named = [re.findall(r"`(\w+)`", row) for row in re.findall(r"^\| (.*?) \|", TEXT, re.M)]
    assert sorted(sum(named[:-1], [])) == sorted(PROJECT["optional-dependencies"])
    for names in re.findall(r"\[([\w,]+)\]\"", TEXT):
        assert set(names.split(",")) <= set(PROJECT["optional-dependencies"])


def test_what_it_needs_is_what_the_sources_ask_for():
    said = " ".join(TEXT.split())
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or later" in said
    text = (ROOT / "pto/compiler/find_toolchain.cpp").read_text()
    gcc, clang = re.search(r"kGccMin = (\d+), kClangMin = (\d+);", text).groups()
    assert f"g++ {gcc} or clang {clang}, or later" in said


def test_the_commands_that_it_names_exist():
    usage = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True).stdout
    for command in re.findall(r"\./dev (\w+)", TEXT):
        assert f"./dev {command}" in usage
    assert (ROOT / "CONTRIBUTING.md").exists()


@pytest.mark.parametrize("command", re.findall(r"`python (-m pto [\w -]+)`", TEXT))
def test_a_command_of_the_package_runs(command):
    done = subprocess.run([sys.executable, *command.split()], capture_output=True, cwd=ROOT)
    assert done.returncode == 0 and done.stdout
