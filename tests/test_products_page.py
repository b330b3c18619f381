# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/products.md run one after another, as a reader would type them."""

import re
import shlex
import sys
from pathlib import Path

from pto.__main__ import main
from pto.bench import runner

TEXT = (Path(__file__).parents[1] / "docs/products.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|sh)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_block_runs(tmp_path, monkeypatch):
    assert len(BLOCKS) == TEXT.count("```") // 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "PAUSE_S", 0)  # less exact, and quick
    names: dict = {}
    for kind, block in BLOCKS:
        if kind == "python":
            exec(compile(block, "docs/products.md", "exec"), names)
            continue
        for line in block.splitlines():
            python, option, package, *arguments = shlex.split(line)
            assert (python, option, package) == ("python", "-m", "pto")
            monkeypatch.setattr(sys, "argv", ["pto", *arguments])
            assert main() == 0, line
