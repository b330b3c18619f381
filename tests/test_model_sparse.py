# SPDX-License-Identifier: Apache-2.0
"""Which keys the indexer selects, and attention over them, against their formulas in plain torch,
at an eighth of the sizes."""

import pytest
import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
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


def test_nan_in_a_query_stays_in_its_query():
    torch.manual_seed(0)
    arguments = formulas.lightning_arguments([300, 64], 2)
    found = selected(arguments)
    arguments[1][1, 2] = torch.nan
    other = models.lightning_indexer(*arguments, k=K)
    assert torch.equal(other[[0, 2, 3]], found[[0, 2, 3]])


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
    found = models.lightning_indexer_float(*arguments, k=K)
    assert torch.equal(found, formulas.lightning_indexer_float(*arguments, K, True))


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
        (5, long, "lengths are from 0 to the keys of a row of table"),
        (6, unknown, "view: axis 0, offset 10[0-9]+ "),
    ]:
        with pytest.raises(RuntimeError, match=message):
            models.lightning_indexer(*arguments[:place], value, *arguments[place + 1 :])
    five = [x[:5] for x in arguments[:3]]
    with pytest.raises(RuntimeError, match="as many for each of the sequences"):
        models.lightning_indexer(*five, *arguments[3:])
    with pytest.raises(RuntimeError, match="k is 0"):
        models.lightning_indexer(*arguments, k=0)


# --- sparse_attention ----------------------------------------------------------------------------

CHOSEN, SCALE = 280, 72**-0.5  # more than lie in the cache together
FORMS = {True: models.sparse_attention, False: models.sparse_attention_float}


def attended(arguments, is_quantised=True):
    """What sparse_attention gives, within 1e-4 and 5e-3 relative but for 0.5 %."""
    found = FORMS[is_quantised](*arguments, scale=SCALE)
    if not is_quantised:
        arguments = [*arguments[:4], None, *arguments[4:]]
    want = formulas.sparse_attention(*arguments, SCALE, is_exact=True).float()
    beyond = (found.float() - want).abs() > 1e-4 + 5e-3 * want.abs()
    assert beyond.sum() <= 5e-3 * want.numel()
    torch.testing.assert_close(found.float(), want, rtol=3e-2, atol=1e-3)
    return found


@pytest.mark.parametrize("lengths", [[1], [600], [300, 0, 17], [64, 301, 1]], ids=str)
@pytest.mark.parametrize("s1", [1, 2, 5])
@pytest.mark.parametrize("is_quantised", [True, False], ids=["bytes", "bf16"])
def test_attention_over_selected_keys_is_its_formula(lengths, s1, is_quantised, deep):
    if not deep and len(lengths) == 1 and is_quantised == ((lengths == [1]) == (s1 == 1)):
        pytest.skip("the other types: ./dev test --deep")
    torch.manual_seed(s1)
    arguments = formulas.sparse_arguments(lengths, s1, k=CHOSEN, quantised=is_quantised)
    attended(arguments, is_quantised)


def test_keys_of_minus_one_and_beyond_the_length_do_not_count():
    torch.manual_seed(0)
    arguments = formulas.sparse_arguments([600, 40], 2, k=CHOSEN)
    arguments[5][0, ::3], arguments[5][1, :260], arguments[5][3, 7] = -1, -1, 40
    arguments[5][2] = -1
    found = attended(arguments)
    assert not found[2].any() and found[[0, 1, 3]].flatten(1).any(1).all()


def test_nan_stays_in_its_query_and_in_those_that_select_its_key():
    torch.manual_seed(0)
    arguments = formulas.sparse_arguments([300, 40], 2, k=CHOSEN)
    arguments[5][0, ::3] = -1
    arguments[5][arguments[5] == 0] = -1
    found, spoilt = attended(arguments), [x.clone() for x in arguments]
    spoilt[0][1, 3], spoilt[4][arguments[7][:, 0].long(), 0] = torch.nan, torch.nan
    other = models.sparse_attention(*spoilt, scale=SCALE)
    assert other[1, 3].isnan().all() and not other[0].isnan().any()
    other[1, 3] = found[1, 3]
    assert torch.equal(other, found)


def test_no_queries_attend_to_nothing_and_indices_have_columns():
    arguments = formulas.sparse_arguments([30, 40], 2, k=CHOSEN)
    none = [x[:0] if i in (0, 1, 5) else x for i, x in enumerate(arguments)]
    assert models.sparse_attention(*none, scale=SCALE).shape == (0, 16, 64)
    arguments[5] = arguments[5][:, :0]
    with pytest.raises(RuntimeError, match="^sparse_attention: amax over an axis of size 0"):
        models.sparse_attention(*arguments, scale=SCALE)


def test_permuted_pages_a_longer_table_and_other_sequences_change_no_bit():
    torch.manual_seed(0)
    arguments = formulas.sparse_arguments([300, 17, 64], 2, k=CHOSEN)
    found, order = attended(arguments), torch.randperm(len(arguments[2]))
    other = [x[order] if i in (2, 3, 4) else x for i, x in enumerate(arguments)]
    other[7] = torch.cat([order.argsort()[other[7].clamp(0).long()], torch.full((3, 2), -1)], 1)
    assert torch.equal(models.sparse_attention(*other, scale=SCALE), found)
    for i in range(3):
        own = {0: 2, 1: 2, 5: 2, 6: 1, 7: 1}  # rows of a sequence
        alone = [x[own[j] * i :][: own[j]] if j in own else x for j, x in enumerate(arguments)]
        assert torch.equal(models.sparse_attention(*alone, scale=SCALE), found[2 * i : 2 * i + 2])


def test_queries_run_side_by_side_and_so_do_blocks_of_keys():
    @pto.jit
    def program(q_nope, q_rope, kv_cache, kr_cache, k_scale, indices, lengths, table):
        return models.sparse_attention(
            q_nope, q_rope, kv_cache, kr_cache, k_scale, indices, lengths, table, scale=SCALE
        )

    found = program.explain(*formulas.sparse_arguments([600, 40], 2, k=CHOSEN))
    orders = [one.order for one in found.every_step() if one.kind == "loop"]
    assert orders == ["side by side", "side by side"] and found.cpp.count('extern "C"') == 1


def test_attention_refuses_other_sizes_and_pages_that_do_not_exist():
    arguments = formulas.sparse_arguments([30, 40, 5], 2, k=CHOSEN)
    for place in (1, 3, 4, 5, 7):
        wrong = [x[:-1] if i == place else x for i, x in enumerate(arguments)]
        with pytest.raises(RuntimeError, match="the shape of"):
            models.sparse_attention(*wrong, scale=SCALE)
    for place, value, message in [
        (0, arguments[0][0], "q_nope has 2 axes"),
        (2, arguments[2].float(), "kv_cache is f32"),
        (6, arguments[6] + 1000, "lengths are from 0"),
        (7, arguments[7] + 1000, "gather: position 100[0-9] "),
        (7, arguments[7].long() + 2**62, "gather: position 46[0-9]+ "),  # its first row is 2**64
    ]:
        wrong = [*arguments[:place], value, *arguments[place + 1 :]]
        with pytest.raises(RuntimeError, match=message):
            models.sparse_attention(*wrong, scale=SCALE)
    for groups in (0, 3):
        wrong = [*arguments[:4], arguments[4][..., :1].expand(-1, -1, -1, groups), *arguments[5:]]
        with pytest.raises(RuntimeError, match="the latent columns, in the groups of their scales"):
            models.sparse_attention(*wrong, scale=SCALE)
    odd = [x[:5] if i in (0, 1, 5) else x for i, x in enumerate(arguments)]
    with pytest.raises(RuntimeError, match="as many for each of the sequences"):
        models.sparse_attention(*odd, scale=SCALE)


# --- mla_decode_step -----------------------------------------------------------------------------


def stepped(arguments, k=K):
    """(result, caches) of mla_decode_step, which are those of four operators, bit for bit."""
    given, expected = [x.clone() for x in arguments], [x.clone() for x in arguments]
    found = models.mla_decode_step(*given, scale=SCALE, k=k)
    assert torch.equal(found, formulas.decode_step(models, expected, SCALE, k))
    assert all(torch.equal(a, b) for a, b in zip(given, expected, strict=True))
    return found, given[18:23]


@pytest.mark.parametrize("lengths, s1", [([2], 1), ([300, 17, 64], 2), ([65, 301, 2, 16], 2)])
def test_a_decode_step_has_the_bits_of_its_four_operators(lengths, s1, deep):
    if not deep and s1 == 1:
        pytest.skip("the test of new keys has one query: ./dev test --deep")
    torch.manual_seed(s1)
    found, _ = stepped(formulas.decode_arguments(lengths, s1))
    assert found.isfinite().all() and found.flatten(1).any(1).all()


def test_a_decode_step_attends_to_its_new_keys():
    torch.manual_seed(0)
    arguments = formulas.decode_arguments([1, 1], 1)
    arguments[25] = torch.cat([arguments[25], torch.full((2, 1), -1)], 1)
    found, (kv, _, scale, *_) = stepped(arguments, k=8)
    rows = arguments[23]
    new = kv.flatten(0, 2)[rows].unflatten(1, (4, -1)) * scale.flatten(0, 2)[rows][..., None]
    assert torch.equal(found, new.flatten(1).bfloat16()[:, None].expand_as(found))


def test_a_decode_step_of_nothing_gives_nothing():
    arguments = formulas.decode_arguments([40, 17], 1)
    none = [x[:0] if i in (0, 8, 9, 23, 24, 25) else x for i, x in enumerate(arguments)]
    assert models.mla_decode_step(*none, scale=SCALE, k=K).shape == (0, 16, 64)


@pto.jit
def step(
    x, w_dq, w_uq_qr, w_uq_qr_scale, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, w_qb, w_qb_scale,
    wk, w_proj, gamma, beta, hadamard_q, hadamard_k, kv_cache, kr_cache, kv_scale, k_cache, k_scale,
    slots, lengths, table,
):  # fmt: skip
    y, kv_cache[:], kr_cache[:], kv_scale[:], k_cache[:], k_scale[:] = models.mla_decode_step(
        x, w_dq, w_uq_qr, w_uq_qr_scale, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, w_qb,
        w_qb_scale, wk, w_proj, gamma, beta, hadamard_q, hadamard_k, kv_cache, kr_cache, kv_scale,
        k_cache, k_scale, slots, lengths, table, scale=SCALE,
    )  # fmt: skip
    return y


def test_a_decode_step_is_one_launch_that_writes_its_caches_in_place():
    found = step.explain(*formulas.decode_arguments([300, 17], 2))
    assert found.cpp.count('extern "C"') == 1
    names = ["kv_cache", "kr_cache", "kv_scale", "k_cache", "k_scale"]
    assert [name for _, name in found.memory.in_place] == names
    assert len([one for one in found.every_step() if one.kind == "product"]) == 13
