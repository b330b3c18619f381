# SPDX-License-Identifier: Apache-2.0
"""Which keys the indexer selects, against the formula in plain torch, at an eighth of the sizes."""

import pto.torch  # noqa: F401 registers torch.ops.pto
import pytest
import torch

import pto
from bench import model_formulas as formulas
from pto import models

K = 48
LENGTHS = [[0], [1], [K - 1, K, K + 1], [300, 0, 17], [65, 301, 1, 16, 160]]


def selected(arguments, k=K):
    """What lightning_indexer selects, which is what the formula does, in its order."""
    found = models.lightning_indexer(*arguments, k=k)
    assert torch.equal(found, formulas.lightning_indexer(*arguments, k, is_exact=True))
    return found


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("s1", [1, 2, 6])
def test_the_indexer_selects_the_best_keys_that_a_query_sees(lengths, s1):
    torch.manual_seed(s1)
    arguments = formulas.lightning_arguments(lengths, s1, spare=s1 % 2)
    counts = (selected(arguments) >= 0).sum(1).view(-1, s1)
    last = torch.tensor(lengths)[:, None] - torch.arange(s1 - 1, -1, -1)
    assert torch.equal(counts, last.clamp(0, K))


def test_no_sequences_and_no_queries_select_nothing():
    *caches, lengths, table = formulas.lightning_arguments([5, 9], 1)
    none = [x[:0] for x in caches[:3]]
    assert models.lightning_indexer(*none, *caches[3:], lengths, table).shape == (0, 2048)
    empty = models.lightning_indexer(*none, *caches[3:], lengths[:0], table[:0], k=K)
    assert empty.shape == (0, K)


def test_equal_scores_select_the_smaller_positions():
    torch.manual_seed(0)
    arguments = formulas.lightning_arguments([200, 90], 2)
    arguments[3][:], arguments[4][:] = arguments[3][0, 0], 1
    assert torch.equal(selected(arguments)[0], torch.arange(K, dtype=torch.int32))


def test_permuted_pages_and_a_longer_table_select_the_same():
    torch.manual_seed(0)
    arguments = formulas.lightning_arguments([300, 17, 64], 2)
    found, order = selected(arguments), torch.randperm(len(arguments[3]))
    other = [x.clone() for x in arguments]
    other[3], other[4] = other[3][order], other[4][order]
    other[6] = torch.cat([order.argsort()[other[6].clamp(0).long()], torch.full((3, 2), -1)], 1)
    assert torch.equal(models.lightning_indexer(*other, k=K), found)


def test_a_sequence_selects_the_same_beside_others():
    torch.manual_seed(0)
    arguments = formulas.lightning_arguments([300, 17, 64], 2)
    found = selected(arguments)
    for i in range(3):
        one = [x[2 * i : 2 * i + 2] for x in arguments[:3]]
        alone = [*one, *arguments[3:5], *(x[i : i + 1] for x in arguments[5:])]
        assert torch.equal(models.lightning_indexer(*alone, k=K), found[2 * i : 2 * i + 2])


def test_scores_that_sums_round_select_equally_good_keys():
    torch.manual_seed(0)
    arguments = formulas.lightning_arguments([500, 77], 2)
    arguments[1] = torch.rand_like(arguments[1].float()).half()
    arguments[2] = torch.randn_like(arguments[2].float()).half()
    found = models.lightning_indexer(*arguments, k=K)
    want = formulas.lightning_indexer(*arguments, K, is_exact=True)
    assert all(
        len(set(a) - set(b)) <= 1 for a, b in zip(found.tolist(), want.tolist(), strict=True)
    )


def test_lengths_and_tables_may_be_of_either_type():
    arguments = formulas.lightning_arguments([40, 17], 2)
    found = selected(arguments)
    wide = [*arguments[:5], arguments[5].long(), arguments[6].long()]
    assert torch.equal(models.lightning_indexer(*wide, k=K), found)


@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16])
def test_the_indexer_of_bf16_selects_by_the_scores_of_the_module(weights):
    torch.manual_seed(0)
    lengths, s1 = [300, 0, 17], 2
    whole = formulas.lightning_arguments(lengths, s1)
    q, k_cache = (torch.randint(-8, 9, x.shape).bfloat16() for x in (whole[0], whole[3]))
    arguments = [q, whole[2].to(weights), k_cache, *whole[5:]]
    found = models.lightning_indexer_bf16(*arguments, k=K)
    factor = arguments[1].float()
    assert torch.equal(found, formulas.selected(q, factor, k_cache, None, *whole[5:], K, True))


def test_the_scores_are_made_page_by_page_side_by_side():
    @pto.jit
    def program(q, q_scale, weights, k_cache, k_scale, lengths, table):
        return models.lightning_indexer(q, q_scale, weights, k_cache, k_scale, lengths, table)

    arguments = formulas.lightning_arguments([300, 17], 2)
    found = program.explain(*arguments)
    loops = {one.lines[0]: one.order for one in found.every_step() if one.kind == "loop"}
    assert list(loops.values()) == ["in order", "in order", "side by side", "side by side"]
    assert found.cpp.count('extern "C"') == 1


def test_what_the_indexer_cannot_take_is_an_error_that_says_why():
    arguments = formulas.lightning_arguments([40, 17, 3], 2)
    for place in (1, 2, 4, 6):
        wrong = [x[:-1] if i == place else x for i, x in enumerate(arguments)]
        with pytest.raises(RuntimeError, match="the shape of"):
            models.lightning_indexer(*wrong)
    long, unknown = arguments[5] + 1000, arguments[6] + 1000
    for place, value, message in [
        (0, arguments[0][0], "q has 2 axes"),
        (0, arguments[0].float(), "q is f32"),
        (5, long, "view: axis 1, offset 3 "),
        (6, unknown, "view: axis 0, offset 10"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            models.lightning_indexer(*arguments[:place], value, *arguments[place + 1 :])
    five = [x[:5] for x in arguments[:3]]
    with pytest.raises(RuntimeError, match="as many for each of the sequences"):
        models.lightning_indexer(*five, *arguments[3:])
    with pytest.raises(RuntimeError, match="k is 0"):
        models.lightning_indexer(*arguments, k=0)
