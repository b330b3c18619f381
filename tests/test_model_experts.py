# SPDX-License-Identifier: Apache-2.0
"""Gates and mixtures of experts of real models against their formulas in plain torch."""

import pytest
import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import model_formulas as formulas
from pto import models

GATES = {
    "160 experts": (160, {}),
    "groups by two": (256, {"groups": 8, "best_groups": 4, "scale": 2.5}),
    "groups by one": (256, {"groups": 8, "best_groups": 4, "by_two": False}),
    "one group": (160, {"groups": 5, "best_groups": 1, "k": 6}),
}
every_gate = pytest.mark.parametrize(("experts", "options"), GATES.values(), ids=GATES)


@every_gate
@pytest.mark.parametrize("t", [1, 7, 101, 1026])
def test_the_gate_is_its_formula(t, experts, options):
    torch.manual_seed(t)
    arguments = formulas.gate_arguments(t, experts, hidden=128)
    weights, indices = models.topk_gate(*arguments, **options)
    right, chosen = formulas.topk_gate(*arguments, **options)
    assert torch.equal(indices, chosen)
    torch.testing.assert_close(weights, right, rtol=1e-5, atol=1e-6)


@every_gate
def test_equal_scores_go_to_the_smaller_index(experts, options):
    x, w, bias = formulas.gate_arguments(2, experts, hidden=8)
    _, indices = models.topk_gate(x, w * 0, bias * 0, **options)
    k = options.get("k", 8)
    assert indices.tolist() == [list(range(k))] * 2


def test_the_bias_chooses_and_does_not_weigh():
    x, w, bias = formulas.gate_arguments(3, 32, hidden=8)
    bias[5] += 10
    weights, indices = models.topk_gate(x, w, bias, k=4)
    assert (indices[:, 0] == 5).all()
    scores = (x @ w).sigmoid().gather(1, indices)
    torch.testing.assert_close(weights, scores / scores.sum(1, keepdim=True))


def test_the_gate_takes_bf16():
    x, w, bias = formulas.gate_arguments(8, 64)
    x, w = x.bfloat16(), w.bfloat16()
    _, indices = models.topk_gate(x, w, bias)
    assert torch.equal(indices, formulas.topk_gate(x, w, bias)[1])


@pytest.mark.parametrize("option", ["k", "groups", "best_groups"])
def test_the_gate_refuses_nothing_of_what_it_chooses(option):
    with pytest.raises(RuntimeError, match=f"{option} is 0"):
        models.topk_gate(*formulas.gate_arguments(2, 32, hidden=8), **{option: 0})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "f32"])
@pytest.mark.parametrize("t", [1, 2, 8, 13, 64])
def test_the_mixture_is_its_formula(t, dtype):
    torch.manual_seed(t)
    arguments = [x.to(dtype) for x in formulas.moe_arguments(t)]
    got, want = models.moe(*arguments), formulas.moe(*arguments)
    within = {"rtol": 2**-6, "atol": 2**-7} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(got, want, **within)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
def test_experts_that_another_gate_chose_are_their_formula(kind):
    torch.manual_seed(0)
    x, router, up, down = (x.float() for x in formulas.moe_arguments(13))
    weights, indices = models.topk_gate(x, router, torch.zeros(router.shape[1]), k=3)
    got = models.moe_experts(x, weights, indices.to(kind), up, down)
    torch.testing.assert_close(got, formulas.moe_experts(x, weights, indices, up, down))
    with pytest.raises(RuntimeError, match="the shape of weights"):
        models.moe_experts(x, weights[:-1], indices, up, down)


@pytest.mark.parametrize("t", [1, 2, 8, 13, 64])
def test_the_mixture_of_bytes_is_its_formula(t):
    torch.manual_seed(t)
    arguments = formulas.moe_int8_arguments(t)
    got, want = models.moe_int8(*arguments), formulas.moe_int8(*arguments)
    torch.testing.assert_close(got, want, rtol=2**-6, atol=2**-7)


def test_a_mixture_of_bytes_has_the_bits_of_a_token_alone_and_reads_all_bytes():
    torch.manual_seed(0)
    x, router, up, *rest = formulas.moe_int8_arguments(8)
    up[:, 0] = -128
    whole = models.moe_int8(x, router, up, *rest)
    for i in range(8):
        assert torch.equal(models.moe_int8(x[i : i + 1], router, up, *rest)[0], whole[i])
    x[3], x[5, 7] = 0, torch.nan
    spoilt = models.moe_int8(x, router, up, *rest)
    others = [0, 1, 2, 4, 6, 7]
    assert torch.equal(spoilt[others], whole[others])
    assert not spoilt[3].any() and spoilt[5].isnan().all()


@pytest.mark.parametrize("t", [1, 7, 130])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_a_gate_and_its_shared_expert_are_their_formulas(t, kind):
    torch.manual_seed(t)
    x, w, bias = formulas.gate_arguments(t, 160, hidden=512)
    arguments = [x.bfloat16(), w.to(kind), bias, *formulas.random_expert(512, 24)]
    options = {"groups": 5, "best_groups": 2, "k": 6, "scale": 2.5}
    weights, indices, shared = models.topk_gate_shared(*arguments, **options)
    right = formulas.topk_gate_shared(*arguments, **options)
    assert torch.equal(indices, right[1])
    torch.testing.assert_close(weights, right[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(shared, right[2], rtol=2**-6, atol=2**-9)


def test_a_gate_with_a_shared_expert_is_one_launch():
    @pto.jit
    def program(x, w, bias, w_gate_up, gate_up_scale, w_down, down_scale):
        return models.topk_gate_shared(x, w, bias, w_gate_up, gate_up_scale, w_down, down_scale)

    x, w, bias = formulas.gate_arguments(8, 160)
    found = program.explain(x.bfloat16(), w, bias, *formulas.random_expert(512, 24))
    assert found.cpp.count('extern "C"') == 1
    assert len([one for one in found.every_step() if one.kind == "product"]) == 3


def test_experts_of_bytes_refuse_wrong_sizes():
    arguments = formulas.moe_int8_arguments(3)
    for place in range(1, 6):
        wrong = [x[:-1] if i == place else x for i, x in enumerate(arguments)]
        with pytest.raises(RuntimeError, match="the shape of"):
            models.moe_int8(*wrong)
    x, w, bias = formulas.gate_arguments(2, 16, hidden=64)
    arguments = [x.bfloat16(), w, bias, *formulas.random_expert(64, 8)]
    for place in range(1, 7):
        wrong = [x[:-1] if i == place else x for i, x in enumerate(arguments)]
        with pytest.raises(RuntimeError, match="the shape of"):
            models.topk_gate_shared(*wrong)


def test_experts_of_the_model_s_sizes(deep):
    if not deep:
        pytest.skip("a deep test")
    torch.manual_seed(0)
    arguments = formulas.moe_arguments(8, hidden=2048, inner=768, experts=128)
    got, want = models.moe(*arguments), formulas.moe(*arguments)
    torch.testing.assert_close(got, want, rtol=2**-6, atol=2**-7)


def test_experts_may_be_renamed():
    torch.manual_seed(0)
    x, router, up, down = formulas.moe_arguments(13)
    order = torch.randperm(router.shape[1])
    renamed = models.moe(x, router[:, order].contiguous(), up[order], down[order])
    assert torch.equal(renamed, models.moe(x, router, up, down))


def test_an_expert_without_tokens_is_not_read():
    torch.manual_seed(0)
    x, router, up, down = formulas.moe_arguments(2)
    right = models.moe(x, router, up, down, k=2)
    used = (x @ router).float().topk(2).indices.unique().tolist()
    unused = [e for e in range(len(up)) if e not in used]
    up[unused], down[unused] = float("nan"), float("nan")
    assert unused and torch.equal(models.moe(x, router, up, down, k=2), right)


def test_a_token_has_the_same_result_beside_others_and_nan_stays_in_its_token():
    torch.manual_seed(0)
    x, router, up, down = formulas.moe_arguments(8)
    whole = models.moe(x, router, up, down)
    x[3, 5] = float("nan")
    spoilt = models.moe(x, router, up, down)
    others = [0, 1, 2, 4, 5, 6, 7]
    assert torch.equal(spoilt[others], whole[others]) and spoilt[3].isnan().all()


def test_the_mixture_refuses_wrong_sizes():
    arguments = formulas.moe_arguments(3)
    for place in range(1, 4):
        wrong = [x[:-1] if i == place else x for i, x in enumerate(arguments)]
        with pytest.raises(RuntimeError, match="the shape of"):
            models.moe(*wrong)


@pytest.mark.parametrize("expert", [-1, 8])
def test_an_expert_that_is_not_there_is_an_error(expert):
    """One before the first would move the rows of all others."""
    x, _, up, down = formulas.moe_arguments(5, 64, 16, 8, k=2)
    indices = torch.randint(0, 8, (5, 2))
    indices[3, 1] = expert
    with pytest.raises(RuntimeError, match="indices are from 0 to the last of the experts"):
        models.moe_experts(x, torch.rand(5, 2), indices, up, down)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"k": 12, "groups": 4, "best_groups": 1}, "the experts of 1 groups, which must be k"),
        ({"k": 2, "groups": 5, "best_groups": 5}, "the experts, which lie in 5 equal groups"),
        ({"k": 2, "groups": 32, "best_groups": 5}, "of which by_two=True takes two"),
        ({"k": 33}, "the experts of 1 groups, which must be k"),
    ],
)
def test_a_gate_has_the_experts_that_a_token_takes(wrong, message):
    with pytest.raises(RuntimeError, match=message):
        models.topk_gate(*formulas.gate_arguments(3, 32, 64), **wrong)


@pytest.mark.parametrize("k", [0, -1])
def test_a_token_takes_at_least_one_expert(k):
    for name, arguments in [
        ("moe", formulas.moe_arguments(5, 64, 16, 8, k=2)),
        ("moe_int8", formulas.moe_int8_arguments(5, 64, 16, 8, k=2)),
    ]:
        with pytest.raises(RuntimeError, match=f"moe: k is {k}\n.*takes some experts"):
            getattr(models, name)(*arguments, k=k)
