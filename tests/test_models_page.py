# SPDX-License-Identifier: Apache-2.0
"""docs/models.md has a part for each operator; test_pages.py runs its code."""

import re
from pathlib import Path

from pto import models

TEXT = (Path(__file__).parents[1] / "docs/models.md").read_text(encoding="utf-8")


def test_the_page_has_a_part_for_each_operator():
    assert re.findall(r"^## ([a-z]\w*)$", TEXT, re.MULTILINE) == models.__all__
