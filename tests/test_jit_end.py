# SPDX-License-Identifier: Apache-2.0
"""The end of a process that holds jitted functions and graphs."""

import os
import subprocess
import sys
from pathlib import Path

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
