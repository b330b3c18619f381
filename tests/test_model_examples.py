# SPDX-License-Identifier: Apache-2.0
"""The decode loops of examples/models, in small sizes."""

import re
from pathlib import Path

import children
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("layer", ["deepseek", "qwen3"])
def test_a_layer_decodes_as_its_peer_does(layer):
    """62 keys and then more, of which the layer of DeepSeek selects 64."""
    arguments = ["--small", "--layer", layer, "--steps", "3", "--keys", "62"]
    run = children.run("-m", "examples.models", *arguments, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    found = re.search(
        r"([\d.]+) tokens/s, .* ([\d.]+), .* least cosine of outputs ([\d.]+)", run.stdout
    )
    assert found and float(found[1]) > 0 and float(found[2]) > 0
    assert float(found[3]) > 0.99


@pytest.mark.parametrize("option, least", [("--steps", 1), ("--sequences", 1), ("--keys", 0)])
def test_a_number_that_counts_nothing_is_refused(option, least):
    run = children.run("-m", "examples.models", "--small", option, str(least - 1), cwd=ROOT)
    assert run.returncode == 2
    text = f"argument {option}: {least - 1} is too small: pass a number from {least} on"
    assert text in run.stderr
