# SPDX-License-Identifier: Apache-2.0
"""Scans of long lines against NumPy: any layout, NaN anywhere, the same bits on any threads."""

import numpy as np
import pytest

import pto

FLOATS, INTEGERS = ["f8", "f4", "f2"], ["i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"]
QUICK = (*FLOATS, "i8", "i1", "u1")


def lines(kind, shape):
    draw = np.random.default_rng([*kind.encode(), *shape])
    if kind not in FLOATS:
        limits = np.iinfo(kind)
        return draw.integers(limits.min, limits.max, shape, kind, endpoint=True)
    x = (draw.standard_normal(shape) * 2.0 ** draw.integers(-9, 3, shape)).astype(kind)
    x[draw.random(shape) < 0.1] = -0.0
    x[draw.random(shape) < 0.1] = 0.0
    x[draw.random(shape) < 0.01] = -np.inf
    x[draw.random(shape) < 0.5 / max(shape[-1], 1)] = np.nan
    return x


def layouts(x):
    yield x
    yield np.ascontiguousarray(x.T).T
    yield np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    yield np.ascontiguousarray(x[::-1])[::-1]
    yield np.repeat(x, 2, -1)[..., ::2]


def scans(axis):
    def found(x):
        return pto.cumsum(x, axis), pto.cummax(x, axis), pto.cummin(x, axis)

    return found


def best(x, axis, is_better):
    """The fold one element after another: NaN stays, and the later of equal elements."""
    moved = np.moveaxis(x.copy(), axis, 0)
    for k in range(1, len(moved)):
        before, now = moved[k - 1], moved[k].copy()
        moved[k] = np.where(np.isnan(before) | is_better(before, now), before, now)
    return np.moveaxis(moved, 0, axis)


def same_bits(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    there = ~np.isnan(want) if want.dtype.kind == "f" else np.full(want.shape, True)
    assert got[there].tobytes() == want[there].tobytes() and (got[~there] != got[~there]).all()


@pytest.mark.parametrize("kind", FLOATS + INTEGERS)
@pytest.mark.parametrize("shape", [(1301,), (511,), (0,), (1, 513), (3, 1027), (4, 512), (11, 997),
                                   (300, 5), (9, 0)])  # fmt: skip
def test_a_scan_folds_one_element_after_another(kind, shape, deep):
    if not deep and kind not in (("f4", "f2", "i1") if shape[0] == 1 else QUICK):
        pytest.skip("the other types: ./dev test --deep")
    whole = lines(kind, shape)
    for axis in range(len(shape)):
        program = pto.jit(scans(axis))
        for x in layouts(whole):
            with np.errstate(all="ignore"):
                sums = np.cumsum(x, axis, np.float64 if kind in FLOATS else np.int64)
                sums = (sums + 0.0).astype(kind) if kind in FLOATS else sums  # it starts at 0
            got = program(x)
            same_bits(got[0], sums)
            same_bits(got[1], best(x, axis, np.greater))
            same_bits(got[2], best(x, axis, np.less))


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "i1"])
def test_the_number_of_threads_does_not_change_a_scan(kind, monkeypatch):
    for shape in ((61, 20011), (4099, 300), (6, 5, 9001)):
        x = lines(kind, shape)
        for axis in range(len(shape)):
            program, found = pto.jit(scans(axis)), []
            for threads in (1, 2, 5):
                monkeypatch.setattr(pto.config, "threads", threads)
                found.append(program(x))
            for other in found[1:]:
                for a, b in zip(found[0], other, strict=True):
                    assert a.tobytes() == b.tobytes()
