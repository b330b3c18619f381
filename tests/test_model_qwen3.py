# SPDX-License-Identifier: Apache-2.0
"""Attention of Qwen3 against its formula in f64, and against the model's own module."""

import pytest
import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import model_formulas as formulas
from pto import models

F32, BF16 = torch.float32, torch.bfloat16
WITHIN = {F32: 5e-6, BF16: 2**-5}
CACHES = slice(7, 9)


def exact(arguments):
    """(result, log_sums, keys, values) in f64."""
    given = [x.double() if x.is_floating_point() else x for x in arguments]
    return (*formulas.qwen3_attention(*given), *given[CACHES])


def attended(arguments):
    """The same of the operator, on copies."""
    given = [x.clone() for x in arguments]
    return (*models.qwen3_attention(*given), *given[CACHES])


def assert_agrees(arguments):
    got = attended(arguments)
    within = WITHIN[arguments[0].dtype]
    for found, want in zip(got, exact(arguments), strict=True):
        torch.testing.assert_close(found.double(), want, rtol=within, atol=within)
    return got


@pytest.mark.parametrize("page", [16, 128])
@pytest.mark.parametrize("heads", [(32, 4), (40, 8)], ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("queries", [1, 33, 70])
def test_qwen3_attention_is_its_formula(queries, dtype, heads, page, deep):
    if not deep and queries == 1 and dtype is BF16:
        pytest.skip("the other type: ./dev test --deep")
    torch.manual_seed(queries)
    lengths = [queries, 150, 0, queries // 2, 257]
    assert_agrees(formulas.qwen3_arguments(lengths, queries, *heads, 128, page, dtype))


@pytest.mark.parametrize("lengths", [[300], [512, 1100], []], ids=str)
def test_prefill_of_whole_sequences(lengths):
    torch.manual_seed(0)
    assert_agrees(formulas.qwen3_arguments(lengths, 300, 4, 2, 64, 16, F32))


def test_no_queries_leave_the_cache_alone():
    arguments = formulas.qwen3_arguments([40, 3], 0, 4, 2, 64, 16, F32)
    result, log_sums, keys, values = attended(arguments)
    assert result.shape == (2, 0, 4, 64) and log_sums.shape == (2, 0, 4)
    assert torch.equal(keys, arguments[7]) and torch.equal(values, arguments[8])


def test_one_query_after_another_is_prefill():
    torch.manual_seed(0)
    arguments = formulas.qwen3_arguments([40, 37], 37, 4, 2, 64, 16, F32)
    whole = attended(arguments)
    *new, keys, values, slots, table, lengths = (x.clone() for x in arguments)
    found = []
    for r in range(37):
        one = [x[:, r : r + 1] if x.ndim > 1 else x for x in new]
        rest = slots[:, r : r + 1], table, lengths - 36 + r
        found.append(models.qwen3_attention(*one, keys, values, *rest))
    for k in (0, 1):
        torch.testing.assert_close(
            torch.cat([x[k] for x in found], 1), whole[k], rtol=1e-5, atol=1e-6
        )
    assert torch.equal(keys, whole[2]) and torch.equal(values, whole[3])


def test_parts_of_the_keys_join_by_their_log_sums():
    torch.manual_seed(0)
    arguments = formulas.qwen3_arguments([48], 1, 4, 2, 64, 16, F32)
    result, log_sums, keys, values = attended(arguments)
    table, parts = arguments[10], []
    for first, n in ((0, 32), (2, 16)):  # the last page alone, then those before it
        nothing = torch.full((1, 1), -1)
        lengths = torch.tensor([n])
        parts.append(
            models.qwen3_attention(*arguments[:7], keys, values, nothing, table[:, first:], lengths)
        )
    weights = torch.softmax(torch.stack([x[1] for x in parts]), 0)
    joined = sum(x[0] * w[..., None] for x, w in zip(parts, weights, strict=True))
    torch.testing.assert_close(joined, result, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(torch.logaddexp(*(x[1] for x in parts)), log_sums)


def test_pages_and_batches_change_no_bit():
    torch.manual_seed(0)
    arguments = formulas.qwen3_arguments([50, 90, 7], 3, 4, 2, 64, 16, BF16)
    whole = assert_agrees(arguments)
    order = torch.randperm(len(arguments[7]))
    moved = [x.clone() for x in arguments]
    moved[7], moved[8] = moved[7][order], moved[8][order]
    to, slots, table = order.argsort(), arguments[9], arguments[10]
    moved[9] = torch.where(slots < 0, slots, to[slots // 16] * 16 + slots % 16).int()
    moved[10] = torch.where(table < 0, table, to[table])
    found = attended(moved)
    pairs = zip(found, (*whole[:2], whole[2][order], whole[3][order]), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    for part in (slice(0, 1), slice(1, 3)):
        cut = [x[part] if i not in (3, 4, 7, 8) else x for i, x in enumerate(arguments)]
        assert all(torch.equal(a, b[part]) for a, b in zip(attended(cut)[:2], whole, strict=False))


def test_blocks_of_queries_run_side_by_side_and_caches_stay_where_they_are():
    @pto.jit
    def layer(q, k, v, gamma_q, gamma_k, cos, sin, keys, values, slots, table, lengths):
        result, log_sums, keys[:], values[:] = models.qwen3_attention(
            q, k, v, gamma_q, gamma_k, cos, sin, keys, values, slots, table, lengths
        )
        return result, log_sums

    for lengths, queries in (([90], 70), ([90, 33], 1)):
        found = layer.explain(*formulas.qwen3_arguments(lengths, queries, 4, 2, 64, 16))
        assert found.steps_of("loop")[0].order == "side by side"
    assert [name for _, name in found.memory.in_place] == ["keys", "values"]


def test_wrong_arguments_are_refused_before_anything_is_written():
    arguments = formulas.qwen3_arguments([50, 90, 7], 3, 4, 2, 64, 16, F32)
    caches = [x.clone() for x in arguments[CACHES]]
    for place, value, message in [
        *((i, arguments[i][:-1], "the shape of") for i in (1, 2, 3, 4, 5, 6, 9, 10, 11)),
        (0, arguments[0][0], "q has 3 axes"),
        (0, arguments[0][:, :, :3], "heads of q and keys"),
        (0, arguments[0].bfloat16(), "q is bf16"),
        (9, arguments[9] + 10**6, "scatter: position"),
        (11, arguments[11] + 10**6, "lengths are from 0"),
    ]:
        wrong = [*arguments[:place], value, *arguments[place + 1 :]]
        with pytest.raises(RuntimeError, match=message):
            models.qwen3_attention(*wrong)
    assert all(torch.equal(a, b) for a, b in zip(caches, arguments[CACHES], strict=True))


@pytest.mark.parametrize("d, key_heads, message", [
    (1, 2, "cos, which are turned in pairs"), (3, 2, "cos, which are turned in pairs"),
    (8, 0, "sizes 0 and 4 differ in heads of q and keys"),
])  # fmt: skip
def test_heads_have_pairs_that_turn_and_keys(d, key_heads, message):
    with pytest.raises(RuntimeError, match=message):
        models.qwen3_attention(*formulas.qwen3_arguments([40, 3], 2, 4, key_heads, d, 16, F32))


def test_it_is_the_attention_of_the_model():
    module = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    config = module.Qwen3Config(
        hidden_size=256, num_attention_heads=8, num_key_value_heads=2, head_dim=64,
        attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    layer = module.Qwen3Attention(config, 0)
    layer.o_proj = torch.nn.Identity()
    t, x = 50, torch.randn(2, 50, 256)
    cos, sin = module.Qwen3RotaryEmbedding(config)(x, torch.arange(t)[None].expand(2, t))
    mask = torch.full((t, t), -torch.inf).triu(1)[None, None]
    with torch.no_grad():
        for gamma in (layer.q_norm.weight, layer.k_norm.weight):
            gamma.copy_(torch.rand(64) + 0.5)
        want, _ = layer(x, (cos, sin), mask)
        q, k, v = (
            projection(x).unflatten(-1, (-1, 64))
            for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
        )
        arguments = formulas.qwen3_arguments([t, t], t, 8, 2, 64, 16, F32)
        arguments[:7] = q, k, v, layer.q_norm.weight, layer.k_norm.weight, cos, sin
        got, _ = models.qwen3_attention(*(x.detach() for x in arguments))
    torch.testing.assert_close(got.flatten(2), want, rtol=1e-4, atol=1e-5)
