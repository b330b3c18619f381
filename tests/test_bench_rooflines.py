# SPDX-License-Identifier: Apache-2.0
"""The rooflines of benches: multiply-adds and functions of elements, which add up."""

from types import SimpleNamespace

import pytest

from bench import models, rooflines
from pto.bench.runner import CASES, Ceiling, Setting
from pto.bench.timing import Samples


def test_functions_take_as_long_as_their_elements(monkeypatch):
    row = SimpleNamespace(elements=lambda threads: 10 * threads)
    monkeypatch.setattr(rooflines, "Function", lambda name: row)
    (exp,) = rooflines.functions(1, elements=0, exp=30)
    assert exp.name == "exp" and exp.function is row and exp.calls == 3
    one, two = (next(rooflines.functions(threads, 1e6)) for threads in (1, 2))
    assert one.name == "elements" and one.calls == pytest.approx(2 * two.calls)


def test_a_total_is_the_sum_of_its_terms_and_measures_the_largest(monkeypatch):
    seconds = {"products": Samples((2.0,)), "exp": Samples((1.0,))}
    monkeypatch.setattr(rooflines, "interleave", lambda functions, rounds: seconds)
    products, exp = Ceiling("products", len, calls=3), Ceiling("exp", abs, calls=4)
    whole = rooflines.total("computing", [exp, products])
    assert (whole.name, whole.function) == ("computing", len)
    assert whole.calls * 2.0 == pytest.approx(3 * 2.0 + 4 * 1.0)


@pytest.mark.parametrize(
    "name, size, dtype, elements",
    [
        ("topk_gate_shared", (1,), "i8", True),
        ("paged_attention_pages", (1, 12, 1, 64, 128), "i8", True),
        ("topk_gate", (1,), "f32", False),
        ("gated_delta_rule", (1, 32), "f32", False),
    ],
)
def test_operators_count_the_exponentials_that_their_formulas_have(name, size, dtype, elements):
    items = list(CASES[name].contenders(Setting(size, dtype, 1)))
    ceilings = {one.name: one for one in items if isinstance(one, Ceiling)}
    assert "exp" in ceilings and ("elements" in ceilings) == elements
    assert min(one.calls for one in ceilings.values()) > 0


def test_the_expert_of_a_token_counts_roundings_by_its_type():
    floats, quantised = (models.of_expert(8, 2, is_bytes) for is_bytes in (False, True))
    assert floats == 12 + models.GATED * 2
    assert quantised - floats == 12 * (models.SCALED - 1) + models.Q8 * 10
