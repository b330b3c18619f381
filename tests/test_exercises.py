# SPDX-License-Identifier: Apache-2.0
"""The exercises of docs/exercises: each solution passes its check, and no blank does."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs/exercises").glob("[0-9]*.md"))
BLOCK = re.compile(r"^```(?:python|cpp)\n((?:#|//) (\S+)\n.*?)^```$", re.MULTILINE | re.DOTALL)


def files(page):
    """The files of a page by name: those of the check, the blank, and the solution."""
    text = page.read_text()
    found = BLOCK.findall(text)
    assert len(found) == text.count("```python") + text.count("```cpp")
    blocks = {}
    for body, name in found:
        blocks.setdefault(name, []).append(body)
    return blocks


def run_check(page, folder, place):
    """Runs the check of a page on its blank (0) or its solution (1)."""
    for name, bodies in files(page).items():
        (folder / name).write_text(bodies[place if len(bodies) == 2 else 0])
    checks = sorted(folder.glob("check_*.py"))
    commands = [[sys.executable, check.name] for check in checks]
    if not checks:  # the command that the page shows, with this Python
        command = re.search(r"^```sh\n(.*)\n```$", page.read_text(), re.MULTILINE).group(1)
        python = shlex.quote(sys.executable)
        commands = [["bash", "-c", command.replace("python -m", f"{python} -m")]]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = [subprocess.run(one, cwd=folder, text=True, capture_output=True,
                           env={**os.environ, "PYTHONPATH": paths})
            for one in commands]  # fmt: skip
    return done[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_solution_passes_its_check(page, tmp_path):
    done = run_check(page, tmp_path, 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("right")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_blank_fails_its_check_with_what_is_wrong(page, tmp_path):
    done = run_check(page, tmp_path, 0)
    assert done.returncode != 0 and "right" not in done.stdout
    said = done.stdout + done.stderr
    assert re.search(r"off by|should be|instead of", said), said


def test_each_page_has_one_blank_and_one_solution():
    assert len(PAGES) == 4
    for page in PAGES:
        twice = [name for name, bodies in files(page).items() if len(bodies) == 2]
        assert len(twice) == 1, page
        assert page.name in (ROOT / "docs/exercises/README.md").read_text()
