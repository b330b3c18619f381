# SPDX-License-Identifier: Apache-2.0
"""Adapters: the language calls them and imports none; the package pto says how one is loaded.

    load("torch").call("gelu", args, kwargs)

Thread safety: as of an import.
"""

import functools
from collections.abc import Callable
from types import ModuleType

NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX",
         "onnxruntime": "ONNX Runtime", "mindspore": "MindSpore"}  # fmt: skip

_load: Callable[[str], ModuleType] | None = None


def load_with(loader: Callable[[str], ModuleType]) -> None:
    """`loader` returns a part of pto/adapters by its name: "torch", "torch.graphs"."""
    global _load
    _load = loader


@functools.cache
def load(part: str) -> ModuleType:
    """A part of pto/adapters, imported where it is not yet. Raises what its import raises."""
    assert _load is not None, "the package pto says how adapters are loaded when it is imported"
    return _load(part)
