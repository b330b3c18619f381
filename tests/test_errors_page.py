# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md shows every class of errors, and messages as its blocks print them."""

import builtins
import inspect
import os
import re
import tempfile
from pathlib import Path

import printed_pages
import pytest

import pto
from pto import errors

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/errors.md"
TEXT = PAGE.read_text()
CLASSES = dict(re.findall(r"^\| `(\w+)`.*? \| (.*?) \|", TEXT, re.M))
MESSAGES = re.findall(r"^\| \[(.*?)\]\(#", TEXT, re.M)


@pytest.fixture
def settings(monkeypatch):
    """The page changes settings; they come back."""
    before = pto.config.cache_dir, pto.config.cxx
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())
    yield
    pto.config.cache_dir, pto.config.cxx = before


def test_each_block_prints_what_the_page_says(settings, tmp_path):
    assert "\n\n".join(printed_pages.differences(PAGE, tmp_path)) == ""


def test_a_block_that_prints_something_else_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1, 2)\n```\n\n```text\n1 ...\n```\n")
    assert printed_pages.differences(page, tmp_path) == []
    page.write_text("```python\nprint(1, 2)\n```\n\n```text\n2 ...\n```\n")
    assert len(printed_pages.differences(page, tmp_path)) == 1
    page.write_text("```python\nprint(1, 2)\n```\n")
    assert len(printed_pages.differences(page, tmp_path)) == 1


def test_every_class_stands_on_the_page_with_the_exceptions_that_it_also_is():
    classes = {name: one for name, one in inspect.getmembers(errors, inspect.isclass)
               if issubclass(one, errors.Error)}  # fmt: skip
    assert CLASSES.keys() == classes.keys()
    for name, also in CLASSES.items():
        for other in re.findall(r"`(\w+)`", also):
            wanted = classes.get(other) or getattr(builtins, other)
            assert issubclass(classes[name], wanted), (name, other)
        standard = next(one for one in classes[name].__mro__ if one.__module__ == "builtins")
        assert f"`{standard.__name__}`" in also, name


def test_each_message_of_the_table_is_one_that_the_page_shows():
    shown = "\n".join(text for _, text in printed_pages.BLOCK.findall(TEXT))
    shown += (ROOT / "pto/launch/sealed.cpp").read_text()  # of a CPU that is not this one
    assert len(MESSAGES) > 12
    for message in MESSAGES:
        pattern = "[^\n]*".join(map(re.escape, message.split("...")))
        assert re.search(pattern, shown), message
