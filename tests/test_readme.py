# SPDX-License-Identifier: Apache-2.0
"""The code of README.md runs as it stands there, and the commands that it names exist."""

import re
import subprocess

import pytest
from code_pages import CHECKOUT, ROOT, fences

README = (ROOT / "README.md").read_text()
BLOCKS = [body for kind, body in fences(ROOT / "README.md") if kind == "python"]


def test_the_readme_shows_code():
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_the_readme_runs(block, tmp_path):
    (tmp_path / "readme.py").write_text(block)  # a file: a traced function needs its source lines
    run = CHECKOUT.run("python readme.py", tmp_path)
    assert run.returncode == 0, run.stderr
    if "print(" in block:
        assert run.stdout.strip()


def test_the_commands_and_paths_that_the_readme_names_exist():
    usage = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True).stdout
    for command in re.findall(r"\./dev (\w+)", README):
        assert f"./dev {command}" in usage
    for path in re.findall(r"`([a-z]\w*/[\w/.]*)`", README):
        assert (ROOT / path).exists(), path
