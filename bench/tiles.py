# SPDX-License-Identifier: Apache-2.0
"""Functions and top-k by tile instructions against PyTorch (SLEEF, MKL) and glibc's libmvec.

`functions`: each on 65,536 floats on one thread, into an existing output. `top_k`: the k largest of
a row, by sort and merge.
"""

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

import torch

from pto import build_config
from pto.bench.runner import Expected, Setting, case

SOURCE = Path(__file__).with_suffix(".cpp")
FUNCTIONS = {
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "sigmoid": torch.sigmoid,
    "rsqrt": torch.rsqrt,
    "pow": functools.partial(torch.pow, exponent=2.3),
}
COUNT = 65536


@functools.cache
def library() -> ctypes.CDLL:
    """bench/tiles.cpp, compiled for this machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiles.so"
        flags = [*build_config.cxxflags(), SOURCE, "-o", path, *build_config.ldflags(), "-lmvec"]
        subprocess.run(["c++", "-O2", "-shared", "-fPIC", *flags, "-lm"], check=True)
        return ctypes.CDLL(str(path))


def run(name: str, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    pointer = ctypes.c_void_p
    getattr(library(), name)(pointer(out.data_ptr()), pointer(x.data_ptr()), ctypes.c_long(COUNT))
    return out


def function_case(name: str):
    @case(f"function_{name}", sizes=[(1, COUNT)], dtypes=["f32"], threads=(1,))
    def contenders(setting: Setting):
        x = torch.rand(setting.size) * 6 + 0.1
        out = torch.empty_like(x)
        yield "pto", lambda: run(f"pto_{name}", out, x)
        yield "torch_out", lambda: FUNCTIONS[name](x, out=out)
        if hasattr(library(), f"mvec_{name}"):
            yield "libmvec", lambda: run(f"mvec_{name}", out, x)
        yield Expected(lambda rows: FUNCTIONS[name](x[rows].double()))

    return contenders


for one in FUNCTIONS:
    function_case(one)


@case("top_k", sizes=[(1024, 64), (65536, 64), (65536, 1024)], dtypes=["f32"], threads=(1,))
def top_k(setting: Setting):
    count, k = setting.size
    x = torch.randn(count)
    values, places = torch.empty(k), torch.empty(k, dtype=torch.int64)

    def ours():
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (values, places, x)]
        library().pto_top_k(*pointers, ctypes.c_long(count), ctypes.c_long(k))
        return values.reshape(1, -1)

    expected = torch.topk(x, k).values.double().reshape(1, -1)
    if not torch.equal(ours(), x[places].reshape(1, -1)):
        raise SystemExit("top_k: the places are not those of the values")
    yield "pto", ours
    yield "torch", lambda: torch.topk(x, k).values.reshape(1, -1).clone()
    yield Expected(lambda rows: expected[rows], tolerance=1e-30)
