# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/products.md run one after another, as a reader would type them."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "docs/products.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_block_runs():
    assert len(BLOCKS) == TEXT.count("```") // 2
    names: dict = {}
    for block in BLOCKS:
        exec(compile(block, "docs/products.md", "exec"), names)
