# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/cpp: each program compiles by its command and prints what the page says."""

import re

import pytest
from code_pages import ROOT, blocks, commands, run_command

PAGES = [page for page in sorted((ROOT / "docs/cpp").glob("*.md")) if "```sh" in page.read_text()]
PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_pages_are_found():
    assert [page.stem for page in PAGES] == ["2_launch", "3_memory"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_print_what_the_page_says(page, tmp_path):
    for name, [body] in blocks(page).items():
        (tmp_path / name).write_text(body)
    lines, printed = commands(page), PRINTED.findall(page.read_text())
    assert len(blocks(page)) == len(lines) == len(printed) > 0
    for line, want in zip(lines, printed, strict=True):
        done = run_command(line, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.rstrip() == want.rstrip()
