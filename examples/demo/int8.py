# SPDX-License-Identifier: Apache-2.0
"""The models of fused.py and unpadded.py with products of bytes.

    with PtoSteps(model, INT8):                # or UNPADDED_INT8
        model(**batch)

Each row of a layer's input is quantised as it comes, each output's weights once. Runs of up to 128
numbers are rotated before, weights alike: some channels of this model are twenty times as large as
the others, and left as they are they would take the bits of all (QuaRot, arXiv:2404.00456).
"""

from typing import Any

import torch
from transformers.models.bert.modeling_bert import BertLayer

from examples.demo.fused import REPLACED, Classes, FusedLayer
from examples.demo.unpadded import UNPADDED, UnpaddedLayer


def _quantised(weight: torch.Tensor) -> tuple[Any, ...]:
    rotation = next(n for n in (128, 64, 32, 16, 0) if n == 0 or weight.shape[1] % n == 0)
    with torch.inference_mode(False):  # else a packed copy of it could not be trusted
        return *torch.ops.pto.quantize_rows(weight.detach(), rotation=rotation), rotation


class _Int8Layer(FusedLayer):
    """Linear layers by products of bytes; weights do not change once they were seen."""

    def prepare(self) -> None:
        super().prepare()
        weights = {
            "joined": self.attention.self.joined[0],
            "attended": self.attention.output.dense.weight,
            "wide": self.intermediate.dense.weight,
            "output": self.output.dense.weight,
        }
        seen = self.__dict__.setdefault("seen_weights", {})
        for name, weight in weights.items():
            if name not in seen or seen[name][0] is not weight:
                seen[name] = weight, _quantised(weight)

    def linear(
        self,
        name: str,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        activation: str = "none",
    ) -> torch.Tensor:
        weight, scale, rotation = self.__dict__["seen_weights"][name][1]
        x, row_scale = torch.ops.pto.quantize_rows(x, rotation=rotation)
        result: torch.Tensor = torch.ops.pto.scaled_matmul(
            x, weight, row_scale, scale, bias, activation=activation
        )
        return result


class _UnpaddedInt8Layer(_Int8Layer, UnpaddedLayer):
    pass


INT8: Classes = {**REPLACED, BertLayer: _Int8Layer}
UNPADDED_INT8: Classes = {**UNPADDED, BertLayer: _UnpaddedInt8Layer}
