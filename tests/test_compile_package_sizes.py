# SPDX-License-Identifier: Apache-2.0
"""Packaged models whose sizes an export derived from others: 2 * h, h + 1."""

from types import SimpleNamespace

import pytest
import sympy
import torch
from compile_cases import ModuleOf, assert_same
from torch import nn
from torch.export import Dim, export
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import FloorDiv

import pto
import pto.torch
from pto.adapters.torch.compile import package
from pto.adapters.torch.compile.sizes import solutions


def attended(x):
    parts = (x * 2).unflatten(-1, (2, 4)).transpose(0, 1)
    seen = nn.functional.scaled_dot_product_attention(parts, parts, parts)
    return seen.transpose(0, 1).flatten(1)


@pytest.mark.parametrize(
    ("function", "derived", "sizes", "wrong", "text"),
    [
        (lambda x: x * 2 + 1, lambda h: 2 * h, (6, 2, 0), 5, r"5.*sizes 2 n: .* are 4 and 6"),
        (lambda x: x.view(-1, 2, 8).sum(1), lambda h: 2 * h, (8, 2, 0), 7, "7.*are 6 and 8"),
        (lambda x: x[1:] + x[:-1], lambda h: h + 1, (6, 2, 1), 0, "0.*takes at least 1"),
        (lambda x: x.unflatten(0, (4, -1)).sum(0), lambda h: 4 * h, (12, 4), 6, "6.*are 4 and 8"),
        (lambda x: x[2:].unflatten(0, (-1, 3)).mean(1), lambda h: 3 * h + 2, (11, 5), 6,
         r"6.*sizes 3 n \+ 2: .* are 5 and 8"),
        (lambda x: attended(x[1:]), lambda h: h + 1, (6, 2), 0, "0.*at least 1"),
        (attended, lambda h: h + 1, (6, 2, 1), 0, "0.*at least 1"),
    ],
    ids=["2h", "2h as a view", "h + 1", "4h", "3h + 2", "an operator of h", "an operator of h + 1"],
)  # fmt: skip
def test_a_size_is_found_from_one_that_was_derived_from_it(
    function, derived, sizes, wrong, text, tmp_path
):
    given = (torch.randn(derived(4), 8),)
    exported = export(ModuleOf(function), given, dynamic_shapes=({0: derived(Dim("h"))},))
    pto.torch.package(exported, tmp_path / "m.pto")
    loaded = pto.load(tmp_path / "m.pto")
    for size in (derived(4), *sizes):
        x = torch.randn(size, 8)
        assert_same(loaded(x), function(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(pto.Error, match=f"(?s)axis 0 of the input x has the size {text}"):
        loaded(torch.randn(wrong, 8))


def test_symbols_follow_from_sizes_that_are_linear_in_them():
    s, t = sympy.symbols("s0 s1", integer=True, nonnegative=True)
    told = solutions([8, 2 * s + 1, s, 3 * t, s * t, t + 4])
    assert told == {s: (2, 1, 0), t: (3, 3, 0)}
    assert solutions([s * t, s * s, -s, 7 - s, s / 2, FloorDiv(t, 2)]) == {}


def test_a_size_from_which_no_symbol_follows_is_refused():
    size = ShapeEnv().create_unbacked_symint()
    node = SimpleNamespace(meta={"val": size * size})
    with pytest.raises(pto.Error, match=r"(?s)input n has the size u0\*\*2.*u0 or a \* u0 \+ b"):
        package._solve([(node, {"name": "n"})])
