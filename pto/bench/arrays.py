# SPDX-License-Identifier: Apache-2.0
"""Inputs of benches: torch tensors where PyTorch is installed, else NumPy arrays.

In use:

    a = random((512, 384), "bf16")
    operator("matmul")(a, b)         # torch.ops.pto.matmul or pto.ops.matmul
    exact(a)                         # the same values in f64, of NumPy
"""

import importlib
from typing import Any

import numpy as np

from pto.bench.peers import torch
from pto.errors import Failure

NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
NAMES |= {"i32": "int32", "i64": "int64"}
LARGEST = 9  # of integers


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Normally distributed, or small integers; the same for the same arguments."""
    generator = np.random.default_rng(seed)
    if dtype.startswith("i"):
        values = generator.integers(-LARGEST, LARGEST, shape)
    else:
        values = generator.standard_normal(shape, np.float64 if dtype == "f64" else np.float32)
    if torch():
        return torch().from_numpy(values).to(getattr(torch(), NAMES[dtype]))
    if dtype != "bf16":
        return values.astype(NAMES[dtype], copy=False)
    try:
        return values.astype(importlib.import_module("ml_dtypes").bfloat16)
    except ModuleNotFoundError:
        raise Failure(
            "bench: dtype bf16 needs PyTorch or ml_dtypes",
            "NumPy has no element type bf16 of its own",
            "pip install ml_dtypes, or take another --dtype",
        ) from None


def operator(name: str) -> Any:
    """Our operator as users call it."""
    return getattr(torch().ops.pto if torch() else importlib.import_module("pto.ops"), name)


def exact(array: Any) -> np.ndarray:
    return array.double().numpy() if torch() else array.astype(np.float64)


def plain(array: Any) -> np.ndarray:
    """The same memory as a NumPy array; not for bf16."""
    return array.numpy() if torch() else array
