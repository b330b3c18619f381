# SPDX-License-Identifier: Apache-2.0
"""The model in a file that pto.torch.package wrote, for any batch and length.

    run = packaged(model, tokens)
    run(**tokens).last_hidden_state

A process that loads the file needs neither Dynamo nor a compiler, and a call neither looks for code
nor checks the model's parameters one by one, as a model under torch.compile does.
"""

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import pto.torch
from examples.demo.fused import Classes, PtoSteps


def packaged(
    model: Any, tokens: dict[str, torch.Tensor], replaced: Classes | None = None
) -> Callable[..., Any]:
    """Exports the model, with PTO's modules in the places of `replaced`, writes it to a file and
    loads it; `tokens` are an example of its inputs, none of whose sizes is 1."""
    batch = torch.export.Dim("batch")
    length = torch.export.Dim("length", max=model.config.max_position_embeddings)
    sizes: Any = dict.fromkeys(tokens, {0: batch, 1: length})
    with PtoSteps(model, replaced or {}):
        exported = torch.export.export(model, (), kwargs=tokens, dynamic_shapes=sizes)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # from PyTorch's copy of the export
        path = Path(folder) / "model.pto"
        pto.torch.package(exported, path)
        loaded: Callable[..., Any] = pto.load(path)
    return loaded
