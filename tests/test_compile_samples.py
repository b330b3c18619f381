# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples of operators below Dynamo, and of modules and optimizers: results,
gradients and strides of eager mode.

Processes of their own run them (compile_samples.py, compile_modules.py): a crash or a deadline
costs one entry. What differs stands in a table of reasons; what stands there and is right fails.
"""

from pathlib import Path

import children
import pytest

pytest.importorskip("expecttest", reason="PyTorch's own samples use it: pip install expecttest")
SEED = 20261126
HERE = Path(__file__).parent
COUNT, CHUNK = 702, 40  # entries of PyTorch's table of operators; those of a process
MODULES, OPTIMIZERS = 114, 15
MEMORY = "its elements are what memory held"
REASONS: dict[str, str] = {
    **dict.fromkeys(
        ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided",
         "empty_permuted"),
        MEMORY,
    ),
}  # fmt: skip


def lines_of(program: str, *arguments: object) -> list[list[str]]:
    """What a sample is of, as its name and what follows, and its outcome."""
    done = children.run(HERE / program, *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return [line.split(": ", 1) for line in done.stdout.splitlines()]


def assert_right(found: list[list[str]], at_least: int) -> None:
    """Every sample is right, or its entry stands in the table, and so many are."""
    outcomes = [(about.split()[0], about, outcome) for about, outcome in found]
    wrong = [f"{about}: {outcome}" for name, about, outcome in outcomes
             if outcome not in ("right", "not captured") and name not in REASONS]  # fmt: skip
    assert not wrong, "\n".join(wrong)
    right = [name for name, _, outcome in outcomes if outcome == "right"]
    stale = {n for n in right if n in REASONS and REASONS[n] != MEMORY}
    assert not stale, f"these are right, take them out of the table: {stale}"
    assert len(right) >= at_least, len(right)
    print(f"{len(right)} right of {len(found)}")


def test_samples_of_operators_are_those_of_eager(deep):
    print(f"seed {SEED}")
    chunks = range(0, COUNT if deep else CHUNK, CHUNK)
    kinds, most = ("float32,bfloat16,int64", 3) if deep else ("float32", 1)
    found = []
    for first in chunks:
        found += lines_of("compile_samples.py", SEED, first, first + CHUNK, kinds, most)
    assert_right(found, 3000 if deep else 30)


def test_samples_of_modules_are_those_of_eager_in_train_and_eval(deep):
    if not deep:
        pytest.skip("a deep test")
    found = []
    for first in range(0, MODULES, CHUNK):
        found += lines_of("compile_modules.py", "modules", SEED, first, first + CHUNK, 2)
    assert_right(found, 300)


def test_a_step_of_an_optimizer_is_that_of_eager(deep):
    if not deep:
        pytest.skip("a deep test")
    found = lines_of("compile_modules.py", "optimizers", SEED, 0, OPTIMIZERS, 20)
    assert_right(found, 60)
