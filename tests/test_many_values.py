# SPDX-License-Identifier: Apache-2.0
"""Instructions on millions of random numbers for each target that this CPU runs: ./dev test --deep.

Unary and binary rows of the table against their NumPy columns, casts against rounding in wider
arithmetic, reductions of random shapes. One target takes 40 million values of unary rows, 9.4
million pairs, 15 million casts and 15,000 reductions.
"""

import ctypes
import math
import os
import re
import subprocess

import ml_dtypes
import numpy as np
import pytest
from test_instructions import (
    CALLS,
    ROOT,
    ROWS,
    TARGETS,
    check,
    cpu_flags,
    divide,
    power,
)

TYPES = {
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
    "bfloat16_t": ml_dtypes.bfloat16,
    "int32_t": np.int32,
    "int64_t": np.int64,
    "int16_t": np.int16,
    "uint8_t": np.uint8,
}
UNARY = ("PTO_UNARY", "PTO_UNARY_OURS")
# TEXPDIF: the exponential multiplies what the difference was rounded by.
BINARY = {row.name for row in ROWS if row.macro in ("PTO_BINARY", "PTO_BINARY_ONLY")} - {"TEXPDIF"}
PAIRS = [
    (row, ctype)
    for row in ROWS
    for ctype in TYPES
    if (row.macro in UNARY or row.name in BINARY) and row.suits(ctype)
]
REDUCTIONS = [(r, c) for r in ROWS for c in TYPES if r.macro == "PTO_REDUCE"]
CASTS = [(source, to) for source in TYPES for to in TYPES if source != to]
VALUES = {"unary": 40_000_000, "binary": 9_400_000, "cast": 15_000_000, "reduction": 15_000}
HEAD = """
#include "pto/isa/instructions.hpp"
using namespace pto::isa;
template <class T> using Line = Tile<TileType::Vec, T, 1, 256, BLayout::RowMajor, 1, DYNAMIC>;
template <class T>
using Block = Tile<TileType::Vec, T, 16, 64, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <class T> using Column = Tile<TileType::Vec, T, 32, 1, BLayout::ColMajor, DYNAMIC, 1>;
template <class T> using Across = Tile<TileType::Vec, T, 1, 64, BLayout::RowMajor, 1, DYNAMIC>;
#define PTO_CHUNKS(n) for (int64_t i = 0, c; c = n - i < 256 ? n - i : 256, i < n; i += c)
#define FUNCTION(M, T, BODY) \\
  extern "C" void M##_##T(const T* pa, const T* pb, T* pd, int64_t n) { \\
    PTO_CHUNKS(n) { \\
      Line<T> a(c), b(c), d(c); \\
      TLOAD(a, GlobalTensor(pa + i, int(c))); TLOAD(b, GlobalTensor(pb + i, int(c))); \\
      BODY TSTORE(GlobalTensor(pd + i, int(c)), d); } }
#define CAST(S, T) \\
  extern "C" void cast_##S##_##T(const S* ps, T* pd, int64_t n) { \\
    PTO_CHUNKS(n) { \\
      Line<S> s(c); Line<T> d(c); TLOAD(s, GlobalTensor(ps + i, int(c))); \\
      TCVT(d, s); TSTORE(GlobalTensor(pd + i, int(c)), d); } }
#define REDUCTION(M, T, RESULT, COUNT) \\
  extern "C" void M##_##T(const T* pa, T* pd, int rows, int cols) { \\
    Block<T> a(rows, cols); RESULT<T> d(COUNT); \\
    for (int r = 0; r < rows; ++r) \\
      for (int j = 0; j < cols; ++j) a.SetValue(r * 64 + j, pa[r * cols + j]); \\
    M(d, a, a); for (int k = 0; k < COUNT; ++k) pd[k] = d.GetValue(k); }
"""


def source() -> str:
    lines = [HEAD]
    for row, ctype in PAIRS:
        body = re.sub(r"\bM\b", row.name, CALLS[row.macro])
        lines.append(f"FUNCTION({row.name}, {ctype}, {body})")
    for row, ctype in REDUCTIONS:
        along = row.name.startswith("TROW")
        shape = "Column, rows" if along else "Across, cols"
        lines.append(f"REDUCTION({row.name}, {ctype}, {shape})")
    lines += [f"CAST({a}, {b})" for a, b in CASTS]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module", params=TARGETS)
def library(request, tmp_path_factory):
    if os.environ.get("PTO_DEEP") != "1":
        pytest.skip("some minutes: PTO_DEEP=1")
    flags, needed = TARGETS[request.param]
    if not needed <= cpu_flags():
        pytest.skip(f"this CPU has no {request.param}")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "rows.cpp").write_text(source())
    command = ["g++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{ROOT}", *flags]
    subprocess.run([*command, "-o", "rows.so", "rows.cpp"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "rows.so"), mode=os.RTLD_LAZY)


def address(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def numbers(ctype: str, count: int, draw: np.random.Generator) -> np.ndarray:
    """Half of them any bits of the type, half of moderate size."""
    dtype = np.dtype(TYPES[ctype])
    bits = draw.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    if dtype.kind in "iu":
        bits[1::2] = draw.integers(0, 100, bits[1::2].size).astype(dtype)
        return bits
    bits[1::2] = (draw.standard_normal(bits[1::2].size) * 4).astype(dtype)
    return bits


def share(kind: str, of: int) -> int:
    return VALUES[kind] // of + 1


@pytest.mark.parametrize(
    ("row", "ctype"), PAIRS, ids=lambda part: part if isinstance(part, str) else part.name
)
def test_a_row_has_the_value_of_its_numpy_column(library, row, ctype):
    kind = "unary" if row.macro in UNARY else "binary"
    alike = sum((one.macro in UNARY) == (kind == "unary") for one, _ in PAIRS)
    draw = np.random.default_rng(3)
    count = share(kind, alike)
    a, b = numbers(ctype, count, draw), numbers(ctype, count, draw)
    is_integer = np.dtype(a.dtype).kind in "iu"
    if row.name in ("TSHL", "TSHR"):
        b = (b.astype(np.int64) % (8 * a.itemsize)).astype(a.dtype)
    got = np.zeros_like(a)
    getattr(library, f"{row.name}_{ctype}")(
        address(a), address(b), address(got), ctypes.c_int64(count)
    )
    names = {"np": np, "math": math, "divide": divide, "power": power}
    with np.errstate(all="ignore"):
        wide = [x if is_integer else x.astype(np.float64) for x in (a, b)]
        want = np.asarray(eval(row.numpy, names | {"a": wide[0], "b": wide[1]}))
    if row.name == "TSIGMOID" and ctype != "double":  # as docs/isa.md says
        want = np.where((want < 2.0**-126) & (got.astype(np.float64) == 0), 0, want)
    check(got, want, f"{row.name} on {ctype}")


def rounded(x: np.ndarray, ctype: str) -> np.ndarray:
    """Numbers of the floating-point type nearest to x, which is exact in a long double."""
    precision, least, most = {
        "half": (11, -13, 16), "bfloat16_t": (8, -125, 128), "float": (24, -125, 128),
        "double": (53, -1021, 1024),
    }[ctype]  # fmt: skip
    exponent = np.maximum(np.frexp(x)[1], least) - precision
    nearest = np.ldexp(np.rint(np.ldexp(x, -exponent)), exponent)
    beyond = np.abs(nearest) >= np.ldexp(np.longdouble(1), most)
    return np.where(beyond, np.copysign(np.longdouble(np.inf), x), nearest)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double holds no int64")
@pytest.mark.parametrize(("of", "to"), CASTS)
def test_a_cast_rounds_once(library, of, to):
    draw = np.random.default_rng(5)
    count = share("cast", len(CASTS))
    x = numbers(of, count, draw)
    target = np.dtype(TYPES[to])
    into_integer = target.kind in "iu"
    with np.errstate(invalid="ignore"):  # NaN of any bits
        exact = x.astype(np.float64 if x.itemsize < 8 else np.longdouble).astype(np.longdouble)
    if into_integer and np.dtype(x.dtype).kind not in "iu":
        limits = np.iinfo(target)
        with np.errstate(invalid="ignore"):
            inside = (exact >= limits.min) & (exact < np.longdouble(limits.max))
        x, exact = x[inside], exact[inside]
    got = np.zeros(len(x), target)
    getattr(library, f"cast_{of}_{to}")(address(x), address(got), ctypes.c_int64(len(x)))
    with np.errstate(all="ignore"):
        if into_integer:
            want = x.astype(np.int64).astype(target) if x.dtype.kind in "iu" else np.trunc(exact)
            want = want.astype(target)
        else:
            want = rounded(exact, to).astype(np.float64)
            got = got.astype(np.float64)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("row", "ctype"), REDUCTIONS, ids=lambda part: part if isinstance(part, str) else part.name
)
def test_a_reduction_of_any_shape_has_the_value_of_its_numpy_column(library, row, ctype):
    draw = np.random.default_rng(9)
    dtype = np.dtype(TYPES[ctype])
    axis = 1 if row.name.startswith("TROW") else 0
    for _ in range(share("reduction", len(REDUCTIONS))):
        rows, cols = (int(n) for n in draw.integers(1, (17, 65)))
        low, high = (1, 3) if "PROD" in row.name else (0 if dtype.kind == "u" else -6, 7)
        a = draw.integers(low, high, (rows, cols)).astype(dtype)
        if "PROD" in row.name:
            a = np.where(draw.random((rows, cols)) < 3 / (rows + cols), a, 1).astype(dtype)
        got = np.zeros(rows if axis else cols, dtype)
        function = getattr(library, f"{row.name}_{ctype}")
        function(address(a), address(got), ctypes.c_int(rows), ctypes.c_int(cols))
        exact = a.astype(np.float64) if dtype.kind not in "iu" else a.astype(np.int64)
        want = eval(row.numpy, {"np": np, "a": exact, "axis": axis})
        check(got, want, f"{row.name} on {ctype}, {a}")
