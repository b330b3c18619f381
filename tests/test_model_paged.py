# SPDX-License-Identifier: Apache-2.0
"""Attention over pages against SDPA on gathered keys in f64."""

import pytest
import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import model_formulas as formulas
from pto import models

F32, BF16, I8 = torch.float32, torch.bfloat16, torch.int8
LENGTHS = [150, 0, 1, 47, 130, 3]
WITHIN = {F32: 2e-6, BF16: 2**-6, I8: 2**-6}


def exact(arguments):
    return formulas.paged_attention(
        *(x.double() if x.is_floating_point() else x for x in arguments)
    )


def assert_agrees(arguments):
    got, want = models.paged_attention(*arguments), exact(arguments)
    within = WITHIN[arguments[1].dtype]
    torch.testing.assert_close(got.double(), want, rtol=within, atol=within)
    return got


@pytest.mark.parametrize("page", [16, 128])
@pytest.mark.parametrize("heads", [(12, 1), (32, 8)], ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16, I8], ids=str)
@pytest.mark.parametrize("queries", [1, 2, 3, 4])
def test_paged_attention_is_sdpa_on_gathered_keys(queries, dtype, heads, page, deep):
    if not deep and (dtype is BF16) == ((heads[1] == 1) == (queries == 1)):
        pytest.skip("the other types: ./dev test --deep")
    torch.manual_seed(queries)
    for d in (64, 80, 128):
        assert_agrees(formulas.paged_arguments(LENGTHS, queries, *heads, d, page, dtype))


@pytest.mark.parametrize("dtype", [F32, BF16, I8], ids=str)
def test_keys_and_values_are_read_in_their_pages(dtype, tmp_path, monkeypatch, deep):
    if not deep and dtype is F32:
        pytest.skip("the other types: ./dev test --deep")

    @pto.jit
    def attended(q, keys, values, table, lengths, k_scale=None, v_scale=None):
        return models.paged_attention(q, keys, values, table, lengths, k_scale, v_scale)

    texts = {}
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path))  # what is compiled is seen
    pto.config.dump = texts.__setitem__
    try:
        arguments = formulas.paged_arguments([40, 3], 1, 4, 2, 64, 16, dtype)
        assert torch.equal(attended(*arguments), models.paged_attention(*arguments))
    finally:
        pto.config.dump = None
    gathers = texts["C++"].count("pto_gather(")
    assert gathers == (2 if dtype is I8 else 0), "scales alone are copied"
    assert texts["C++"].count("pto_find_pages(") == 2


def test_long_sequences_none_no_keys_and_no_queries():
    torch.manual_seed(0)
    assert_agrees(formulas.paged_arguments([3000, 1027], 2, 8, 2, 64, 16))
    assert not assert_agrees(formulas.paged_arguments([0, 0], 1, 4, 2, 64, 16)).any()
    assert assert_agrees(formulas.paged_arguments([], 1, 4, 2, 64, 16)).shape == (0, 1, 4, 64)
    q, *others = formulas.paged_arguments([40, 3], 1, 4, 2, 64, 16)
    assert models.paged_attention(q[:, :0], *others).shape == (2, 0, 4, 64)


def test_bytes_are_exact_with_queries_of_f32():
    torch.manual_seed(0)
    arguments = formulas.paged_arguments(LENGTHS, 2, 8, 2, 64, 16, I8)
    arguments[0], arguments[1][:, :, :, 0] = arguments[0].float(), -128
    got, want = models.paged_attention(*arguments), exact(arguments)
    torch.testing.assert_close(got.double(), want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("page", [3, 24, 200])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_pages_of_any_size_and_caches_that_are_views(dtype, page, deep):
    if not deep and (dtype is F32) == (page == 24):
        pytest.skip("the other type: ./dev test --deep")
    torch.manual_seed(page)
    q, keys, values, table, lengths = formulas.paged_arguments(LENGTHS, 2, 8, 4, 64, page, dtype)
    right = assert_agrees([q, keys, values, table, lengths])
    wide, every = torch.cat([keys, keys], -1), torch.stack([values, values], 1).flatten(0, 1)
    for one in (table, table.int()):
        found = models.paged_attention(q, wide[..., 64:], every[::2], one, lengths)
        assert torch.equal(found, right)


def test_the_scale_is_an_argument():
    torch.manual_seed(0)
    arguments = formulas.paged_arguments(LENGTHS, 1, 4, 2, 64, 16)
    found = models.paged_attention(*arguments, scale=0.25)
    arguments[0] *= 0.25 * 64**0.5
    torch.testing.assert_close(found.double(), exact(arguments), rtol=2e-6, atol=2e-6)


def test_pages_permuted_with_the_table_and_longer_tables_change_no_bit():
    torch.manual_seed(0)
    q, keys, values, table, lengths = formulas.paged_arguments(LENGTHS, 3, 4, 2, 64, 16)
    right = assert_agrees([q, keys, values, table, lengths])
    order = torch.randperm(len(keys))
    moved = torch.where(table < 0, table, order.argsort()[table])
    longer = torch.cat([moved, torch.full((len(table), 5), 10**6)], 1).int()
    found = models.paged_attention(q, keys[order], values[order], longer, lengths.int())
    assert torch.equal(found, right)


def test_a_sequence_has_the_same_bits_beside_others():
    torch.manual_seed(0)
    q, keys, values, table, lengths = formulas.paged_arguments(LENGTHS, 2, 4, 2, 64, 16)
    whole = models.paged_attention(q, keys, values, table, lengths)
    for part in (slice(0, 1), slice(1, 4), slice(4, 6)):
        found = models.paged_attention(q[part], keys, values, table[part], lengths[part])
        assert torch.equal(found, whole[part])
    keys[table[3, 0]], values[table[3, 0]], lengths[0] = 0, 0, 149
    found = models.paged_attention(q, keys, values, table, lengths)
    assert torch.equal(found[[1, 2, 4, 5]], whole[[1, 2, 4, 5]])


@pytest.mark.parametrize("which", [1, 2], ids=["keys", "values"])
def test_nan_of_a_token_reaches_those_who_see_it_alone(which):
    torch.manual_seed(0)
    arguments = formulas.paged_arguments([33, 20], 4, 4, 2, 64, 16)
    whole = models.paged_attention(*arguments)
    arguments[which][arguments[3][0, 1], 15, 0, 5] = float("nan")  # token 31 of 33, head 0 of 2
    found = models.paged_attention(*arguments)
    assert torch.equal(found[1], whole[1]) and torch.equal(found[0, :2], whole[0, :2])
    assert torch.equal(found[0, :, 2:], whole[0, :, 2:])
    assert found[0, 2:, :2, 5].isnan().all()


def test_rows_behind_the_length_are_not_read():
    torch.manual_seed(0)
    arguments = formulas.paged_arguments([33, 20], 2, 4, 2, 64, 16)
    whole = models.paged_attention(*arguments)
    for cache in arguments[1:3]:
        cache[arguments[3][0, 2], 1:], cache[arguments[3][1, 1], 4:] = float("nan"), float("inf")
    assert torch.equal(models.paged_attention(*arguments), whole)


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("page", [-1, 99])
def test_a_page_outside_the_cache_is_an_error(page, queries):
    arguments = formulas.paged_arguments([33, 20], queries, 4, 2, 64, 16)
    arguments[3][1, 1] = page
    with pytest.raises(RuntimeError, match=f"position|offset {page}"):
        models.paged_attention(*arguments)


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("length", [-1, 49])
def test_a_length_beyond_the_table_is_an_error(length, queries):
    arguments = formulas.paged_arguments([33, 20], queries, 4, 2, 64, 16, holes=0)
    arguments[4][0] = length
    with pytest.raises(RuntimeError, match="lengths are from 0"):
        models.paged_attention(*arguments)


def test_wrong_shapes_types_and_scales_are_refused():
    right = formulas.paged_arguments([33, 20, 5], 2, 4, 2, 64, 16)
    coded = formulas.paged_arguments([33, 20, 5], 2, 4, 2, 64, 16, I8)
    for arguments, place, value, message in [
        (right, 0, right[0][0], "q has 3 axes"),
        (right, 0, right[0][:, :, :3].clone(), "heads of q and keys"),
        (right, 1, right[1][:-1], "the shape of"),
        (right, 3, right[3][:2], "the shape of table"),
        (right, 4, right[4][:2], "the shape of lengths"),
        (right, 0, right[0].bfloat16(), "keys are f32, and q is bf16"),
        (coded, 5, None, "keys are i8, and 1 scales"),
        (coded, 5, coded[5][:, :3].clone(), "the shape of k_scale"),
    ]:
        wrong = [*arguments[:place], value, *arguments[place + 1 :]]
        with pytest.raises(RuntimeError, match=message):
            models.paged_attention(*wrong)
    with pytest.raises(RuntimeError, match="keys are f32, and 2 scales"):
        models.paged_attention(*right, *coded[5:])
