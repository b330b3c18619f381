# SPDX-License-Identifier: Apache-2.0
"""The files of docs/tutorial_add.md, put into one folder, run: in every framework installed."""

import pytest
from code_pages import CHECKOUT, DOCS, blocks, check, fences, folder_of, steps

PAGE = DOCS / "tutorial_add.md"
PRINTS = {
    "with_numpy.py": "[[2. 2. 2. 2.]",
    "with_torch.py": "gradient: True",
    "with_tensorflow.py": "sum: 24.0 gradient: 0.5",
    "with_jax.py": "gradient: 0.5",
    "with_mindspore.py": "gradient: 0.5",
    "with_onnxruntime.py": "z: [2. 2. 2. 2.]",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return folder_of(PAGE, tmp_path_factory.mktemp("tutorial"))


def test_every_block_has_the_name_of_its_file():
    code = [kind for kind, _ in fences(PAGE) if kind in ("python", "cpp")]
    assert len(code) == len(blocks(PAGE)) and {*PRINTS} <= {*blocks(PAGE)}


@pytest.mark.parametrize("step", steps(PAGE), ids=str)
def test_a_file_of_the_tutorial_runs(step, folder):
    if step.title == "with_torch.py":
        pytest.importorskip("torch")  # MindSpore's environment has none
    printed = check(step, folder, CHECKOUT)
    assert PRINTS.get(step.title, "") in printed and "False" not in printed, printed
