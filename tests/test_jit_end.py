# SPDX-License-Identifier: Apache-2.0
"""Jitted functions at their end: of a cycle that nobody names, and of the process."""

import gc
import os
import subprocess
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import pto

KEPT = """
import numpy as np, pto

class Model:
    @pto.jit
    def run(self, x):
        return pto.exp(x) * 2

model, x = Model(), np.ones(4, np.float32)
print(model.run(x).sum())
graph = pto.jit(lambda x: x + 1).trace(x)
"""


def test_a_process_ends_silently_with_functions_and_graphs_in_its_globals():
    paths = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", KEPT], text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": paths})  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("21.7")


def test_a_function_that_its_own_constant_names_is_collected():
    @dataclass
    class Scale:
        factor: float
        __hash__ = object.__hash__

    @pto.jit(constants=("scale",))
    def scaled(x, scale):
        return x * scale.factor

    scale = Scale(3.0)
    scale.function = scaled  # a cycle: the function keeps the constants of its calls
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(scaled(x, scale), 3 * x)
    alive = weakref.ref(scale)
    del scale, scaled
    gc.collect()
    assert alive() is None
