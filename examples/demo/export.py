# SPDX-License-Identifier: Apache-2.0
"""The model as ONNX, of any batch and length.

    session = pto.onnxruntime.session(exported(model, make_batch(...), fused=True))
    hidden = session.run(None, {name: t.numpy() for name, t in tokens.items()})[0]

`fused`: the steps of fused.py are nodes of ai.pto; else every node is of the standard.
"""

import warnings

import pto.onnxruntime
import torch

from examples.demo.fused import PtoSteps


class LastHidden(torch.nn.Module):
    """The model's last hidden states as a function of two tensors."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def exported(model: torch.nn.Module, tokens: dict[str, torch.Tensor], fused: bool) -> bytes:
    """The model as one file; `tokens` are an example of its inputs."""
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    table = pto.onnxruntime.translation_table() if fused else None
    with warnings.catch_warnings(), PtoSteps(model) if fused else torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            LastHidden(model), (), kwargs=tokens, dynamic_shapes=dict.fromkeys(tokens, sizes),
            dynamo=True, verbose=False, custom_translation_table=table,
        )  # fmt: skip
    return program.model_proto.SerializeToString()
