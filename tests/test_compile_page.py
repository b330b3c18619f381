# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/compile.md run one after another, as a reader would type them."""

import re
from pathlib import Path

import torch

TEXT = (Path(__file__).parents[1] / "docs/compile.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_block_of_the_page_about_compiled_models_runs():
    assert len(BLOCKS) == TEXT.count("```") // 2
    torch._dynamo.reset()
    torch.manual_seed(0)
    names: dict = {}
    for block in BLOCKS:
        exec(compile(block, "docs/compile.md", "exec"), names)
