# SPDX-License-Identifier: Apache-2.0
"""The forms without bytes of the operators of DeepSeek V3.2 in f32 and bf16, against their formulas
in plain torch, and a decode step with its projections."""

import pytest
import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import model_formulas as formulas
from pto import models
from pto.models.formulas import bf16_of, f32_of

K, SCALE = 48, 72**-0.5
F32, BF16 = torch.float32, torch.bfloat16
WITHIN = {F32: {"rtol": 1e-4, "atol": 1e-4}, BF16: {"rtol": 2**-7, "atol": 2**-7}}
both_types = pytest.mark.parametrize("dtype", [F32, BF16], ids=["f32", "bf16"])


def copies(arguments):
    return [x.clone() for x in arguments]


def as_type(arguments, dtype):
    return [x.to(dtype) if x.is_floating_point() else x for x in arguments]


def assert_agree(ours, formula, arguments):
    """Results and what is written are those of the formula."""
    given, expected = copies(arguments), copies(arguments)
    got, want = ours(*given), formula(*expected)
    for mine, right in zip((*got, *given), (*want, *expected), strict=True):
        assert mine.dtype == right.dtype
        torch.testing.assert_close(mine, right, **WITHIN[arguments[0].dtype])


@both_types
@pytest.mark.parametrize("t", [1, 8, 13])
def test_prologs_without_bytes_are_their_formulas(dtype, t, deep):
    if not deep and t == 1 and dtype is F32:
        pytest.skip("the other type: ./dev test --deep")
    torch.manual_seed(t)
    latent = as_type(formulas.mla_arguments(t, quantised=False), dtype)
    assert_agree(models.mla_prolog_float, formulas.mla_prolog_float, latent)
    x, _, _, w_qb, _, wk, w_proj, gamma, beta, cos, sin, *_, slots = formulas.indexer_arguments(t)
    q_norm, cache = torch.randn(t, len(w_qb)), torch.zeros(6, 16, 1, wk.shape[1])
    index = [x, q_norm, w_qb.float() / 500, wk, w_proj, gamma, beta, cos, sin, cache, slots]
    assert_agree(models.indexer_prolog_float, formulas.indexer_prolog_float, as_type(index, dtype))


def test_f32_selects_and_attends_as_its_formulas():
    torch.manual_seed(0)
    q, _, weights, k_cache, _, *where = formulas.lightning_arguments([300, 0, 17], 2)
    given = [q.float(), weights.float(), k_cache.float(), *where]
    found = models.lightning_indexer_float(*given, k=K)
    assert torch.equal(found, formulas.lightning_indexer_float(*given, K, True))
    given = as_type(formulas.sparse_arguments([300, 17], 2, k=280, quantised=False), F32)
    got = models.sparse_attention_float(*given, scale=SCALE)
    want = formulas.sparse_attention_float(*given, SCALE)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@both_types
@pytest.mark.parametrize("lengths, s1", [([2], 1), ([300, 17, 64], 2)])
def test_a_step_without_bytes_has_the_bits_of_its_operators_and_projects_their_values(
    dtype, lengths, s1, deep
):
    if not deep and (dtype is BF16 or s1 == 1):
        pytest.skip("test_model_properties.py has one token of bf16: ./dev test --deep")
    torch.manual_seed(s1)
    arguments = formulas.decode_float_arguments(lengths, s1, dtype)
    *given, w_uv, w_o = copies(arguments)
    expected = copies(given)
    found = models.mla_decode_step_float(*given, scale=SCALE, k=K)
    assert torch.equal(found, formulas.decode_step_float(models, expected, SCALE, K))
    assert all(torch.equal(a, b) for a, b in zip(given, expected, strict=True))
    whole = models.mla_decode_step_float(*copies(arguments), scale=SCALE, k=K)
    assert whole.shape == arguments[0].shape and whole.dtype == dtype
    torch.testing.assert_close(whole, formulas.projected(found, w_uv, w_o), **WITHIN[dtype])


def test_a_step_of_bytes_projects_its_values_too():
    torch.manual_seed(0)
    arguments = formulas.decode_arguments([40, 17], 1)
    *_, w_uv, w_o = formulas.decode_float_arguments([40, 17], 1, BF16)
    same = {"scale": 0.1, "k": 8}  # as in test_model_properties.py: one kernel for both
    found = models.mla_decode_step(*copies(arguments), **same)
    whole = models.mla_decode_step(*copies(arguments), w_uv, w_o, **same)
    torch.testing.assert_close(whole, formulas.projected(found, w_uv, w_o), **WITHIN[BF16])


def test_one_projection_alone_and_other_sizes_are_errors():
    *given, w_uv, w_o = formulas.decode_float_arguments([2], 1, F32)
    with pytest.raises(RuntimeError, match="w_uv is given alone"):
        models.mla_decode_step_float(*given, w_uv, scale=SCALE, k=K)
    for wrong in ([w_uv[:-1], w_o], [w_uv, w_o[:-1]]):
        with pytest.raises(RuntimeError, match="the shape of w_"):
            models.mla_decode_step_float(*given, *wrong, scale=SCALE, k=K)
    with pytest.raises(RuntimeError, match="bf16"):
        models.mla_decode_step_float(*given, w_uv.bfloat16(), w_o, scale=SCALE, k=K)


@pto.jit
def step(
    x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, w_qb, wk, w_proj, gamma, beta,
    kv_cache, kr_cache, k_cache, slots, lengths, table, w_uv, w_o,
):  # fmt: skip
    y, kv_cache[:], kr_cache[:], k_cache[:] = models.mla_decode_step_float(
        x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_q, gamma_kv, cos, sin, w_qb, wk, w_proj, gamma,
        beta, kv_cache, kr_cache, k_cache, slots, lengths, table, w_uv, w_o, scale=SCALE,
    )  # fmt: skip
    return y


def test_a_step_with_its_projections_is_one_launch():
    found = step.explain(*formulas.decode_float_arguments([300, 17], 2, F32))
    assert found.cpp.count('extern "C"') == 1
    assert [name for _, name in found.memory.in_place] == ["kv_cache", "kr_cache", "k_cache"]
    assert len([one for one in found.every_step() if one.kind == "product"]) == 13


# --- rows of which all lies together -------------------------------------------------------------


def packed_arguments(given):
    return [*given[:2], formulas.packed(*given[2:5]), *given[5:]]


@pytest.mark.parametrize("lengths", [[1], [300, 0, 17]], ids=str)
def test_attention_over_packed_rows_has_the_bits_of_three_caches(lengths, deep):
    if not deep and len(lengths) == 1:
        pytest.skip("one sequence: ./dev test --deep")
    torch.manual_seed(0)
    given = formulas.sparse_arguments(lengths, 2, k=280)
    found = models.sparse_attention_packed(*packed_arguments(given), scale=SCALE)
    assert torch.equal(found, models.sparse_attention(*given, scale=SCALE))


def test_a_packed_row_of_the_model_has_656_bytes_and_other_sizes_are_errors():
    given = packed_arguments(formulas.sparse_arguments([300, 5], 2, eighth=False))
    assert given[2].shape[-1] == 656
    given[2] = given[2][..., :655].contiguous()
    with pytest.raises(RuntimeError, match="the shape of cache"):
        models.sparse_attention_packed(*given, scale=SCALE)


@pto.jit
def numbers_of(pairs, fours):
    return bf16_of(pairs), f32_of(fours)


def test_numbers_are_read_from_their_bytes():
    """All of bf16, and f32 with every exponent; a NaN is a NaN."""
    every = torch.arange(65536).to(torch.uint16).view(torch.int8).view(-1, 2)
    some = torch.randint(0, 256, (65536, 2), dtype=torch.uint8).view(torch.int8)
    fours = torch.cat([some, every], 1)
    halves, singles = numbers_of(every, fours)
    for got, want in ((halves, every.view(BF16)), (singles, fours.view(F32))):
        want = want[:, 0]
        assert torch.equal(got.isnan(), want.isnan())
        assert torch.equal(got.nan_to_num(nan=0), want.nan_to_num(nan=0))
