# SPDX-License-Identifier: Apache-2.0
"""A file of functions and operators for several CPUs, loaded by a process without a compiler.

Run it:

    python examples/06_package.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np

import pto


@pto.jit
def normalised(
    x: Annotated[pto.Tensor, pto.Tensor[pto.DYN, pto.DYN, pto.f32]], eps: float = 1e-6
) -> pto.Tensor:
    return x / pto.sqrt(pto.mean(x * x, -1, keepdim=True) + eps)


CHILD = """
import sys
import numpy as np, pto
kernels = pto.load(sys.argv[1])
x = np.arange(6, dtype=np.float32).reshape(2, 3)
print(kernels)
print(kernels.normalised(x, eps=0.0).round(3).tolist())
print(kernels.gelu(x).round(3).tolist())
"""


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    x = np.ones((2, 3), np.float32)  # an example: its element type and number of axes count
    pto.package({normalised: (x,), pto.ops.gelu: (x,)}, folder / "kernels.pto", "portable,avx2")
    root = str(Path(pto.__file__).resolve().parent.parent)
    env = {**os.environ, "PATH": "", "PYTHONPATH": root, "PTO_CACHE_DIR": str(folder / "none")}
    command = [sys.executable, "-c", CHILD, str(folder / "kernels.pto")]
    subprocess.run(command, env=env, check=True)


if __name__ == "__main__":
    main()
