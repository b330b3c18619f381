# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/aten.md run one after another, and name what is there."""

import re
import subprocess
from pathlib import Path

import pytest
import torch

import pto.aten
from pto import build_config
from pto.adapters.torch import build

TEXT = (Path(__file__).parents[1] / "docs/aten.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```cpp\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_block_of_the_aten_page_runs():
    assert len(BLOCKS) + len(PROGRAMS) == TEXT.count("```") // 2
    exec("\n".join(BLOCKS), {})


@pytest.mark.parametrize("text", PROGRAMS)
def test_a_program_of_the_aten_page_runs(text, tmp_path):
    build.build_aten()
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(text)
    flags = [*build_config.cxxflags(), f"-I{build.aten_include()}", source, "-o", program, "-ldl"]
    subprocess.run(["g++", *flags], check=True)
    subprocess.run([program, Path(torch.__file__).parent / "lib"], check=True)


def test_the_names_without_a_kernel_are_those_of_the_page():
    text = TEXT.partition("a call says so:")[2].partition(". PyTorch")[0]
    for name in re.findall(r"`(\w+)`", text):
        assert not any(o.record.cpu for o in pto.aten.family(name).overloads.values()), name
