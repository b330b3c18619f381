# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own operator samples with `pto.aten.enable()` on: aten_enabled.py in child processes.

The deep run has all of PyTorch's table; the quick one a few entries by a seed.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("expecttest", reason="PyTorch's own samples use it: pip install expecttest")
pytestmark = pytest.mark.usefixtures("aten_parts")
SEED = 20261126
PARTS = 12  # child processes of the deep run
SECONDS = 1800  # for each of them


def found(share, part, parts, **task):
    """What a child reports of each entry of its part; an error with the entry that ended it."""
    program = Path(__file__).with_name("aten_enabled.py")
    text = json.dumps({"seed": SEED, "share": share, "part": part, "parts": parts, **task})
    made = subprocess.run([sys.executable, program, text], capture_output=True, text=True,
                          timeout=SECONDS)  # fmt: skip
    lines = [json.loads(line) for line in made.stdout.splitlines()]
    assert made.returncode == 0, (lines[-1:], made.stderr[-2000:])
    return [line for line in lines if "entry" in line]


def wrong(entries):
    return {one["entry"]: one["wrong"] for one in entries if one["wrong"]}


@pytest.mark.parametrize("slot", [0, None])
@pytest.mark.parametrize("part", range(PARTS))
def test_samples_of_pytorch_pass_with_rows_in_front(part, slot, deep):
    if not deep and (part or slot is None):
        pytest.skip("in ./dev test --deep")
    entries = found(1 if deep else 80, part, PARTS if deep else 1, slot=slot)
    assert not wrong(entries)
    assert sum(one["samples"] for one in entries) > 50
    if slot == 0:
        assert sum(sum(one["taken"].values()) for one in entries) > 50


@pytest.mark.parametrize("part", range(PARTS))
def test_gradients_of_rows_are_those_of_finite_differences(part, deep):
    if not deep:
        pytest.skip("in ./dev test --deep")
    entries = found(1, part, PARTS, slot=0, check=True)
    assert entries and not wrong(entries)
