# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/models.md run one after another; the page has a part for each operator."""

import re
from pathlib import Path

from pto import models

TEXT = (Path(__file__).parents[1] / "docs/models.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_block_of_the_page_of_models_runs():
    assert len(BLOCKS) == TEXT.count("```") // 2
    names: dict = {}
    for block in BLOCKS:
        exec(compile(block, "docs/models.md", "exec"), names)


def test_the_page_has_a_part_for_each_operator():
    assert re.findall(r"^## ([a-z]\w*)$", TEXT, re.MULTILINE) == models.__all__
