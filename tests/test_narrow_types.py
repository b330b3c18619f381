# SPDX-License-Identifier: Apache-2.0
"""TCVT to and from narrow floats against ml_dtypes, bit by bit, on every target of this CPU.

Sources of 8 and 16 bits are all patterns; of 32 bits a sample, and all with PTO_DEEP=1. Modes other
than nearest even are tested in C++ (narrow_float_test.cpp), where the numbers are listed.
"""

import ctypes
import os
import subprocess

import ml_dtypes
import numpy as np
import pytest
from test_instructions import DEEP, ROOT, TARGETS, cpu_flags

TYPES = {
    "float": np.float32,
    "half": np.float16,
    "bfloat16_t": ml_dtypes.bfloat16,
    "float8_e4m3_t": ml_dtypes.float8_e4m3fn,
    "float8_e5m2_t": ml_dtypes.float8_e5m2,
    "float8_e8m0_t": ml_dtypes.float8_e8m0fnu,
}
PAIRS = [
    *[("float", to) for to in TYPES if to != "float"],
    *[(source, "float") for source in TYPES if source != "float"],
    ("bfloat16_t", "half"),
    ("half", "bfloat16_t"),
    ("half", "float8_e4m3_t"),
    ("bfloat16_t", "float8_e5m2_t"),
]
HEAD = """
#include <pto/pto-inst.hpp>
using namespace pto::isa;
template <class T> using Line = Tile<TileType::Vec, T, 1, 4096, BLayout::RowMajor, 1, DYNAMIC>;
template <class D, class S> void convert(const S* s, D* d, int64_t count) {
  for (int64_t i = 0; i < count; i += 4096) {
    const int n = int(count - i < 4096 ? count - i : 4096);
    Line<S> from(n);
    Line<D> to(n);
    TLOAD(from, GlobalTensor(const_cast<S*>(s + i), n));
    TCVT(to, from, RoundMode::CAST_RINT);
    TSTORE(GlobalTensor(d + i, n), to);
  }
}
template <class Pair> void pairs(const bfloat16_t* s, Pair* d, bfloat16_t* back) {
  Tile<TileType::Vec, bfloat16_t, 1, 4096> from;
  Tile<TileType::Vec, Pair, 1, 4096> to;
  for (int i = 0; i < 65536; i += 4096) {
    TLOAD(from, GlobalTensor(const_cast<bfloat16_t*>(s + i), 4096));
    TCVT(to, from, RoundMode::CAST_RINT);
    TSTORE(GlobalTensor(d + i / 2, 4096), to);
    TCVT(from, to, RoundMode::CAST_RINT);
    TSTORE(GlobalTensor(back + i, 4096), from);
  }
}
extern "C" void e2m1(const bfloat16_t* s, float4_e2m1x2_t* d, bfloat16_t* b) { pairs(s, d, b); }
extern "C" void e1m2(const bfloat16_t* s, float4_e1m2x2_t* d, bfloat16_t* b) { pairs(s, d, b); }
"""


@pytest.fixture(scope="module", params=TARGETS)
def library(request, tmp_path_factory):
    flags, needed = TARGETS[request.param]
    if not needed <= cpu_flags():
        pytest.skip(f"this CPU has no {request.param}")
    folder = tmp_path_factory.mktemp(request.param)
    lines = [
        f'extern "C" void {s}_to_{d}(const {s}* s, {d}* d, int64_t n) {{ convert<{d}>(s, d, n); }}'
        for s, d in PAIRS
    ]
    (folder / "pairs.cpp").write_text("\n".join([HEAD, *lines, ""]))
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{ROOT}", *flags]
    link = [f"-L{ROOT / 'pto' / 'lib'}", "-lpto", f"-Wl,-rpath,{ROOT / 'pto' / 'lib'}"]
    command += ["-o", "pairs.so", "pairs.cpp", *link, "-Wl,-z,defs"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "pairs.so"), mode=os.RTLD_NOW)


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


def sources(dtype):
    """Blocks of every pattern, or of a sample of the wide ones."""
    size = np.dtype(dtype).itemsize
    if size < 4:
        yield np.arange(1 << (8 * size), dtype=np.uint32).astype(f"u{size}").view(dtype)
    elif DEEP:
        for start in range(0, 1 << 32, 1 << 24):
            yield np.arange(start, start + (1 << 24), dtype=np.uint32).view(dtype)
    else:
        rng = np.random.default_rng(11)
        yield rng.integers(0, 1 << 32, 1 << 20, dtype=np.uint32).view(dtype)
        yield (np.arange(1 << 19, dtype=np.uint32) << 13).view(dtype)


def converted(library, name: str, source: np.ndarray, dtype) -> np.ndarray:
    got = np.zeros(source.shape, dtype)
    address = [x.ctypes.data_as(ctypes.c_void_p) for x in (source, got)]
    getattr(library, name)(*address, ctypes.c_int64(source.size))
    return got


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_conversion_is_that_of_ml_dtypes(library, source, to):
    for x in sources(TYPES[source]):
        got = converted(library, f"{source}_to_{to}", x, TYPES[to])
        with np.errstate(all="ignore"):
            want = x.astype(TYPES[to])
            is_nan = np.isnan(want.astype(np.float32))
        assert np.isnan(got.astype(np.float32))[is_nan].all()
        same = (bits(got) == bits(want)) | is_nan
        if to == "float8_e8m0_t":  # there all between its two smallest go up, here to the nearest
            same |= (bits(x) > 0x00400000) & (bits(x) < 0x00600000)
        assert same.all(), f"{x[~same][:4]} becomes {got[~same][:4]}, should be {want[~same][:4]}"


def test_pairs_are_those_of_ml_dtypes(library):
    source = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    is_nan = np.isnan(source.astype(np.float32))
    for name in ("e2m1", "e1m2"):
        got, back = np.zeros(1 << 15, np.uint8), np.zeros_like(source)
        address = [x.ctypes.data_as(ctypes.c_void_p) for x in (source, got, back)]
        getattr(library, name)(*address)
        codes = np.stack([got & 15, got >> 4], axis=1).reshape(-1)
        exact = source.astype(np.float64)
        if name == "e2m1":
            with np.errstate(invalid="ignore"):
                want = source.astype(ml_dtypes.float4_e2m1fn).astype(np.float64)
        else:  # multiples of a quarter
            with np.errstate(invalid="ignore"):
                want = np.copysign(np.minimum(np.rint(np.abs(exact) * 4) / 4, 1.75), exact)
        assert (codes[is_nan] == 7).all()
        np.testing.assert_array_equal(back.astype(np.float64)[~is_nan], want[~is_nan])
        np.testing.assert_array_equal(codes[~is_nan] >> 3, np.signbit(exact[~is_nan]))
