# SPDX-License-Identifier: Apache-2.0
"""The files of docs/tutorial_add.md, put into one folder, run: in every framework installed."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs/tutorial_add.md").read_text()
FILES = {
    name: body
    for body, name in re.findall(
        r"^```(?:python|cpp)\n((?:#|//) (\S+)\n.*?)^```$", TEXT, re.MULTILINE | re.DOTALL
    )
}
PRINTS = {
    "numpy": "[[2. 2. 2. 2.]",
    "torch": "gradient: True",
    "tensorflow": "sum: 24.0 gradient: 0.5",
    "jax": "gradient: 0.5",
    "mindspore": "gradient: 0.5",
    "onnxruntime": "z: [2. 2. 2. 2.]",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tutorial")
    for name, body in FILES.items():
        (made / name).write_text(body)
    return made


def run(folder, *command):
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *command], cwd=folder, text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip


def test_every_block_has_the_name_of_its_file():
    assert TEXT.count("```python") + TEXT.count("```cpp") == len(FILES)
    assert {f"with_{framework}.py" for framework in PRINTS} <= set(FILES)


@pytest.mark.parametrize("framework", PRINTS)
def test_the_program_for_a_framework_runs(folder, framework):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    done = run(folder, f"with_{framework}.py")
    assert done.returncode == 0, done.stderr[-3000:]
    assert PRINTS[framework] in done.stdout and "False" not in done.stdout, done.stdout


def test_the_test_of_the_tutorial_passes(folder):
    done = run(folder, "-m", "pytest", "-q", "test_tutorial_add.py")
    assert done.returncode == 0, done.stdout[-3000:]
