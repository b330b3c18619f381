# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/language.md run one after another, as a reader would type them."""

import importlib.util
import re
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "docs/language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_block_of_the_language_page_runs(tmp_path):
    """They run in one file, since the text of a program is read from its file."""
    assert len(BLOCKS) == TEXT.count("```") // 2
    path = tmp_path / "language_page.py"
    path.write_text("\n".join(BLOCKS))
    spec = importlib.util.spec_from_file_location("language_page", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
