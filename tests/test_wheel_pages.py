# SPDX-License-Identifier: Apache-2.0
"""The code of every page and every lesson runs where only the wheel and its extras are installed.

`./dev test --site` sets PTO_SITE; elsewhere these tests are skipped, since they install PyTorch.
The environment sees nothing of the checkout or of .venv, and has a cache of kernels of its own,
which stays in build/ for the next time.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest
from code_pages import ROOT, Place, check, folder_of, lessons, pages, run_notebook, steps
from test_wheel import run, wheel  # noqa: F401 a fixture

PATH = "/usr/local/bin:/usr/bin:/bin"
EXTRAS = "torch,onnxruntime,studio,notebooks,testing"  # of pyproject.toml
PAGES = [page for page in pages() if page not in lessons()]
WITH = [step for page in PAGES for step in steps(page) if step.framework]
HERE = """
import sys, pto
print(pto.__file__, *sys.path, sep="\\n")
"""
pytestmark = pytest.mark.skipif(
    not os.environ.get("PTO_SITE"), reason="./dev test --site installs the wheel with its extras"
)


@pytest.fixture(scope="module")
def place(wheel, tmp_path_factory):  # noqa: F811
    """A new environment; it is removed at the end, for PyTorch is large."""
    base = tmp_path_factory.mktemp("wheel_pages")
    run(sys.executable, "-m", "venv", base / "env", cwd=base)
    python = base / "env/bin/python"
    run(python, "-m", "pip", "install", "-q", f"{wheel}[{EXTRAS}]", cwd=base)
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    cache = ROOT / "build/wheel_cache"
    yield Place(python, {**kept, "PATH": PATH, "PTO_CACHE_DIR": str(cache)})
    shutil.rmtree(base)


def test_the_environment_holds_nothing_of_the_checkout(place, tmp_path):
    (tmp_path / "here.py").write_text(HERE)
    done = place.run("python here.py", tmp_path)
    assert done.returncode == 0, done.stderr
    package, *paths = done.stdout.split("\n")
    assert Path(package).is_relative_to(place.python.parents[1])
    assert not any(path and Path(path).is_relative_to(ROOT) for path in paths)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_with_the_wheel(page, place, tmp_path):
    folder_of(page, tmp_path)
    for step in steps(page):
        if not step.framework:
            check(step, tmp_path, place)


@pytest.mark.parametrize("step", WITH, ids=str)
def test_the_code_for_a_framework_runs_with_the_wheel(step, place, tmp_path):
    check(step, folder_of(step.page, tmp_path), place)


@pytest.mark.parametrize("page", lessons(), ids=lambda page: page.stem)
def test_a_lesson_runs_as_a_notebook_with_the_wheel(page, place, tmp_path):
    run_notebook(page, tmp_path, place)
