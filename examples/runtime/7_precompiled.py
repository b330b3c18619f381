# SPDX-License-Identifier: Apache-2.0
"""A kernel that another compiler made, as an object, and one of ours in the same graph."""

import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import pto

HERE = Path(__file__).parent
N, STEP = 10_000, 1024

with tempfile.TemporaryDirectory() as folder:
    made = Path(folder) / "add_custom.o"
    subprocess.run(["g++", "-O2", "-fPIC", "-c", HERE / "foreign.cpp", "-o", made], check=True)
    package = pto.compile(
        orch=HERE / "7_precompiled.cpp",
        kernels=[
            {
                "source": made,
                "core_type": "aiv",
                "symbol": "add_custom",
                "tensor_args": [
                    {"name": "x", "direction": "input", "dtype": "float32"},
                    {"name": "y", "direction": "input", "dtype": "float32"},
                    {"name": "z", "direction": "output", "dtype": "float32"},
                ],
                "workspace": 4 * STEP,
                "tiling": struct.pack("<qq", N, STEP),
            },
            {"source": HERE / "vector.cpp", "symbol": "multiply", "core_type": "aiv"},
        ],
    )

x, y = np.random.default_rng(0).standard_normal((2, N), np.float32)
w = np.empty_like(x)
with pto.Runtime(level="chip") as rt:
    rt.register("square_of_sum", pkg=package)  # the object is part of the package
    rt.run("square_of_sum", [pto.Arg.input(x), pto.Arg.input(y), pto.Arg.output(w)])

    wide = [pto.Arg.input(x.astype(np.float64)), pto.Arg.input(y), pto.Arg.output(w)]
    try:
        rt.run("square_of_sum", wide)
    except pto.Error as error:
        print(error)

assert np.array_equal(w, (x + y) ** 2)
print("w = (x + y) ** 2:", w[:3])
