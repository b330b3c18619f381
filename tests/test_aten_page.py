# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/aten.md run one after another, and name what is there."""

import re
from pathlib import Path

import pto.aten

TEXT = (Path(__file__).parents[1] / "docs/aten.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_block_of_the_aten_page_runs():
    assert len(BLOCKS) == TEXT.count("```") // 2
    exec("\n".join(BLOCKS), {})


def test_the_names_without_a_kernel_are_those_of_the_page():
    text = TEXT.partition("a call says so:")[2].partition(". PyTorch")[0]
    for name in re.findall(r"`(\w+)`", text):
        assert not any(o.record.cpu for o in pto.aten.family(name).overloads.values()), name
