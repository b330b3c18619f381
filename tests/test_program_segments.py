# SPDX-License-Identifier: Apache-2.0
"""Loops over segments, by a table of counts: iterations that write apart run side by side."""

import numpy as np
import pytest

import pto

F32 = np.float32


@pto.jit
def by_groups(x, group, weights, out):
    """out[i] = x[i] @ weights[group[i]], the rows of a group at once."""
    counts = pto.sum(pto.cast(pto.one_hot(group, weights.shape[0]), pto.i64), 0)
    ends, order = pto.cumsum(counts, 0), pto.sort(group).indices
    for g in pto.loop(weights.shape[0], parallel=True):
        n = counts[g]
        if n > 0:
            first = ends[g] - n
            own = order[first : first + n]
            out[own] = x[own] @ weights[g]


@pto.jit
def in_order_of_groups(x, group, weights, out):
    """The same, the rows of a group behind each other."""
    counts = pto.sum(pto.cast(pto.one_hot(group, weights.shape[0]), pto.i64), 0)
    ends, order = pto.cumsum(counts, 0), pto.sort(group).indices
    for g in pto.loop(weights.shape[0]):
        n = counts[g]
        first = ends[g] - n
        out[first : first + n] = x[order[first : first + n]] @ weights[g]


@pto.jit
def at_given_places(x, starts, counts, order, out):
    for g in pto.loop(starts.shape[0], parallel=True):
        n = counts[g]
        own = order[starts[g] : starts[g] + n]
        out[own] = x[own] * 2


@pytest.fixture
def two_threads():
    before, pto.config.threads = pto.config.threads, 2
    yield
    pto.config.threads = before


@pytest.mark.parametrize("rows, groups", [(300, 16), (300, 3), (1, 40), (7, 1), (0, 9)])
def test_segments_of_groups_run_side_by_side(rows, groups, two_threads):
    rng = np.random.default_rng(rows)
    group = rng.integers(0, groups, rows)
    x, weights = (rng.integers(-8, 9, shape).astype(F32) for shape in ((rows, 24), (groups, 24, 8)))
    products = np.einsum("rk,rkn->rn", x, weights[group])
    order = np.argsort(group, kind="stable")
    for function, want in ((by_groups, products), (in_order_of_groups, products[order])):
        out = np.zeros((rows, 8), F32)
        found = function.explain(x, group, weights, out)
        [loop] = found.steps_of("loop")
        assert loop.order == "side by side" and "kMayIdle" in found.cpp, loop.why
        function(x, group, weights, out)
        np.testing.assert_array_equal(out, want)


@pto.jit
def row_sums(x, lengths, out):
    for i in pto.loop(x.shape[0]):
        n = lengths[i]
        if n > 0:
            out[i] = pto.sum(x[i, :n])


def test_rows_behind_a_condition_run_side_by_side_however_few(two_threads):
    x, out = np.ones((3, 7), F32), np.zeros(3, F32)
    found = row_sums.explain(x, np.array([7, 0, 2]), out)
    [loop] = found.steps_of("loop")
    assert loop.order == "side by side" and "kMayIdle" not in found.cpp
    row_sums(x, np.array([7, 0, 2]), out)
    np.testing.assert_array_equal(out, [7, 0, 2])


def test_places_that_an_argument_names_may_meet():
    x = np.arange(12, dtype=F32).reshape(6, 2)
    tables = np.array([0, 1]), np.array([2, 2]), np.array([3, 1, 5, 0, 2, 4])
    [loop] = at_given_places.explain(x, *tables, np.zeros_like(x)).steps_of("loop")
    assert loop.order == "in order" and "comes from data" in loop.why
    assert "test_program_segments.py:" in loop.why_line
    out = np.zeros_like(x)
    at_given_places(x, *tables, out)
    want = np.zeros_like(x)
    want[[3, 1, 5]] = x[[3, 1, 5]] * 2
    np.testing.assert_array_equal(out, want)
