# SPDX-License-Identifier: Apache-2.0
"""The demo: its sentences, its batches, what it replaces in the model and puts back."""

import copy
import dataclasses

import pytest
import torch

from examples.demo import model as demo

ROW_KEYS = ["mode", "threads", "batch", "length", "eager_ms", "compile_ms"]
ROW_KEYS += ["pto_eager_ms", "pto_compile_ms", "pto_ms", "pto_unpadded_ms", "onnxruntime_ms"]
ROW_KEYS += ["pto_packaged_ms"]


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


MASKS = {
    "padding behind": [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]],
    "padding before": [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]],
    "padding between": [[1, 0, 1, 0, 1, 1], [0, 1, 1, 0, 0, 0]],
    "no padding": [[1, 1, 1], [1, 1, 1]],
    "one sentence": [[1, 1, 1, 0]],
    "a row without words": [[1, 1, 0], [0, 0, 0]],
    "no word": [[0, 0]],
}


@pytest.mark.parametrize("rows", MASKS.values(), ids=MASKS)
def test_words_are_computed_alike_without_their_padding(bert, rows):
    from examples.demo.fused import PtoSteps
    from examples.demo.unpadded import UNPADDED

    mask = torch.tensor(rows)
    tokens = batch_of(*mask.shape) | {"attention_mask": mask}
    plain = bert(**tokens).last_hidden_state
    with PtoSteps(bert, UNPADDED):
        found = bert(**tokens).last_hidden_state
    torch.testing.assert_close(found, plain * mask.unsqueeze(-1), atol=1e-5, rtol=1e-5)


def test_in_bf16_both_are_near_to_f32(bert):
    from examples.demo.fused import PtoSteps

    tokens, halved = batch_of(3, 7), copy.deepcopy(bert).bfloat16()
    right, plain = bert(**tokens).last_hidden_state, halved(**tokens).last_hidden_state
    with PtoSteps(halved):
        fused = halved(**tokens).last_hidden_state
    assert fused.dtype == torch.bfloat16 and not torch.equal(fused, plain)
    for found in (plain, fused):
        torch.testing.assert_close(found.float(), right, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("rows", MASKS.values(), ids=MASKS)
def test_products_of_bytes_are_near_to_f32_with_padding_and_without(bert, rows):
    from examples.demo.fused import PtoSteps
    from examples.demo.int8 import INT8, UNPADDED_INT8

    mask = torch.tensor(rows)
    tokens = batch_of(*mask.shape) | {"attention_mask": mask}
    right = bert(**tokens).last_hidden_state
    with PtoSteps(bert, INT8):
        found = bert(**tokens).last_hidden_state
    with PtoSteps(bert, UNPADDED_INT8):
        words = bert(**tokens).last_hidden_state
    mask = mask.unsqueeze(-1)
    assert not torch.allclose(found, right, atol=1e-4), "no product was of bytes"
    torch.testing.assert_close(found * mask, right * mask, atol=0.1, rtol=0.05)
    torch.testing.assert_close(words, found * mask, atol=1e-5, rtol=1e-5)


def test_compiled_products_of_bytes_have_the_bits_of_eager_mode(bert):
    from examples.demo import measure
    from examples.demo.fused import PtoSteps
    from examples.demo.int8 import INT8

    whole = measure.whole(measure.Mode("int8", None, bert, fused=INT8, compiles=False))
    for batch, length in ((1, 16), (3, 7), (2, 32)):
        tokens = batch_of(batch, length)
        found = whole(**tokens).last_hidden_state
        with PtoSteps(bert, INT8):
            assert torch.equal(found, bert(**tokens).last_hidden_state)


@pytest.mark.parametrize("is_of_bytes", [False, True], ids=["f32", "int8"])
def test_a_packaged_model_serves_every_batch_and_length(bert, is_of_bytes):
    from examples.demo.fused import PtoSteps
    from examples.demo.int8 import INT8
    from examples.demo.packaged import packaged

    replaced = INT8 if is_of_bytes else {}
    tokens = {name: batch_of(3, 7)[name] for name in ("input_ids", "attention_mask")}
    run = packaged(bert, tokens, replaced)
    for batch, length in ((1, 16), (3, 7), (2, 32)):
        tokens = {name: batch_of(batch, length)[name] for name in tokens}
        with PtoSteps(bert, replaced):
            right = bert(**tokens).last_hidden_state
        found = run(**tokens).last_hidden_state
        torch.testing.assert_close(found, right, atol=1e-5, rtol=1e-5)


def test_embeddings_are_in_the_order_of_the_sentences(bert):
    def tokenizer(sentences, **options):
        ids = torch.tensor([[len(s)] * max(map(len, sentences)) for s in sentences])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    sentences = ["abc", "a", "abcde", "ab"]
    found = demo.embed(bert, tokenizer, sentences, batch=1)
    for sentence, embedding in zip(sentences, found, strict=True):
        one = demo.embed(bert, tokenizer, [sentence])[0]
        torch.testing.assert_close(embedding, one)


def test_onnx_runtime_runs_the_exported_model_which_is_kept(bert, monkeypatch, tmp_path):
    from examples.demo import onnx_runtime

    if onnx_runtime.missing():
        assert onnx_runtime.OnnxRuntime.of(bert, batch_of(2, 5)) is None
        pytest.skip("ONNX Runtime is installed by ./dev demo")
    from examples.demo import export

    monkeypatch.setattr(export, "FOLDER", tmp_path)
    monkeypatch.setattr(export, "PACKAGES", ("torch", "transformers", "onnx"))
    tokens = {name: batch_of(2, 5)[name] for name in ("input_ids", "attention_mask")}
    runtime = onnx_runtime.OnnxRuntime.of(bert, tokens)
    [kept] = tmp_path.iterdir()
    monkeypatch.setattr(export, "exported", None)
    assert export.exported_once(bert, tokens) == kept
    for batch, length in ((1, 1), (3, 7), (2, 32)):
        tokens = {name: batch_of(batch, length)[name] for name in tokens}
        found = runtime.on(threads=2)(**tokens).last_hidden_state
        torch.testing.assert_close(found, bert(**tokens).last_hidden_state, atol=1e-5, rtol=1e-5)
    for _ in range(2):  # the second finds the file of the first
        found = runtime.quantised().on(threads=1)(**tokens).last_hidden_state
        assert not torch.allclose(found, bert(**tokens).last_hidden_state, atol=1e-4)
        torch.testing.assert_close(found, bert(**tokens).last_hidden_state, atol=0.3, rtol=0.1)


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
    rows = [measure.Row("f32", 1, 1, 16, 4.0, 2.0, 1.0, 3.0, 1.0, 0.5)]
    rows.append(measure.Row("f32", 1, 1, 16, 2.0, 4.0, 9.0, 8.0, 8.0, 2.0))
    assert measure.speedup(rows) == pytest.approx((0.5**0.5, 0.25))
    assert measure.speedup(rows, "pto_unpadded_ms") == pytest.approx((2.0, 1.0))
    rows[0] = dataclasses.replace(rows[0], onnxruntime_ms=0.5)
    assert measure.speedup(rows) == pytest.approx((0.125**0.5, 0.25))


def test_a_row_is_printed_in_sentences_per_second(capsys):
    pytest.importorskip("transformers", reason="installed by ./dev demo")
    from examples.demo import __main__, measure

    __main__.show_row(measure.Row("f32", 2, 8, 64, 4.0, 2.0, 1.0, 3.0, 1.0, 0.8, 1.6, 1.25))
    [line] = capsys.readouterr().out.splitlines()
    rates = ["2000.0", "4000.0", "5000.0", "8000.0", "2666.7", "6400.0", "1.60x"]
    assert line.split() == ["2", "8", "x", "64", *rates, "10000.0", "2.00x"]
    __main__.show_row(measure.Row("bf16", 2, 8, 64, 4.0, 2.0, 1.0, 3.0, 1.0, 0.8))
    assert " - " in capsys.readouterr().out


def test_accuracy_is_the_least_cosine_and_the_largest_difference():
    pytest.importorskip("transformers", reason="installed by ./dev demo")
    from examples.demo.measure import Accuracy

    right = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    found = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    one = Accuracy.of("ours", found, right)
    assert one.least_cosine == pytest.approx(0.5**0.5) and one.max_difference == 1
    assert Accuracy.of("same", right, right).least_cosine == 1
