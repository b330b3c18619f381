# SPDX-License-Identifier: Apache-2.0
"""The gated delta rule against a loop over tokens in f64, and against the model's own function."""

import pytest
import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import model_formulas as formulas
from pto import models

LENGTHS = {
    "none": [], "an empty one": [0], "one token": [1], "few": [8], "a few more": [9],
    "63": [63], "64": [64], "1026": [1026], "several": [63, 0, 1, 130], "a token each": [1] * 5,
}  # fmt: skip


def token_by_token(query, key, value, beta, g, cu_lengths, states):
    """(out, new states) in f64, as the formula says it."""
    query, key, value, beta, g = (x.double() for x in (query, key, value, beta, g))
    states, group = states.double(), value.shape[1] // key.shape[1]
    query, key = (formulas.unit(x).repeat_interleave(group, 1) for x in (query, key))
    out = torch.zeros_like(value)
    for b, (start, end) in enumerate(zip(cu_lengths[:-1], cu_lengths[1:], strict=True)):
        for t in range(int(start), int(end)):
            states[b] *= g[t].exp()[:, None, None]
            d = (value[t] - torch.einsum("hk,hkv->hv", key[t], states[b])) * beta[t][:, None]
            states[b] += key[t][:, :, None] * d[:, None, :]
            out[t] = torch.einsum("hk,hkv->hv", query[t], states[b]) * key.shape[2] ** -0.5
    return out, states


def assert_close(got, want, within):
    """Elements are within a share of the largest one."""
    assert got.shape == want.shape
    if want.numel():
        assert (got.double() - want).abs().max() <= within * want.abs().max()


def assert_agrees(arguments, within=2e-6):
    want, new_states = token_by_token(*(x.clone() for x in arguments))
    got = models.gated_delta_rule(*arguments)
    assert_close(got, want, within)
    assert_close(arguments[6], new_states, within)
    return got


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_the_delta_rule_is_its_formula(lengths):
    torch.manual_seed(0)
    assert_agrees(formulas.delta_arguments(lengths, 1, 2))


def test_a_million_tokens_end_as_a_restart_from_the_state_before_the_last_thousand(deep):
    if not deep:
        pytest.skip("a deep test")
    torch.manual_seed(0)
    t, last = 1_000_000, 999_000
    arguments = formulas.delta_arguments([t], 1, 1)
    whole, state = models.gated_delta_rule(*arguments), arguments[6].clone()
    torch.manual_seed(0)
    arguments = formulas.delta_arguments([t], 1, 1)
    models.gated_delta_rule(
        *(x[:last] for x in arguments[:5]), torch.tensor([0, last]), arguments[6]
    )
    rest = [*(x[last:] for x in arguments[:5]), torch.tensor([0, t - last]), arguments[6]]
    want, new_state = token_by_token(*(x.clone() for x in rest))
    assert_close(whole[last:], want, 1e-4)
    assert_close(state, new_state, 1e-4)


def test_heads_may_have_any_width():
    torch.manual_seed(0)
    assert_agrees(formulas.delta_arguments([70, 3], 2, 6, depth=16, width=40))


def test_equal_keys_that_nothing_forgets_lose_no_digits():
    """The inverse of a triangle of ones: its powers have binomials of 60 bits."""
    torch.manual_seed(0)
    arguments = formulas.delta_arguments([200], 1, 2)
    arguments[1][:], arguments[3][:], arguments[4][:] = arguments[1][0], 1, 0
    assert_agrees(arguments)


@pytest.mark.parametrize("least", [-1, -40, -1e30, -torch.inf])
def test_what_forgets_fast_stays_finite(least):
    torch.manual_seed(0)
    arguments = formulas.delta_arguments([200, 5], 1, 2)
    arguments[4][::3], arguments[4][:40] = 0, -40
    arguments[4][1::3] = least
    got = assert_agrees(arguments)
    assert got.isfinite().all() and arguments[6].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types_round_the_results_alone(dtype, deep):
    if not deep and dtype is torch.float16:
        pytest.skip("the other type: ./dev test --deep")
    torch.manual_seed(0)
    arguments = formulas.delta_arguments([100, 3], 1, 2)
    arguments[:4] = [x.to(dtype) for x in arguments[:4]]
    arguments[5] = arguments[5].int()
    got = assert_agrees(arguments, within=2**-8)
    assert got.dtype == dtype


@pytest.mark.parametrize("first", [1, 5, 64, 100])
def test_the_state_goes_on_from_one_call_to_the_next(first):
    torch.manual_seed(0)
    arguments = formulas.delta_arguments([150], 1, 2)
    state = arguments[6].clone()
    whole = models.gated_delta_rule(*arguments)
    parts = []
    for part in (slice(0, first), slice(first, 150)):
        cut = [x[part] for x in arguments[:5]]
        ends = torch.tensor([0, len(cut[0])])
        parts.append(models.gated_delta_rule(*cut, ends, state))
    assert_close(torch.cat(parts), whole.double(), 2e-6)
    assert_close(state, arguments[6].double(), 2e-6)


def test_a_sequence_has_the_same_bits_in_every_call():
    torch.manual_seed(0)
    lengths = [63, 1, 130, 0, 8]
    arguments = formulas.delta_arguments(lengths, 1, 2)
    before = arguments[6].clone()
    whole = models.gated_delta_rule(*arguments)
    order, ends = [3, 2, 4, 0, 1], arguments[5]
    rows = torch.cat([torch.arange(ends[b], ends[b + 1]) for b in order])
    new_ends = torch.tensor([0, *(lengths[b] for b in order)]).cumsum(0)
    states = before[order].clone()
    found = models.gated_delta_rule(*(x[rows] for x in arguments[:5]), new_ends, states)
    assert torch.equal(found, whole[rows]) and torch.equal(states, arguments[6][order])


def test_tokens_of_no_sequence_have_zeros():
    torch.manual_seed(0)
    arguments = formulas.delta_arguments([10, 10], 1, 1)
    arguments[5] = torch.tensor([3, 5, 17])
    got = assert_agrees(arguments)
    assert not got[:3].any() and not got[17:].any()


def test_nan_stays_in_its_sequence_and_head_and_out_of_chunks_before_its_own():
    torch.manual_seed(0)
    arguments = formulas.delta_arguments([130, 20], 1, 2)
    spoilt = [x.clone() for x in arguments]
    whole = models.gated_delta_rule(*arguments)
    spoilt[2][100, 1, 5] = float("nan")
    found = models.gated_delta_rule(*spoilt)
    assert torch.equal(found[:64], whole[:64]) and torch.equal(found[130:], whole[130:])
    assert torch.equal(found[:, 0], whole[:, 0]) and found[100:130, 1, 5].isnan().all()


def test_heads_run_side_by_side_on_states_where_they_lie():
    @pto.jit
    def layer(query, key, value, beta, g, cu_lengths, states):
        out, states[:] = models.gated_delta_rule(query, key, value, beta, g, cu_lengths, states)
        return out

    found = layer.explain(*formulas.delta_arguments([70], 1, 2))
    assert found.steps_of("loop")[0].order == "side by side"
    assert [name for _, name in found.memory.in_place] == ["states"]


@pytest.mark.parametrize("place", range(7))
def test_the_delta_rule_refuses_wrong_sizes(place):
    arguments = formulas.delta_arguments([3, 2], 1, 2)
    arguments[place] = arguments[place][:-1]
    with pytest.raises(RuntimeError, match="the shape of"):
        models.gated_delta_rule(*arguments)


def test_the_delta_rule_refuses_wrong_ranks_heads_and_ends():
    arguments = formulas.delta_arguments([3, 2], 2, 4)
    wrong_heads = [x[:, :3].clone() if i in (2, 3, 4, 6) else x for i, x in enumerate(arguments)]
    before = arguments[6].clone()
    for wrong, message in [
        ([arguments[0], arguments[1][0], *arguments[2:]], "key has 2 axes"),
        (wrong_heads, "heads of value and key"),
        *(
            ([*arguments[:5], torch.tensor(ends), arguments[6]], "cu_lengths rise")
            for ends in ([0, 3, 6], [0, 4, 3], [-1, 2, 5])
        ),
    ]:
        with pytest.raises(RuntimeError, match=message):
            models.gated_delta_rule(*wrong)
    assert torch.equal(arguments[6], before)


def test_the_delta_rule_is_that_of_the_model():
    module = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    torch.manual_seed(0)
    query, key, value, beta, g, ends, states = formulas.delta_arguments([150, 150], 2, 2)
    state = states.clone()
    got = models.gated_delta_rule(query, key, value, beta, g, ends, states)
    for function in (module.torch_chunk_gated_delta_rule, module.torch_recurrent_gated_delta_rule):
        want, new_state = function(
            *(x.unflatten(0, (2, 150)) for x in (query, key, value, g, beta)),
            initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True,
        )  # fmt: skip
        assert_close(got, want.flatten(0, 1).double(), 1e-4)
        assert_close(states, new_state.double(), 1e-4)
