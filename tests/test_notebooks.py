# SPDX-License-Identifier: Apache-2.0
"""The lessons of docs/: their cells run as plain Python, and as notebooks with Jupyter.

`./dev test --site` installs jupytext and nbclient; elsewhere that test is skipped.
"""

import json

import pytest
from code_pages import CHECKOUT, DOCS, lessons, run_notebook

PAGES = lessons()


def shown(page):
    """What the cells of a page show, as docs/cells.py puts it on the site."""
    done = CHECKOUT.run(f"python {DOCS}/cells.py {page}", DOCS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_cells_of_a_lesson_run_and_show_a_table_or_a_picture(page):
    found = shown(page)
    assert len(found) == page.read_text().count("```python") > 3
    assert any("|---|" in text or "<svg" in text or "<table" in text for text in found)
    assert all("nan" not in text and "Traceback" not in text for text in found)


def test_a_cell_that_fails_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nprint(x)\nx / 0\n```\n")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        shown(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_lesson_runs_as_a_notebook(page, tmp_path):
    for package in ("jupytext", "nbclient", "ipykernel"):
        pytest.importorskip(package)
    run_notebook(page, tmp_path, CHECKOUT)


def test_a_notebook_that_fails_is_found(tmp_path):
    pytest.importorskip("jupytext")
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nprint(x)\nx / 0\n```\n")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_notebook(page, tmp_path, CHECKOUT)
