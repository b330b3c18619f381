# SPDX-License-Identifier: Apache-2.0
"""Errors name the user's line, never one of ours, and their tracebacks are short."""

import os
import traceback

import numpy as np
import pytest
import torch

import pto
import pto.torch

X = np.ones((2, 3), "f4")
PACKAGE = os.path.dirname(pto.__file__)


@pto.jit
def mixed(x, y):
    return pto.exp(x) + y


def inlined(x):
    return pto.ops.gelu(x, approximate="wrong")


def paged(length, of=np.asarray):
    q, pages = np.ones((1, 1, 2, 4), "f4"), np.ones((2, 4, 1, 4), "f4")
    return pto.models.paged_attention(
        *map(of, (q, pages, pages, np.array([[0, 1]]), np.array([length])))
    )


CASES = {
    "a traced function": lambda: mixed(X, X.astype("f2")),
    "a guard": lambda: mixed(X, np.ones((4, 5), "f4")),
    "an operator": lambda: pto.ops.layer_norm(X, np.ones(4, "f4"), np.ones(3, "f4")),
    "an operator in a traced function": lambda: pto.jit(inlined)(X),
    "an operator in torch": lambda: torch.ops.pto.add(torch.ones(2, 3), torch.ones(4)),
    "an operator on torch's tensors": lambda: pto.ops.add(torch.ones(2, 3), torch.ones(4)),
    "a check of a model's operator": lambda: paged(length=9),
    "a check of a model's operator in torch": lambda: paged(length=-1, of=torch.from_numpy),
    "a bad index": lambda: pto.ops.embedding(X, np.array([5])),
}


@pytest.mark.parametrize("name", CASES)
def test_no_error_lies_in_our_files(name):
    with pytest.raises(Exception) as caught:
        CASES[name]()
    text = str(caught.value)
    assert "<pto>" not in text and PACKAGE not in text and "pto/ops" not in text, text
    assert text.count("why:") == 1 and text.count("fix:") == 1, text
    if "traced" in name:
        assert "test_user_lines.py:" in text.splitlines()[0]
    ours = [f for f in traceback.extract_tb(caught.tb) if f.filename.startswith(PACKAGE)]
    assert len(ours) <= 3, ours


def test_a_bad_index_is_named_with_the_size():
    table, indices = torch.ones(2, 3, requires_grad=True), torch.tensor([0, 5])
    with pytest.raises(RuntimeError, match="embedding: index 5 is out of range for .* size 2"):
        torch.ops.pto.embedding(table, indices)
    with pytest.raises(
        RuntimeError, match="gather: index -4 is out of range for an axis of size 3"
    ):
        torch.ops.pto.gather(torch.ones(3), torch.tensor([-4]))


def test_a_variable_without_a_value_that_is_returned_is_a_mistake_of_the_function():
    @pto.jit
    def lost(x):
        if x[0, 0] > 2:
            y = x
        return y

    line = lost.__wrapped__.__code__.co_firstlineno
    with pytest.raises(TypeError, match=rf"test_user_lines.py:{line}: the variable y has no value"):
        lost(X)
