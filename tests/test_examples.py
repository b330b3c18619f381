# SPDX-License-Identifier: Apache-2.0
"""Every Python example runs from any folder (the C++ ones: test_cpp_route.py)."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("[0-9]*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_its_check(example, tmp_path):
    run = subprocess.run([sys.executable, example], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip()
