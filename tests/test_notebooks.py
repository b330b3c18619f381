# SPDX-License-Identifier: Apache-2.0
"""The lessons of docs/: their cells run as plain Python, and as notebooks with Jupyter.

`./dev test --site` installs jupytext and nbclient; elsewhere that test is skipped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted((ROOT / "docs/tutorials").glob("*.md")), ROOT / "docs/cpp/1_tiles.md"]


def shown(page):
    """What the cells of a page show, as docs/cells.py puts it on the site."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, ROOT / "docs/cells.py", page], env=env, text=True,
                          capture_output=True)  # fmt: skip
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
    jupytext, nbclient = pytest.importorskip("jupytext"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = jupytext.read(page)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) == page.read_text().count("```python")
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                                     resources=resources)  # fmt: skip
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert not [out for cell in code for out in cell.outputs if out.output_type == "error"]
