# SPDX-License-Identifier: Apache-2.0
"""Operators of real models against their formulas in plain torch, at an eighth of the sizes."""

import subprocess
import sys

import pytest
import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import model_formulas as formulas
from pto import models

TOKENS = [1, 2, 7, 8, 13, 101]


def copies(arguments):
    return [x.clone() for x in arguments]


def assert_bytes_agree(got, want):
    """Bytes are within 1, and at most 0.1 % are not equal."""
    apart = (got.int() - want.int()).abs()
    assert apart.max() <= 1 and apart.count_nonzero() <= max(1, 1e-3 * apart.numel())


def assert_scales_agree(got, want):
    """Scales are within 2.5e-5, and a step where they are f16."""
    step = 2**-10 if got.dtype == torch.float16 else 0
    torch.testing.assert_close(got.float(), want.float(), rtol=2.5e-5 + step, atol=2**-24)


def assert_weights_agree(got, want):
    """Weights agree as scales do, but for at most 0.1 %: a product that lies half-way between two
    numbers of bf16, of which it becomes one, may be the other."""
    apart = (got.float() - want.float()).abs() > 2**-24 + (2.5e-5 + 2**-10) * want.float().abs()
    assert apart.count_nonzero() <= 1e-3 * apart.numel()
    torch.testing.assert_close(got.float(), want.float(), rtol=2**-7 + 2**-10, atol=2**-24)


def assert_indexer_agrees(arguments):
    """Results and caches of indexer_prolog are those of the formula; other rows stay."""
    given, expected = copies(arguments), copies(arguments)
    got = models.indexer_prolog(*given)
    want = formulas.indexer_prolog(*expected, formulas.lasting(arguments[15]))
    assert_bytes_agree(got[0], want[0])
    assert_scales_agree(got[1], want[1])
    assert_weights_agree(got[2], want[2])
    assert_bytes_agree(given[13], expected[13])
    assert_scales_agree(given[14], expected[14])
    return given, got


@pytest.mark.parametrize("t", TOKENS)
def test_the_indexer_prolog_is_its_formula(t):
    torch.manual_seed(t)
    assert_indexer_agrees(formulas.indexer_arguments(t, pages=max(6, t // 8)))


def test_the_indexer_prolog_at_full_size(deep):
    if not deep:
        pytest.skip("a deep test")
    torch.manual_seed(0)
    for t in (8, 128):
        assert_indexer_agrees(formulas.indexer_arguments(t, eighth=False, pages=512))


def test_slots_of_minus_one_are_skipped_and_the_last_of_equal_ones_stays():
    torch.manual_seed(0)
    arguments = formulas.indexer_arguments(8)
    arguments[15] = torch.tensor([3, -1, 95, 3, -1, 0, 17, 17])
    given, _ = assert_indexer_agrees(arguments)
    touched = (given[13] != arguments[13]).flatten(1).any(-1).nonzero().flatten().tolist()
    assert touched == [0, 1, 5]
    arguments[15] = arguments[15].int()
    assert_indexer_agrees(arguments)


def test_pages_and_slots_permuted_together_change_nothing():
    torch.manual_seed(0)
    arguments = formulas.indexer_arguments(13)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    given, got = assert_indexer_agrees(arguments)
    other = copies(arguments)
    other[13], other[14] = other[13][order], other[14][order]
    page = other[13].shape[1]
    other[15] = order.argsort()[other[15] // page] * page + other[15] % page
    found = models.indexer_prolog(*other)
    assert all(torch.equal(a, b) for a, b in zip(found, got, strict=True))
    assert torch.equal(other[13], given[13][order]) and torch.equal(other[14], given[14][order])


def test_a_token_has_the_same_bits_in_every_batch():
    torch.manual_seed(0)
    arguments = formulas.indexer_arguments(13)
    _, whole = assert_indexer_agrees(arguments)
    by_token = {0, 1, 2, 9, 10, 15}
    for part in (slice(0, 1), slice(1, 8), slice(8, 13)):
        cut = [x[part] if i in by_token else x.clone() for i, x in enumerate(arguments)]
        found = models.indexer_prolog(*cut)
        assert all(torch.equal(a, b[part]) for a, b in zip(found, whole, strict=True))


def test_zeros_have_the_scale_zero_and_nan_stays_in_its_token():
    torch.manual_seed(0)
    arguments = formulas.indexer_arguments(8)
    _, plain = assert_indexer_agrees(arguments)
    spoilt = copies(arguments)
    spoilt[1][2], spoilt[0][5, 3] = 0, float("nan")
    q, q_scale, weights = models.indexer_prolog(*spoilt)
    assert not q[2].any() and not q_scale[2].any()
    assert weights[5].isnan().all()
    others = [0, 1, 3, 4, 6, 7]
    assert torch.equal(q[others], plain[0][others]) and torch.equal(q[5], plain[0][5])
    assert torch.equal(weights[[*others, 2]], plain[2][[*others, 2]])
    assert spoilt[14].isnan().sum() == 1


def test_gamma_and_x_scale_the_results():
    """Twice gamma and beta double the scales of keys, and twice x the weights, and nothing else."""
    torch.manual_seed(0)
    arguments = formulas.indexer_arguments(8)
    given, got = assert_indexer_agrees(arguments)
    other = copies(arguments)
    other[0], other[7], other[8] = other[0] * 2, other[7] * 2, other[8] * 2
    q, q_scale, weights = models.indexer_prolog(*other)
    assert torch.equal(q, got[0]) and torch.equal(q_scale, got[1])
    torch.testing.assert_close(weights, 2 * got[2], rtol=2**-10, atol=1e-6)
    assert_bytes_agree(other[13], given[13])


@pto.jit
def as_program(x, q_norm, q_norm_scale, w_qb, w_qb_scale, wk, w_proj, gamma, beta, cos, sin,
               hadamard_q, hadamard_k, k_cache, k_scale, slots):  # fmt: skip
    q, q_scale, weights, k_cache[:], k_scale[:] = models.indexer_prolog(
        x, q_norm, q_norm_scale, w_qb, w_qb_scale, wk, w_proj, gamma, beta, cos, sin,
        hadamard_q, hadamard_k, k_cache, k_scale, slots,
    )  # fmt: skip
    return q, q_scale, weights


def test_the_indexer_prolog_is_one_launch_that_computes_each_product_once():
    found = as_program.explain(*formulas.indexer_arguments(8))
    assert sorted(one.name for one in found.steps_of("product")) == ["matmul"] * 5
    assert found.cpp.count('extern "C"') == 1
    assert [name for _, name in found.memory.in_place] == ["k_cache", "k_scale"]


def test_the_caches_are_written_where_they_lie():
    arguments = formulas.indexer_arguments(8, pages=2000)
    for _ in range(3):  # the first compiles, the next one packs weights
        models.indexer_prolog(*arguments)
    pto._core.reset_peak_live_bytes()
    before = pto._core.memory_stats()["live_bytes"]
    models.indexer_prolog(*arguments)
    taken = pto._core.memory_stats()["peak_live_bytes"] - before
    assert taken < arguments[13].nbytes / 4


@pytest.mark.parametrize("place", [1, 2, 4, 5, 9, 12, 14, 15])
def test_a_wrong_size_is_an_error_that_names_the_argument(place):
    arguments = formulas.indexer_arguments(8)
    arguments[place] = arguments[place][:-1]
    with pytest.raises(RuntimeError, match="the shape of"):
        models.indexer_prolog(*arguments)


def test_wrong_arguments_are_refused_before_anything_is_written():
    arguments = formulas.indexer_arguments(8)
    caches = copies(arguments[13:15])
    for place, value, message in [
        (0, arguments[0][0], "x has 1 axes"),
        (0, arguments[0].float(), "x is f32"),
        (15, arguments[15] + 1000, "scatter: position"),
    ]:
        wrong = [*arguments[:place], value, *arguments[place + 1 :]]
        with pytest.raises(RuntimeError, match=message) as caught:
            models.indexer_prolog(*wrong)
        assert "<pto>" not in str(caught.value)
    assert all(torch.equal(a, b) for a, b in zip(caches, arguments[13:15], strict=True))


@pytest.mark.parametrize("rope, message", [
    (1, "cos, which are turned in pairs"), (7, "cos, which are turned in pairs"),
    (18, "sizes 18 and 16 differ in the columns of a head"),
])  # fmt: skip
def test_angles_turn_pairs_of_a_head(rope, message):
    """The last column of an odd number had no value."""
    arguments = formulas.indexer_arguments(8)
    arguments[9:11] = (torch.rand(8, rope).bfloat16() for _ in range(2))
    with pytest.raises(RuntimeError, match=message):
        models.indexer_prolog(*arguments)


def test_import_pto_loads_no_models():
    code = "import sys, pto; assert not [m for m in sys.modules if m.startswith('pto.models')]"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "models" in dir(pto)


# --- mla_prolog ----------------------------------------------------------------------------------


def assert_mla_agrees(arguments, is_quantised):
    given, expected = copies(arguments), copies(arguments)
    got = mla(is_quantised)(*given)
    want = (formulas.mla_prolog if is_quantised else formulas.mla_prolog_float)(*expected)
    caches = slice(10, 13) if is_quantised else slice(9, 11)
    for found, right in zip((*got, *given[caches]), (*want, *expected[caches]), strict=True):
        if right.dtype == torch.int8:
            assert_bytes_agree(found, right)
        else:
            step = 2**-7 if right.dtype == torch.bfloat16 else 0
            torch.testing.assert_close(found.float(), right.float(), rtol=step + 2.5e-5, atol=step)


def mla(is_quantised):
    return models.mla_prolog if is_quantised else models.mla_prolog_float


both_forms = pytest.mark.parametrize("is_quantised", [True, False], ids=["bytes", "bf16"])


@both_forms
@pytest.mark.parametrize("t", TOKENS)
def test_the_mla_prolog_is_its_formula(t, is_quantised):
    torch.manual_seed(t)
    pages = max(6, t // 8)
    assert_mla_agrees(formulas.mla_arguments(t, True, pages, is_quantised), is_quantised)


@both_forms
def test_the_mla_prolog_at_full_size(deep, is_quantised):
    if not deep:
        pytest.skip("a deep test")
    torch.manual_seed(0)
    assert_mla_agrees(formulas.mla_arguments(8, False, 64, is_quantised), is_quantised)


@both_forms
def test_slots_of_minus_one_leave_the_latent_caches_alone(is_quantised):
    torch.manual_seed(0)
    arguments = formulas.mla_arguments(8, quantised=is_quantised)
    arguments[-1][3:] = -1
    given, expected = copies(arguments), copies(arguments)
    mla(is_quantised)(*given)
    mla(is_quantised)(*expected[:-1], torch.full_like(arguments[-1], -1))
    first = 10 if is_quantised else 9
    for cache, new in zip(arguments[first:-1], given[first:-1], strict=True):
        rows = (cache.flatten(0, 1) != new.flatten(0, 1)).flatten(1).any(1).nonzero().flatten()
        assert set(rows.tolist()) == set(arguments[-1][:3].tolist())
    assert all(torch.equal(a, b) for a, b in zip(expected, arguments, strict=True))


@both_forms
def test_a_token_of_the_mla_prolog_has_the_same_bits_in_every_batch(is_quantised):
    torch.manual_seed(0)
    arguments = formulas.mla_arguments(13, quantised=is_quantised)
    whole = mla(is_quantised)(*copies(arguments))
    by_token = {0, len(arguments) - 1} | ({8, 9} if is_quantised else {7, 8})
    for part in (slice(0, 1), slice(1, 8), slice(8, 13)):
        cut = [x[part] if i in by_token else x.clone() for i, x in enumerate(arguments)]
        found = mla(is_quantised)(*cut)
        assert all(torch.equal(a, b[part]) for a, b in zip(found, whole, strict=True))


def test_absorbed_queries_score_as_expanded_keys_do():
    """q (latent w_uk^T)^T = (q w_uk) latent^T."""
    torch.manual_seed(0)
    arguments = formulas.mla_arguments(8, quantised=False)
    x, _, w_up, w_uk = arguments[:4]
    (heads, nope, _), (_, _, _, latent) = w_uk.shape, arguments[9].shape
    q_nope, _, q_norm = models.mla_prolog_float(*arguments)
    rows = arguments[9].view(-1, latent)[arguments[-1]].double()
    q = (q_norm.double() @ w_up.double()).reshape(len(x), heads, -1)[..., :nope]
    keys = torch.einsum("kl,hnl->khn", rows, w_uk.double())
    expanded = torch.einsum("qhn,khn->hqk", q, keys)
    absorbed = torch.einsum("qhl,kl->hqk", q_nope.double(), rows)
    assert (absorbed - expanded).abs().max() < 2e-2 * expanded.abs().max()


@both_forms
def test_the_mla_prolog_refuses_wrong_sizes(is_quantised):
    arguments = formulas.mla_arguments(8, quantised=is_quantised)
    for place in range(1, len(arguments)):
        wrong = [x[:-1] if i == place else x for i, x in enumerate(arguments)]
        with pytest.raises(RuntimeError, match="the shape of|differ"):
            mla(is_quantised)(*wrong)


@pytest.mark.parametrize("rope, latent, groups, message", [
    (1, 64, 4, "cos, which are turned in pairs"), (3, 65, 1, "cos, which are turned in pairs"),
    (8, 65, 1, "the latent columns, which are read in pairs"),
    (8, 64, 3, "sizes 63 and 64 differ in the columns of kv_cache, in the groups"),
    (8, 64, 0, "sizes 0 and 64 differ in the columns of kv_cache, in the groups"),
])  # fmt: skip
def test_the_mla_prolog_turns_pairs_and_has_equal_groups(rope, latent, groups, message):
    arguments = formulas.mla_arguments(8)
    hidden, (heads, nope, _) = arguments[0].shape[1], arguments[4].shape
    columns, (pages, page) = heads * (nope + rope), arguments[10].shape[:2]
    arguments[2:4] = arguments[2][:, :1].repeat(1, columns), torch.rand(columns)
    arguments[4:6] = (torch.rand(heads, nope, latent).bfloat16(),
                      torch.rand(hidden, latent + rope).bfloat16())  # fmt: skip
    arguments[7:10] = (torch.rand(*size).bfloat16() for size in [(latent,), (8, rope), (8, rope)])
    arguments[10] = torch.zeros(pages, page, 1, latent, dtype=torch.int8)
    arguments[11] = torch.zeros(pages, page, 1, rope).bfloat16()
    arguments[12] = torch.ones(pages, page, 1, groups)
    with pytest.raises(RuntimeError, match=message):
        models.mla_prolog(*arguments)


# --- both in one program -------------------------------------------------------------------------


@pto.jit
def both_prologs(
    x, w_dq, w_uq_qr, w_uq_qr_scale, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin,
    w_qb, w_qb_scale, wk, w_proj, gamma, beta, hadamard_q, hadamard_k,
    kv_cache, kr_cache, kv_scale, k_cache, k_scale, slots,
):  # fmt: skip
    q_nope, q_rope, q_norm, q_norm_scale, kv_cache[:], kr_cache[:], kv_scale[:] = (
        models.mla_prolog(
            x, w_dq, w_uq_qr, w_uq_qr_scale, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin,
            kv_cache, kr_cache, kv_scale, slots,
        )
    )  # fmt: skip
    q, q_scale, weights, k_cache[:], k_scale[:] = models.indexer_prolog(
        x, q_norm, q_norm_scale, w_qb, w_qb_scale, wk, w_proj, gamma, beta, cos, sin,
        hadamard_q, hadamard_k, k_cache, k_scale, slots,
    )  # fmt: skip
    return q_nope, q_rope, q, q_scale, weights


def arguments_of_both(t):
    latent, index = formulas.mla_arguments(t), formulas.indexer_arguments(t)
    return [*latent[:10], *index[3:9], *index[11:13], *latent[10:13], *index[13:15], latent[13]]


def in_two_calls(given):
    """The results of both_prologs by one operator after the other, which write into `given`."""
    q_nope, q_rope, *q_norm = models.mla_prolog(*given[:10], *given[18:21], given[23])
    found = models.indexer_prolog(
        given[0], *q_norm, *given[10:16], *given[8:10], *given[16:18], *given[21:23], given[23]
    )
    return q_nope, q_rope, *found


@pytest.mark.parametrize("t", [1, 8, 13])
def test_both_prologs_as_one_program_have_the_bits_of_two_calls(t):
    torch.manual_seed(t)
    arguments = arguments_of_both(t)
    given, expected = copies(arguments), copies(arguments)
    pairs = zip((*both_prologs(*given), *given), (*in_two_calls(expected), *expected), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_both_prologs_are_one_launch_with_each_product_once():
    found = both_prologs.explain(*arguments_of_both(8))
    assert found.cpp.count('extern "C"') == 1
    names = ["kv_cache", "kr_cache", "kv_scale", "k_cache", "k_scale"]
    assert [name for _, name in found.memory.in_place] == names
    assert len([one for one in found.every_step() if one.kind == "product"]) == 9
