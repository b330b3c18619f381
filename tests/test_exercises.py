# SPDX-License-Identifier: Apache-2.0
"""The exercises of docs/exercises: each solution passes its check, and no blank does."""

import re

import pytest
from code_pages import CHECKOUT, DOCS, blocks, check, folder_of, steps

PAGES = sorted((DOCS / "exercises").glob("[0-9]*.md"))


def the_check(page):
    """The last step of a page runs its check: a file check_NAME.py, or a command."""
    *_, last = steps(page)
    assert last.title.startswith(("check_", "sh_")), last
    return last


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_solution_passes_its_check(page, tmp_path):
    assert check(the_check(page), folder_of(page, tmp_path), CHECKOUT).startswith("right")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_blank_fails_its_check_with_what_is_wrong(page, tmp_path):
    folder_of(page, tmp_path)
    for name, bodies in blocks(page).items():
        (tmp_path / name).write_text(bodies[0])
    done = CHECKOUT.run(the_check(page).command, tmp_path)
    assert done.returncode != 0 and "right" not in done.stdout
    said = done.stdout + done.stderr
    assert re.search(r"off by|should be|instead of", said), said


def test_each_page_has_one_blank_and_one_solution():
    assert len(PAGES) == 4
    for page in PAGES:
        twice = [name for name, bodies in blocks(page).items() if len(bodies) == 2]
        assert len(twice) == 1, page
        assert page.name in (DOCS / "exercises/README.md").read_text()
