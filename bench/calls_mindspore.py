# SPDX-License-Identifier: Apache-2.0
"""Measures calls inside MindSpore, in its own process: one JSON line for each contender.

    python -m bench.calls_mindspore        # with a Python that has MindSpore; needs no PyTorch

Read by frameworks_mindspore.py. MindSpore queues a call and goes on, so that a sample is a row of
calls and the wait for the last of them. A wrong result ends the program.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from mindspore import ops

import pto.mindspore
from pto.adapters.mindspore.eager import Eager
from pto.bench.timing import interleave

ROUNDS = 21
BARE = """
extern "C" int add(int, void** data, int*, long** sizes, const char**, void*, void*) {
  const float* x = static_cast<const float*>(data[0]);
  const float* y = static_cast<const float*>(data[1]);
  float* z = static_cast<float*>(data[2]);
  for (long i = 0; i < sizes[0][0]; ++i) z[i] = x[i] + y[i];
  return 0;
}
"""


def bare_add(folder: str) -> Callable:
    """An ops.Custom that adds two f32 vectors and does nothing else."""
    source, library = Path(folder) / "add.cpp", Path(folder) / "libadd.so"
    source.write_text(BARE)
    subprocess.run(["c++", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    return ops.Custom(f"{library}:add", lambda x, y: x, lambda x, y: x, "aot")


def through_custom(name: str) -> Callable:
    """An operator as it is called where eager.cpp was not built."""
    operator = Eager(pto.mindspore.index_of(name), in_cpp=False)
    defaults = tuple(a.default for a in operator.record.attributes)
    return lambda *tensors: operator(tensors, defaults)


def ours(name: str) -> dict[str, Callable]:
    """The routes of an operator, by the names of the contenders."""
    routes = {"pto_custom": through_custom(name)}
    if pto.mindspore.has_fast_calls():
        routes["pto_built"] = getattr(pto.mindspore, name)
    return routes


def measured(
    name: str, arrays: Any, calls: int, functions: dict[str, Callable], total: Any
) -> None:
    """Checks the results against `total` and prints the seconds of one call of each."""
    x, y = (mindspore.Tensor(a) for a in arrays)

    def row_of(function: Callable) -> Callable:
        def run() -> np.ndarray:
            for _ in range(calls - 1):
                function(x, y)
            return function(x, y).asnumpy()

        return run

    rows = {contender: row_of(function) for contender, function in functions.items()}
    for contender, run in rows.items():
        np.testing.assert_allclose(run(), total, 1e-6, 1e-6, err_msg=contender)
    for contender, samples in interleave(rows, ROUNDS).items():
        seconds = [s / calls for s in samples.seconds]
        line = {"case": name, "size": [x.size], "contender": contender, "seconds": seconds}
        print(json.dumps(line), flush=True)


def main() -> int:
    random = np.random.default_rng(0)
    small = random.standard_normal((2, 16), np.float32)
    large = random.standard_normal((2, 1 << 20), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        adds = {"ms_add": ops.add, "bare_custom": bare_add(folder)} | ours("add")
        measured("call_mindspore", small, 100, adds, small[0] + small[1])
        pairs = {"ms_add_relu": lambda x, y: ops.relu(ops.add(x, y))} | ours("fused_add_relu")
        measured("fused_mindspore", large, 10, pairs, np.maximum(large[0] + large[1], 0))
        mindspore.runtime.launch_blocking()  # for good
        measured("call_mindspore_sync", small, 100, adds, small[0] + small[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
