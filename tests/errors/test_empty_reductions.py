# SPDX-License-Identifier: Apache-2.0
"""The largest and smallest of no elements: refused at the call, wherever the function runs."""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import pto
import pto.torch  # noqa: F401


@pto.op("test_largest(Tensor x) -> Tensor")
class Largest:
    def build(x):
        return pto.amax(x, -1)


@pto.jit
def rows(x):
    return pto.amin(x, -1)


@pto.jit
def everything(x):
    return x.amax()


def meta(*shape):
    return torch.empty(shape, device="meta")


def fake(*shape):
    with FakeTensorMode():
        return torch.empty(shape)


MESSAGES = ["over an axis of size 0", "no largest or smallest of no elements", "skip an empty one"]


@pytest.mark.parametrize(
    "call",
    {
        "numpy": lambda: rows(np.empty((4, 0), "f4")),
        "torch": lambda: rows(torch.empty(4, 0)),
        "integers": lambda: rows(torch.empty(4, 0, dtype=torch.int32)),
        "bool": lambda: rows(torch.empty(4, 0, dtype=torch.bool)),
        "an empty result": lambda: rows(torch.empty(0, 0)),
        "all axes": lambda: everything(torch.empty(0, 3)),
        "interpreted": lambda: pto.interpret(rows.trace(torch.ones(4, 3)), np.empty((4, 0))),
        "operator": lambda: torch.ops.pto.test_largest(torch.empty(4, 0)),
        "operator on meta": lambda: torch.ops.pto.test_largest(meta(4, 0)),
        "operator on fake": lambda: torch.ops.pto.test_largest(fake(4, 0)),
    }.items(),
    ids=lambda case: case[0],
)
def test_the_largest_of_nothing_is_refused(call):
    with pytest.raises((pto.Error, RuntimeError)) as raised:
        call[1]()
    assert all(text in str(raised.value) for text in MESSAGES), raised.value


def test_the_error_names_the_size_and_the_line_of_the_reduction():
    with pytest.raises(pto.Error, match="rows: amin .*: s1 = 0 is axis 1 of x") as raised:
        rows(torch.empty(4, 0))
    assert "test_empty_reductions.py:" in str(raised.value)


def test_other_axes_may_be_empty_and_sums_always():
    assert rows(torch.empty(0, 4)).shape == (0,)
    assert torch.ops.pto.test_largest(torch.empty(0, 4)).shape == (0,)
    assert pto.jit(lambda x: x.sum(-1))(np.empty((2, 0), "f4")).tolist() == [0, 0]
    assert pto.jit(lambda x: x.prod(-1))(np.empty((2, 0), "f4")).tolist() == [1, 1]
