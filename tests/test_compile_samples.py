# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples of operators below Dynamo: results, gradients and strides of eager mode.

Processes of their own run them (compile_samples.py): a crash or a deadline costs one operator. An
operator that differs stands in a table of reasons; one that stands there and is right fails.
"""

from pathlib import Path

import children
import pytest

pytest.importorskip("expecttest", reason="PyTorch's own samples use it: pip install expecttest")
SEED = 20261126
SAMPLES = Path(__file__).parent / "compile_samples.py"
COUNT, CHUNK = 702, 40  # entries of PyTorch's table; those of a process
MEMORY = "its elements are what memory held"
REASONS: dict[str, str] = {
    **dict.fromkeys(
        ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided",
         "empty_permuted"),
        MEMORY,
    ),
}  # fmt: skip


def outcomes(first: int, last: int) -> list[list[str]]:
    """Name and outcome of the samples of these entries."""
    done = children.run(SAMPLES, str(SEED), str(first), str(last), "float32", "1")
    assert done.returncode == 0, done.stderr
    found = [line.split(": ", 1) for line in done.stdout.splitlines()]
    return [[about.split()[0], outcome] for about, outcome in found]


def test_samples_of_operators_are_those_of_eager(deep):
    print(f"seed {SEED}")
    chunks = range(0, COUNT if deep else CHUNK, CHUNK)
    found = [one for first in chunks for one in outcomes(first, first + CHUNK)]
    wrong = [f"{n}: {o}" for n, o in found
             if o not in ("right", "not captured") and n not in REASONS]  # fmt: skip
    assert not wrong, "\n".join(wrong)
    right = [name for name, outcome in found if outcome == "right"]
    stale = {n for n in right if n in REASONS and REASONS[n] != MEMORY}
    assert not stale, f"these are right, take them out of the table: {stale}"
    assert len(right) >= (550 if deep else 30), len(right)
