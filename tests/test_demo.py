# SPDX-License-Identifier: Apache-2.0
"""The demo: its sentences, its batches, what it replaces in the model and puts back."""

import dataclasses

import pytest
import torch

from examples.demo import model as demo

ROW_KEYS = ["threads", "batch", "length", "eager_ms", "compile_ms"]
ROW_KEYS += ["pto_eager_ms", "pto_compile_ms", "pto_ms"]


@pytest.fixture(scope="module")
def bert():
    """A small BertModel with random weights and the demo's structure."""
    transformers = pytest.importorskip("transformers", reason="installed by ./dev demo")
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=96, max_position_embeddings=32,
    )  # fmt: skip
    model = transformers.BertModel(config, add_pooling_layer=False).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # zero at initialisation: would hide a bias left out
            parameter.normal_()
    return model


def batch_of(batch, length):
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, length // 2 :] = 0
    types = torch.randint(0, 2, (batch, length))
    ids = torch.randint(0, 99, (batch, length))
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def test_there_are_enough_different_sentences_of_varied_length():
    sentences = demo.read_sentences()
    words = sorted(len(s.split()) for s in sentences)
    assert len(sentences) >= 256 and len(set(sentences)) == len(sentences)
    assert words[0] <= 3 and words[-1] >= 80
    assert words[len(words) // 4] < words[3 * len(words) // 4]


def test_pooling_ignores_masked_tokens_and_gives_unit_length():
    hidden, mask = torch.randn(2, 5, 8), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    pooled = demo.pool(hidden, mask)
    changed = hidden.clone()
    changed[1, 2:] = 1e6
    assert torch.equal(demo.pool(changed, mask)[1], pooled[1])
    torch.testing.assert_close(pooled.norm(dim=-1), torch.ones(2))


def test_a_sentence_is_not_its_own_neighbour():
    points = torch.nn.functional.normalize(torch.randn(6, 4), dim=-1)
    for query, near in zip([0, 3], demo.neighbours(points, [0, 3]), strict=True):
        assert query not in [index for index, _ in near]
        others = [i for i in range(6) if i != query]
        assert near[0][0] == max(others, key=lambda i, q=query: points[q] @ points[i])


@pytest.mark.parametrize("batch, length", [(1, 1), (3, 7), (2, 32)])
def test_pto_steps_change_no_result(bert, batch, length):
    from examples.demo.fused import PtoSteps

    tokens = batch_of(batch, length)
    plain = bert(**tokens).last_hidden_state
    with PtoSteps(bert):
        fused = bert(**tokens).last_hidden_state
    assert not torch.equal(fused, plain), "the PTO kernels did not run"
    torch.testing.assert_close(fused, plain, atol=1e-5, rtol=1e-5)


def test_the_model_is_restored_also_after_an_error(bert):
    from examples.demo.fused import REPLACED, PtoSteps

    before = [type(m) for m in bert.modules()]
    with pytest.raises(KeyError), PtoSteps(bert):
        assert {type(m) for m in bert.modules()} >= set(REPLACED.values())
        raise KeyError
    assert [type(m) for m in bert.modules()] == before


def test_rows_have_the_documented_keys_and_take_the_faster_of_ours():
    pytest.importorskip("transformers", reason="installed by ./dev demo")
    from examples.demo import measure

    assert [f.name for f in dataclasses.fields(measure.Row)] == ROW_KEYS
    assert len(measure.SHOWN_ROWS) == 6 and set(measure.SHOWN_ROWS) <= set(measure.FULL_ROWS)
    rows = [measure.Row(1, 1, 16, 4.0, 2.0, 1.0, 3.0, 1.0)]
    rows.append(measure.Row(1, 1, 16, 2.0, 4.0, 9.0, 8.0, 8.0))
    assert measure.speedup(rows) == pytest.approx((0.5**0.5, 0.25))
