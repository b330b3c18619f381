# SPDX-License-Identifier: Apache-2.0
"""Every example runs from any folder (01_add_kernel: test_cpp_route.py)."""

import subprocess
from pathlib import Path

import children
import pytest

from pto import build_config

FOLDER = Path(__file__).resolve().parent.parent / "examples"
EXAMPLES = sorted([*FOLDER.glob("[0-9]*.py"), *FOLDER.glob("runtime/*.py")])
KERNELS = sorted(FOLDER.glob("kernels/*.cpp"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_its_check(example, tmp_path):
    run = children.run(example, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip()


@pytest.mark.parametrize("example", KERNELS, ids=lambda path: path.stem)
def test_a_kernel_example_stays_within_its_error(example, tmp_path):
    program = tmp_path / "program"
    flags = [*build_config.cxxflags(), example, "-o", program, *build_config.ldflags()]
    done = subprocess.run(["g++", "-O2", *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = subprocess.run([program], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "error" in run.stdout
