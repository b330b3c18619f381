# SPDX-License-Identifier: Apache-2.0
"""Checks in models under torch.compile: the error shows the values that are wrong, and the line."""

import pytest
import torch
from torch import tensor

import pto.torch  # noqa: F401
from pto.adapters.torch.compile.compiled import graphs


@pytest.fixture(autouse=True)
def numbers_of_tensors_are_traced():
    config = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(config):
        yield
    torch._dynamo.reset()


def compiled(function):
    return torch.compile(function, backend="pto", fullgraph=True)


def item(x):
    return x.sum().item()


def is_asserted(condition, x):
    torch._assert_async(condition, "they fit")
    return x * 2


def is_checked(condition, x):
    torch._check(condition, lambda: "it fits")
    return x * 2


ONES = torch.ones(2, 3)
CASES = {
    "elements": (lambda x: is_asserted((x > 0).all(), x), ONES, -ONES,
                 r"they fit: -1.0 > 0 is false at \[0, 0\]"),
    "two conditions": (lambda x: is_asserted(((x > 0) & (x <= 1.5)).all(), x), tensor([1.5, 1]),
                       tensor([1, 1.75]), r"they fit: 1.75 <= 1.5 is false at \[1\]"),
    "none": (lambda x: is_asserted(~(x == 0).any(), x), tensor([1, 2]), tensor([1, 0]),
             r"they fit: 0 == 0 is true at \[1\]"),
    "values of a program": (lambda x: is_asserted((x * 2 + 1 < 9).all(), x), tensor([1, 2]),
                            tensor([3, 4]), r"they fit: 9 < 9 is false at \[1\]"),
    "a sum": (lambda x: is_asserted(x.sum() >= 3, x), ONES, ONES[:, :1].expand(2, 3) / 4,
              r"they fit: 1.5 >= 3 is false"),
    "a tenth": (lambda x: is_asserted((x <= 0.25).all(), x), ONES * 0.1, ONES * 0.3,
                r"they fit: 0.3 <= 0.25 is false at \[0, 0\]"),
    "a number": (lambda n: is_checked(item(n) <= 4, n), tensor([3]), tensor([6]),
                 "it fits: 6 <= 4 is false"),
    "a real number": (lambda n: is_checked(item(n) <= 2.5, n), tensor([2.0]), tensor([3.0]),
                      "it fits: 3.0 <= 2.5 is false"),
    "a size": (lambda n: torch.zeros(item(n)), tensor([3]), tensor([-2]), "-2 >= 0 is false"),
    "sizes together": (lambda x: torch.ones(4).split(x.tolist()), tensor([1, 3]), tensor([2, 3]),
                       "5 == 4 is false"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_check_that_fails_shows_both_sides(case):
    function, good, bad, text = CASES[case]
    function = compiled(function)
    function(good)
    with pytest.raises(RuntimeError, match=text) as caught:
        function(bad)
    assert "test_compiled_checks.py" in caught.value.__notes__[-1]
    function(good)


def test_a_check_without_a_comparison_says_its_own_words():
    with pytest.raises(RuntimeError) as caught:
        compiled(lambda x: is_asserted(x.all(), x))(tensor([False]))
    assert str(caught.value) == "they fit"


def test_values_of_a_check_stay_no_longer_than_it():
    compiled(lambda x: is_asserted((x > 0).all(), x.new_ones(3)))(ONES)
    source = graphs()[-1].replay.source
    (line,) = [line for line in source.splitlines() if "'they fit'" in line]
    condition, kept = line.split("(")[1].split(",")[0], line.split("), ")[1].split(";")[0]
    assert {condition, kept} < set(line.split("; del ")[1].split(", ")), source


def test_a_result_of_another_size_has_the_name_of_its_node():
    function = compiled(lambda x, y: x.nonzero().squeeze(1) + y)
    function(tensor([2, 0, 3]), ONES[:, 0])
    with pytest.raises(pto.Error, match=r"axis 0 of nonzero has size 3, but 2 is required"):
        function(tensor([2, 1, 3]), ONES[:, 0])


@pytest.mark.parametrize(
    ("n", "why", "fix"),
    [(3, "from 0 to 2; those in brackets from -3", "index.clamp(0, 2)"),
     (0, "without elements has no positions", "pass no position")],
)  # fmt: skip
def test_a_position_that_does_not_exist_tells_those_that_do(n, why, fix):
    with pytest.raises(IndexError, match=f"the size {n}") as caught:
        compiled(lambda x, i: x[i] * 2)(torch.ones(n), tensor([-7]))
    assert why in caught.value.why and fix in caught.value.fix, str(caught.value)
