# SPDX-License-Identifier: Apache-2.0
"""Level host: kernels that no module has by name reach their process as code."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from host_cases import Inout, Number, run

ROOT = Path(__file__).resolve().parent.parent
# What a notebook does: its module has no file.
CELLS = """
import functools, numpy as np, pto
from pto import Arg, ParamType

class Scale:
    def __init__(self, factor):
        self.factor = factor
    def __call__(self, x):
        x *= self.factor

LEAST = 3.0
def clamp(x):
    np.maximum(x, LEAST, out=x)

def orch(ctx, args):
    for name in ("scale", "clamp", "add"):
        ctx.submit(0, name, [Arg(ParamType.INOUT, x)])

x = np.arange(4, dtype=np.float32)
five = functools.partial(lambda n, x: np.add(x, n, out=x), 5)
kernels = {"scale": Scale(2), "clamp": clamp, "add": five}
with pto.Runtime(level="host", devices=[0], memory=1 << 26) as rt:
    rt.register("it", orch=orch, kernels=kernels)
    rt.run("it")
print(x.tolist())
"""


def test_lambdas_and_functions_within_functions_are_kernels(two):
    factor, x = 3.0, np.arange(5, dtype=np.float32)

    def scale(y, count):
        y[:count] *= factor

    def orch(ctx, args):
        for chip in ctx.peers():
            ctx.submit(chip, "scale", [Inout(x), Number(4)])
            ctx.submit(chip, "next", [Inout(x)])

    named = {"scale": scale, "next": lambda y: np.add(y, 1, out=y)}
    run(two, orch, named)
    assert x.tolist() == [4, 13, 22, 31, 6]


def test_a_value_is_that_of_the_registration(two):
    held, x = [1.0], np.zeros(3, np.float32)

    def add(y):
        y += held[0]

    two.register("it", orch=lambda ctx, args: ctx.submit(3, "add", [Inout(x)]) and None,
                 kernels={"add": add})  # fmt: skip
    held[0] = 100.0
    two.run("it")
    assert x.tolist() == [1, 1, 1]


def test_a_notebook_defines_kernels():
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", CELLS], text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": paths})  # fmt: skip
    assert done.stdout.strip() == "[8.0, 8.0, 9.0, 11.0]", done.stderr


def test_where_cloudpickle_is_missing_the_error_names_it(two, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(TypeError, match="pip install cloudpickle") as caught:
        two.register("it", orch=lambda ctx, args: None, kernels={"a": lambda x: x})
    assert "define it with def" in str(caught.value)
    named = functools.partial(np.add, 1)  # a module has it: nothing else is needed
    two.register("it", orch=lambda ctx, args: None, kernels={"a": named})
