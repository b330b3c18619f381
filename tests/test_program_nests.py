# SPDX-License-Identifier: Apache-2.0
"""Loops that change places with the loop in their body: the bits, and what explain() says.
Pages that products read where they lie."""

import re

import numpy as np
import pytest
from test_programs import attend

import pto
from pto import _core

F32 = np.float32


@pto.jit
def sums(x, pages, out):
    for h in pto.loop(x.shape[2]):
        total = pto.zeros([x.shape[1]])
        for j in pto.loop(pages[0]):
            total = total + x[j, :, h]
        out[h] = total


@pto.jit
def sums_of_few(x, pages, out):
    for h in pto.loop(x.shape[2]):
        total = pto.zeros([x.shape[1]])
        for j in pto.loop(pages[h]):
            total = total + x[j, :, h]
        out[h] = total


@pytest.mark.parametrize("heads", [0, 1, 2, 5])
@pytest.mark.parametrize("pages", [0, 1, 3])
def test_a_loop_that_reads_beside_its_next_iteration_changes_places_with_the_one_inside(
    heads, pages
):
    x = np.random.default_rng(0).standard_normal((3, 7, heads)).astype(F32)
    for function in (sums, sums_of_few):
        arguments = x, np.full(max(heads, 1), pages), np.ones((heads, 7), F32)
        function(*arguments)
        total = np.zeros((heads, 7), F32)
        for j in range(pages):
            total = total + x[j].T
        np.testing.assert_array_equal(arguments[2], total)
    said = sums.explain(*arguments)
    assert "they read side by side" in said.steps_of("loop")[0].nest
    assert said.steps_of("loop")[0].order == "side by side"
    kept = sums_of_few.explain(*arguments).steps_of("loop")[0].nest
    assert (
        "the number of iterations of the inner loop depends on its index" in kept
        and kept in str(sums_of_few.explain(*arguments))
    )


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_attention_that_reads_page_by_page_has_the_bits_of_the_program_for_any_step(heads):
    generator = np.random.default_rng(heads)
    sizes = (3, heads, 3, 4), (9, 8, heads, 4), (9, 8, heads, 4)
    q, keys, values = (generator.standard_normal(size).astype(F32) for size in sizes)
    table, lengths = generator.permutation(9).reshape(3, 3), np.array([0, 5, 17])
    given = q, keys, values, table, lengths, np.zeros(q.shape, F32)
    levels = attend.explain(*given).levels
    want = pto.interpret(_core.Graph.parse(levels["pair_products"]), *given)
    after = levels["interchange_loops"]
    assert after.count("= matmul(") == 2 and "any_step" in after
    chosen = re.search(r"= maximum\(%\d+, %\d+\) : i64\[\]", after)[0]
    for step in (None, 2, 3):
        text = after.replace(chosen, f"= constant {{value={step}}} : i64[]", 1) if step else after
        np.testing.assert_array_equal(pto.interpret(_core.Graph.parse(text), *given), want)
    attend(*given)
    np.testing.assert_allclose(given[-1], want, rtol=1e-5, atol=1e-6)


def test_pages_keep_the_values_that_they_had_when_they_were_gathered():
    @pto.jit
    def turned(cache, table, x, out):
        for i in pto.loop(table.shape[0]):
            pages = cache[table[i]]
            rows = pages.reshape(pages.shape[0] * pages.shape[1], pages.shape[2])
            cache[i] = cache[i] + 1
            out[i] = pto.matmul(x, rows)

    cache = np.random.default_rng(0).standard_normal((3, 4, 16)).astype(F32)
    table = np.array([[0, 2], [1, 0], [2, 1]])
    x, out, want = np.ones((2, 8), F32), np.zeros((3, 2, 16), F32), cache.copy()
    sums = []
    for i, some in enumerate(table):
        sums.append(np.stack([want[some].sum((0, 1))] * 2))
        want[i] += 1
    turned(cache, table, x, out)
    np.testing.assert_allclose(out, sums, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(cache, want)
