# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of level host: kernels, runtimes as fixtures, short ways to run."""

import sys
from pathlib import Path

import numpy as np
import pytest

import pto

FOLDER = Path(__file__).parent / "host"
sys.path.insert(0, str(FOLDER))

NAMES = ("add", "matmul", "relu", "throws", "crashes", "hangs", "sleeps", "meet")
In, Out, Inout, Number = pto.Arg.input, pto.Arg.output, pto.Arg.inout, pto.Arg.scalar


@pytest.fixture(scope="session")
def kernels():
    source = FOLDER / "kernels.cpp"
    made = {name: pto.compile(kernels=[{"source": source, "symbol": name}]) for name in NAMES}
    made["orchestrated"] = pto.compile(
        orch=FOLDER / "orchestrated.cpp", kernels=[{"source": source, "symbol": "add"}]
    )
    return made


@pytest.fixture(params=[1, 2, 4])
def rt(request):
    with pto.Runtime(level="host", devices=list(range(request.param)), memory=1 << 28) as rt:
        yield rt


@pytest.fixture
def two():
    with pto.Runtime(level="host", devices=[3, 8], memory=1 << 28) as rt:
        yield rt


def run(rt, orch, kernels, args=None, **options):
    rt.register("it", orch=orch, kernels=kernels)
    done = rt.submit("it", args, **options)
    value = done.result(60)
    return value, done.report


def add(ctx, chip, z, x, y):
    return ctx.submit(chip, "add", [Out(z), In(x), In(y), Number(x.shape[0])])


def good_run(rt, kernels):
    def orch(ctx, args):
        z = ctx.alloc((4,))
        for chip in ctx.peers():
            add(ctx, chip, z, args, args)
        ctx.wait(z)
        return z.numpy().tolist()

    assert run(rt, orch, kernels, np.ones(4, np.float32))[0] == [2] * 4
