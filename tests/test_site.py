# SPDX-License-Identifier: Apache-2.0
"""The site: every page stands in its navigation, links lead to pages and headings that exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page):
    """The headings of a page, as the site names them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in heads}


def broken(page, text):
    """The links of a text to files or headings that do not exist."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S)
    for link in LINK.findall(text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if "://" in link:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def test_every_page_stands_in_the_navigation():
    named = re.findall(r"([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(named) == sorted(str(page.relative_to(ROOT / "docs")) for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    assert [*broken(page, page.read_text())] == []


def test_a_link_to_nowhere_is_found():
    page = ROOT / "docs/index.md"
    text = "[a](none.md) [b](language.md#none) [c](language.md#packages) [d](https://x.y/z)"
    assert [*broken(page, text)] == ["none.md", "language.md#none"]


def test_the_site_builds(tmp_path):
    python = ROOT / ".venv-site/bin/python"
    if not python.exists():
        pytest.skip("./dev docs --site makes its environment")
    done = subprocess.run([python, "-m", "mkdocs", "build", "--strict", "-q", "-d", tmp_path],
                          cwd=ROOT, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "search/search_index.js").exists()  # which needs no server
