# SPDX-License-Identifier: Apache-2.0
"""A PyTorch model on our kernels: compiled, explained, verified, and saved for a process without a
compiler.

Run it:

    python examples/07_compile_model.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import pto
import pto.torch


class Encoder(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 128, activation="gelu", batch_first=True)
        self.words, self.layers = nn.Embedding(1000, width), nn.TransformerEncoder(layer, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.layers(self.words(words)).mean(1)


CHILD = """
import sys, torch, pto
model = pto.load(sys.argv[1])
print(model)
print(model(torch.arange(12).view(3, 4)).shape)
"""


def main() -> None:
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # one operator of PyTorch for a whole layer
    model, words = Encoder().eval().requires_grad_(False), torch.arange(10).view(2, 5)
    compiled = torch.compile(model, backend="pto")
    torch.testing.assert_close(compiled(words), model(words), rtol=1e-4, atol=1e-5)
    print(pto.torch.explain(compiled, words))
    print(pto.torch.verify(compiled, words))

    sizes = {"words": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}}
    folder = Path(tempfile.mkdtemp())
    exported = torch.export.export(model, (words,), dynamic_shapes=sizes)
    pto.torch.package(exported, folder / "encoder.pto")
    root = str(Path(pto.__file__).resolve().parent.parent)
    env = {**os.environ, "PATH": "", "PYTHONPATH": root, "PTO_CACHE_DIR": str(folder / "none")}
    command = [sys.executable, "-c", CHILD, str(folder / "encoder.pto")]
    subprocess.run(command, env=env, check=True)


if __name__ == "__main__":
    main()
