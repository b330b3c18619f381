# SPDX-License-Identifier: Apache-2.0
"""CHANGELOG.md has the version of the package; examples/README.md names every example."""

import re
from pathlib import Path

import pto

ROOT = Path(__file__).resolve().parent.parent


def test_the_first_section_is_that_of_the_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (.*)$", text, re.M)[0] == pto.__version__
    adapters = pto._ADAPTERS  # whose frameworks are not everywhere
    missing = [name for name in re.findall(r"`pto\.(\w+)", text)
               if name not in adapters and not hasattr(pto, name) and name != "pc"]  # fmt: skip
    assert missing == []


def test_the_index_names_every_example_and_nothing_else():
    folder = ROOT / "examples"
    text = (folder / "README.md").read_text()
    named = {name.rstrip("/") for name in re.findall(r"`([\w/]+(?:\.py|/))`", text)}
    there = {one.name for one in folder.iterdir() if one.name[0].isdigit()}
    there |= {one for one in ("kernels", "demo", "models")}
    there |= {f"frameworks/{one.name}" for one in (folder / "frameworks").iterdir() if one.is_dir()}
    there |= {f"runtime/{one.name}" for one in (folder / "runtime").glob("*.py")}
    assert named == {one for one in there if not one.endswith("__pycache__")}
