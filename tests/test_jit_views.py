# SPDX-License-Identifier: Apache-2.0
"""Random views of NumPy and torch arrays, and hostile ones: NumPy's values, or an error of ours."""

import ctypes
import itertools

import numpy as np
import pytest
import torch

import pto


@pto.jit
def doubled(x):
    return x * 2 + 1


@pto.jit
def row_sums(x):
    return pto.sum(x, -1)


@pto.jit
def joined(x, y):
    return x - y


def step(random, x):
    """A view of a view."""
    kind = random.integers(8)
    if kind == 0:
        return x[::-1] if random.integers(2) else x[..., ::-1]
    if kind == 1:
        return x[tuple(
            slice(*sorted(random.integers(0, n + 1, 2)), int(random.integers(1, 4)))
            for n in x.shape
        )]  # fmt: skip
    if kind == 2:
        return x.transpose(random.permutation(x.ndim))
    if kind == 3 and x.ndim < 3:
        return np.broadcast_to(x, (int(random.integers(0, 4)), *x.shape))
    if kind == 4:
        return x[random.integers(len(x))] if x.ndim > 1 and len(x) else x
    if kind == 5 and x.ndim and x.size:
        steps = [int(s) * int(random.integers(0, 2)) for s in x.strides]
        return np.lib.stride_tricks.as_strided(x, x.shape, steps, writeable=False)
    if kind == 6:
        return x[..., None] if x.ndim < 3 else x
    if kind == 7:
        x = x.view()
        x.flags.writeable = False
    return x


def views(random):
    size = [int(n) for n in random.integers(1, 9, 2)]
    store = random.integers(-9, 9, size[0] * size[1] + 1).astype("f4").tobytes()
    offset = int(random.integers(0, 2))  # 0: aligned where NumPy's memory is
    x = np.frombuffer(store, "u1")[offset * 4 :][: size[0] * size[1] * 4].view("f4").reshape(size)
    for _ in range(random.integers(0, 4)):
        x = step(random, x)
    return x


def test_views_have_the_values_of_numpy(deep):
    random = np.random.default_rng(0)
    for _ in range(2000 if deep else 16):
        x, name = views(random), "x"
        for array in (x, None):
            if array is None:  # the same memory as a torch tensor, where torch has such strides
                if any(s < 0 for s in x.strides) or not x.flags.writeable:
                    continue
                array, name = torch.from_numpy(x), "torch"
            about = name, x.shape, x.strides
            np.testing.assert_array_equal(np.asarray(doubled(array)), x * 2 + 1, str(about))
            if x.ndim:
                np.testing.assert_array_equal(np.asarray(row_sums(array)), x.sum(-1), str(about))
        y = views(random)
        try:
            want = x - y
        except ValueError:
            with pytest.raises(pto.Error):
                joined(x, y)
            continue
        np.testing.assert_array_equal(joined(x, y), want)


class Own(np.ndarray):
    pass


class Lies:
    """Says that it has memory, and what kind, and then does not."""

    def __init__(self, **interface):
        self.__array_interface__ = interface

    def __dlpack__(self, **_):
        raise BufferError("none")

    def __dlpack_device__(self):
        return (1, 0)


BASE = np.arange(24, dtype="f4").reshape(4, 6)
HOSTILE = {
    "unaligned": np.frombuffer(b"." + BASE.tobytes(), "f4", offset=1).reshape(4, 6),
    "big-endian": BASE.astype(">f4"),
    "structured": np.zeros(3, [("a", "f4"), ("b", "i4")]),
    "a field": np.zeros(3, [("a", "f4"), ("b", "i2")])["a"],
    "objects": np.array([1.0, None], object),
    "texts": np.array(["a", "b"]),
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "complex": BASE.astype("c8"),
    "long double": BASE.astype("longdouble"),
    "masked": np.ma.array(BASE, mask=BASE > 3),
    "matrix": BASE.view(Own),
    "9 axes": np.zeros((1,) * 9, "f4"),
    "32 axes": np.zeros((1,) * 32, "f4"),
    "empty of many": np.zeros((0, 2**40), "f4"),
    "huge and overlapping": np.lib.stride_tricks.as_strided(BASE, (2**30, 2**30), (0, 0)),
    "no memory": Lies(shape=(3,), typestr="<f4", data=(0, False), version=3),
    "lies": Lies(shape=(-1,), typestr="?!", version=3),
    "ctypes": (ctypes.c_float * 3)(1, 2, 3),
    "bytes": b"abcd",
    "memoryview": memoryview(BASE),
    "list": [1.0, 2.0],
    "generator": (x for x in ()),
    "type": np.ndarray,
    "sparse": torch.eye(3).to_sparse(),
    "meta": torch.ones(3, device="meta"),
    "conjugate": torch.ones(3, dtype=torch.complex64).conj(),
    "negated": torch.ones(3, dtype=torch.complex64).conj().imag,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_array_gives_numpys_values_or_an_error_of_ours(name):
    x = HOSTILE[name]
    try:
        got = row_sums(x) if "huge" not in name else doubled(x)
    except pto.Error as error:
        assert error.what and error.why and error.fix
    else:
        want = x.sum(-1)
        if name == "meta":  # PyTorch's sizes without elements
            assert got.device == want.device and got.shape == want.shape
            return
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


def spaced(x, axis):
    """x again, with other elements between its own along an axis."""
    return np.repeat(x, 2, axis).swapaxes(0, axis)[::2].swapaxes(0, axis)


def laid_out(x, *order):
    """x again, with its axes in another order in memory."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (0, 1, 2), (0, 2)])
def test_sums_over_several_axes_have_the_same_bits_whatever_the_strides(axes):
    @pto.jit
    def normal(x):
        centred = pto.exp(x - pto.mean(x, axes, keepdim=True))
        return pto.sum(x, axes), centred * pto.rsqrt(pto.mean(x * x, axes, keepdim=True))

    rng = np.random.default_rng(0)
    for shape in [(5, 7, 9), (4, 64, 33), (2, 3, 1000), (300, 5, 3), (40, 300, 70)]:
        x = rng.standard_normal(shape).astype("f4")
        views = [spaced(x, axis) for axis in range(3)]
        views += [laid_out(x, *order) for order in itertools.permutations(range(3))]
        views.append(np.ascontiguousarray(x[:, ::-1])[:, ::-1])
        expected = normal(x)
        for view in views:
            assert np.array_equal(view, x)
            for got, want in zip(normal(view), expected, strict=True):
                assert np.array_equal(got, want), (shape, view.strides)
