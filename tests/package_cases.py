# SPDX-License-Identifier: Apache-2.0
"""Functions that the tests of packages save, and calls of them."""

from collections import namedtuple
from pathlib import Path

import numpy as np

import pto

SHIFT = 3.0
Pair = namedtuple("Pair", "low high")


@pto.jit
def scaled(x, w, scale=2.0, power=2, mode="up"):
    y = (x * scale) ** power + w * SHIFT
    return y if mode == "up" else -y


@pto.jit
def parts(x):
    ordered = pto.sort(x).values
    return {"mean": [pto.mean(x, -1), x.shape[0] * x], "ends": Pair(ordered, pto.flip(x, 0))}


@pto.jit
def program(x, lengths, out, factor=0.5):
    longest = 0
    for i in pto.loop(x.shape[0]):
        n = lengths[i]
        longest = pto.max(longest, n)
        if n > 2:
            out[i] = pto.sum(x[i, :n]) * factor
        else:
            out[i] = out[i] - 1
    return pto.matmul(x, x, b_trans=True), longest * pto.ones([x.shape[1]])


def calls(rng):
    """(function, calls); the classes of types, ranks and ones among these are the variants."""

    def floats(*sizes, dtype=np.float32):
        return rng.standard_normal(sizes).astype(dtype)

    for n, m in ((3, 8), (1, 5), (0, 4), (17, 2), (1, 9)):
        yield scaled, (floats(n, m), floats(m), rng.random())
    yield scaled, (floats(4, 6), floats(6), 1.5, 3, "down")
    yield scaled, (floats(2, 3, dtype=np.float64), floats(3, dtype=np.float64))
    yield scaled, (floats(6, 4).T, floats(6))
    for n, m in ((3, 4), (5, 2), (0, 7)):
        yield parts, (floats(n, m),)
    for n, m in ((5, 7), (2, 3), (0, 4), (1, 6), (1, 0), (9, 0)):
        lengths = rng.integers(0, m + 1, n)
        yield program, (floats(n, m), lengths, floats(n), 0.25)
    wide = floats(3, 2)
    yield program, (floats(3, 6), rng.integers(0, 7, 3), wide[:, 0])


def save_all(folder: Path) -> list:
    """Saves a package of each function for some calls, and returns these."""
    cases = [*calls(np.random.default_rng(5))]
    for function in (scaled, parts, program):
        examples = [args for one, args in cases if one is function]
        function.package(folder / f"{function.__name__}.pto", *examples)
    return cases


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert type(a) is type(b)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
