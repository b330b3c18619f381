# SPDX-License-Identifier: Apache-2.0
"""The site: its navigation has every page, links lead somewhere, nothing comes from a network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import outside  # noqa: E402

PAGES = sorted((ROOT / "docs").rglob("*.md"))
CONFIGURATION = (ROOT / "mkdocs.yml").read_text()
PYTHON = ROOT / ".venv-site/bin/python"
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
    named = re.findall(r"([\w/]+\.md)$", CONFIGURATION, re.M)
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES]
    assert sorted(named) == sorted([*pages, *outside.PAGES.values()])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    assert [*broken(page, page.read_text())] == []


def test_a_link_to_nowhere_is_found():
    page = ROOT / "docs/index.md"
    text = "[a](none.md) [b](language.md#none) [c](language.md#packages) [d](https://x.y/z)"
    assert [*broken(page, text)] == ["none.md", "language.md#none"]


def test_pages_of_other_folders_are_there_and_have_names_of_their_own():
    for source, page in outside.PAGES.items():
        assert (ROOT / source).exists() and not (ROOT / "docs" / page).exists()


def test_the_script_of_the_offline_search_is_ours():
    """Material's plugin adds one from a network unless a polyfill has this name."""
    (script,) = re.search(r"polyfills: \[(.*)\]", CONFIGURATION).groups()
    assert "iframe-worker" in script and (ROOT / "docs" / script).exists()


def fetched(text):
    """The addresses from which a page would load something by itself."""
    loads = r"<(?:script|link|img|iframe|source|object|embed)\b[^>]*?"
    return re.findall(rf"{loads}\b(?:src|href|data)=[\"']?((?:https?:)?//[^\"'\s>]+)", text)


def test_a_page_that_loads_from_a_network_is_found():
    assert fetched('<script src="https://a.b/c.js"></script><img alt="" src=//a.b/c.png>') == [
        "https://a.b/c.js", "//a.b/c.png"]  # fmt: skip
    assert fetched('<script src="../a.js"></script><a href="https://a.b">a</a>') == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    if not PYTHON.exists():
        pytest.skip("./dev docs --site makes its environment")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([PYTHON, "-m", "mkdocs", "build", "--strict", "-q", "-d", folder],
                          cwd=ROOT, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_builds(site):
    assert (site / "search/search_index.js").exists()  # which needs no server
    for page in outside.PAGES.values():
        assert (site / page).with_suffix(".html").exists()


def test_no_page_of_the_site_loads_from_a_network(site):
    pages = [*site.rglob("*.html")]
    assert len(pages) >= len(PAGES)
    for page in pages:
        assert fetched(page.read_text()) == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", style.read_text()), style
