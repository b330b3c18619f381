# SPDX-License-Identifier: Apache-2.0
"""Functions of rows as users call them, against PyTorch, torch.compile and NumPy.

Sizes are rows x columns. The ceiling is copying: each element is read and written once.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pto.bench.arrays import exact, operator, plain, random
from pto.bench.ceilings import copies
from pto.bench.peers import torch
from pto.bench.runner import Expected, Setting, Work

DTYPES = ("f32", "f16", "bf16")
EPS = 1e-5


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + EPS) * weight + bias


def rms_norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + EPS) * weight


@dataclass(frozen=True)
class Function:
    vectors: int  # beside x, each a row
    attributes: tuple  # of our operator
    in_numpy: Callable
    in_torch: Callable  # torch.nn.functional, then the arrays


FUNCTIONS = {
    "softmax": Function(0, (-1,), softmax, lambda f, x: f.softmax(x, -1)),
    "layer_norm": Function(
        2, (EPS,), layer_norm, lambda f, x, w, b: f.layer_norm(x, w.shape, w, b, EPS)
    ),
    "rms_norm": Function(1, (EPS,), rms_norm, lambda f, x, w: f.rms_norm(x, w.shape, w, EPS)),
}


def contenders(name: str, setting: Setting) -> Iterator[Any]:
    function, (rows, columns) = FUNCTIONS[name], setting.size
    x = random((rows, columns), setting.dtype)
    vectors = [random((columns,), setting.dtype, 1 + i) for i in range(function.vectors)]
    ours, attributes = operator(name), function.attributes
    yield "pto", lambda: ours(x, *vectors, *attributes)
    if torch():
        theirs = partial(function.in_torch, torch().nn.functional)
        yield "torch", lambda: theirs(x, *vectors)
        if shutil.which("g++") or shutil.which("clang++"):
            compiled = torch().compile(theirs, dynamic=False)
            yield "torch.compile", lambda: compiled(x, *vectors)
    if setting.dtype == "f32":
        arrays = [plain(a) for a in (x, *vectors)]
        yield "NumPy", lambda: function.in_numpy(*arrays)
    out = torch().empty_like(x) if torch() else np.empty_like(x)
    yield from copies(out, x, setting.threads, 2 * x.nbytes)
    yield Work("GB/s", 2e-9 * x.nbytes)
    double = [exact(a) for a in (x, *vectors)]
    yield Expected(lambda chosen: function.in_numpy(double[0][chosen], *double[1:]))
