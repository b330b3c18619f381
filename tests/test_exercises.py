# SPDX-License-Identifier: Apache-2.0
"""The exercises of docs/exercises: each solution passes its check, and no blank does."""

import re
import sys

import pytest
from code_pages import ROOT, blocks, commands, run, run_command

PAGES = sorted((ROOT / "docs/exercises").glob("[0-9]*.md"))


def run_check(page, folder, place):
    """Runs the check of a page on its blank (0) or its solution (1)."""
    for name, bodies in blocks(page).items():
        (folder / name).write_text(bodies[place if len(bodies) == 2 else 0])
    checks = sorted(folder.glob("check_*.py"))
    if checks:
        return run([sys.executable, checks[0].name], folder)
    return run_command(commands(page)[0], folder)


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
        twice = [name for name, bodies in blocks(page).items() if len(bodies) == 2]
        assert len(twice) == 1, page
        assert page.name in (ROOT / "docs/exercises/README.md").read_text()
