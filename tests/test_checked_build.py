# SPDX-License-Identifier: Apache-2.0
"""PTO_CHECKED in programs: without exceptions, and beside objects that do not check."""

import functools
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "cpp_route/unwritten.cpp"
EXAMPLES = sorted((HERE.parent / "examples/kernels").glob("*.cpp"))
SAYS = """block 1: TADD (d, a, b): source 2, a 1 x 64 tile in Vec, was never written
  why: an instruction reads the valid regions of its sources
  fix: load or compute the tile first
"""


@functools.cache
def config(option: str) -> list[str]:
    command = [sys.executable, "-m", "pto", "config", option]
    return shlex.split(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("compiler", ["g++", "clang++-14"])
def test_a_failure_leaves_its_block_without_exceptions_and_only_where_checked(compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    flags = [*config("--cxxflags"), "-O2", "-fno-exceptions"]
    for name, extra in (("call_plain", []), ("call_checked", ["-DPTO_CHECKED"])):
        command = [compiler, *flags, *extra, f"-DCALL={name}", "-c", str(SOURCE)]
        subprocess.run([*command, "-o", str(tmp_path / f"{name}.o")], check=True)
    objects = [str(path) for path in tmp_path.glob("*.o")]
    program = tmp_path / "program"
    subprocess.run([compiler, *objects, "-o", str(program), *config("--ldflags")], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.stdout == f"plain: 0\n-1: {SAYS}" * 2, done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_right_kernels_are_silent(example, tmp_path):
    program = tmp_path / "program"
    command = ["g++", *config("--cxxflags"), "-O1", "-DPTO_CHECKED", str(example)]
    subprocess.run([*command, "-o", str(program), *config("--ldflags")], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
