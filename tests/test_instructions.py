# SPDX-License-Identifier: Apache-2.0
"""The instruction table's NumPy column, a second formulation, against the compiled instructions.

A shared object with one function per row and element type is generated from the table, compiled
for each target that this CPU runs, and called on arrays full of special values.
"""

import ctypes
import math
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
DEEP = os.environ.get("PTO_DEEP") == "1"
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
TARGETS = {"portable": ([], set()), "avx2": (AVX2, {"avx2", "fma", "f16c"})}
TARGETS["avx512"] = (AVX512, {"avx512f", "avx512bw", "avx512dq", "avx512vl"})
TYPES = {"float": np.float32, "int32_t": np.int32}
if DEEP:
    TYPES |= {"half": np.float16, "bfloat16_t": ml_dtypes.bfloat16, "double": np.float64}
    TYPES |= {"int64_t": np.int64, "int16_t": np.int16, "uint8_t": np.uint8}
FLOATS = {"half", "bfloat16_t", "float", "double"}
COUNT = 203


@dataclass(frozen=True)
class Row:
    """A row of the table that one call on arrays can test."""

    macro: str
    name: str
    numpy: str
    types: str

    def suits(self, ctype: str) -> bool:
        return {"kFloat": ctype in FLOATS, "kInteger": ctype not in FLOATS}.get(self.types, True)


def table_rows() -> list[list[str]]:
    """Every row as [macro, argument, ...]; a quoted argument loses its quotes."""
    text = (ROOT / "pto/isa/instructions.def").read_text()
    body = re.sub(r"//.*", "", text).split("#endif")[-1].split("#undef")[0]
    rows = []
    for match in re.finditer(r"(PTO_\w+)\(", body):
        depth, start, at, quoted, arguments = 1, match.end(), match.end(), False, []
        while depth:
            char = body[at]
            quoted ^= char == '"'
            if not quoted:
                depth += (char == "(") - (char == ")")
                if (char == "," and depth == 1) or depth == 0:
                    arguments.append(body[start:at].strip().strip('"'))
                    start = at + 1
            at += 1
        rows.append([match.group(1), *arguments])
    return rows


def rows_to_check() -> list[Row]:
    found = []
    for macro, *a in table_rows():
        if macro in ("PTO_UNARY", "PTO_UNARY_OURS", "PTO_BINARY"):
            found.append(Row(macro, a[0], a[3], a[4]))
        elif macro in ("PTO_BINARY_ONLY", "PTO_TERNARY", "PTO_ACCUMULATE"):
            found.append(Row(macro, a[0], a[2], a[3]))
        elif macro == "PTO_COMPARE":
            found.append(Row(macro, a[0], a[3], a[4]))
        elif macro == "PTO_REDUCE":
            found.append(Row(macro, a[0], a[6], a[7]))
            found.append(Row(macro, a[1], a[6], a[7]))
    return found


ROWS = rows_to_check()
CALLS = {
    "PTO_UNARY": "M(d, a);",
    "PTO_UNARY_OURS": "M(d, a);",
    "PTO_BINARY": "M(d, a, b);",
    "PTO_BINARY_ONLY": "M(d, a, b);",
    "PTO_TERNARY": "M(d, a, b, c);",
    "PTO_ACCUMULATE": "d = c; M(d, a, b);",
    "PTO_COMPARE": "Line<mask32> m(n); TCMP(m, a, b, CmpMode::M); TCVT(d, m);",
}
SOURCE_HEAD = """
#include "pto/isa/instructions.hpp"
using namespace pto::isa;
template <class T> using Line = Tile<TileType::Vec, T, 1, 256, BLayout::RowMajor, 1, DYNAMIC>;
template <class T> using Block = Tile<TileType::Vec, T, 8, 32, BLayout::RowMajor, 7, 29>;
template <class T> using Column = Tile<TileType::Vec, T, 32, 1, BLayout::ColMajor, 7, 1>;
template <class T> using Across = Tile<TileType::Vec, T, 1, 32, BLayout::RowMajor, 1, 29>;
#define FUNCTION(M, T, BODY) \\
  extern "C" void M##_##T(const T* pa, const T* pb, const T* pc, T* pd, int n) { \\
    Line<T> a(n), b(n), c(n), d(n); \\
    TLOAD(a, GlobalTensor(pa, n)); TLOAD(b, GlobalTensor(pb, n)); TLOAD(c, GlobalTensor(pc, n)); \\
    BODY TSTORE(GlobalTensor(pd, n), d); }
#define REDUCTION(M, T, RESULT) \\
  extern "C" void M##_##T(const T* pa, const T*, const T*, T* pd, int n) { \\
    Block<T> a; RESULT<T> d; TLOAD(a, GlobalTensor(pa, n)); M(d, a, a); \\
    TSTORE(GlobalTensor(pd, d.GetValidRow() * d.GetValidCol()), d); }
"""


def source() -> str:
    lines = [SOURCE_HEAD]
    for row in ROWS:
        for ctype in filter(row.suits, TYPES):
            if row.macro == "PTO_REDUCE":
                shape = "Column" if row.name.startswith("TROW") else "Across"
                lines.append(f"REDUCTION({row.name}, {ctype}, {shape})")
            else:
                body = re.sub(r"\bM\b", row.name, CALLS[row.macro])
                lines.append(f"FUNCTION({row.name}, {ctype}, {body})")
    return "\n".join(lines) + "\n"


def cpu_flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    found = re.search(r"flags\s*:(.*)", info.read_text()) if info.exists() else None
    return set(found.group(1).split()) if found else set()


@pytest.fixture(scope="module", params=TARGETS)
def library(request, tmp_path_factory):
    flags, needed = TARGETS[request.param]
    if not needed <= cpu_flags():
        pytest.skip(f"this CPU has no {request.param}")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "rows.cpp").write_text(source())
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{ROOT}", *flags]
    subprocess.run([*command, "-o", "rows.so", "rows.cpp"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "rows.so"), mode=os.RTLD_LAZY)


def divide(a, b):
    if a.dtype.kind == "f":
        return a / b
    quotients = [
        0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    return np.array(quotients, object)


def power(a, b):
    if a.dtype.kind == "f":
        return np.power(a, b)
    modulus = 1 << 64
    return np.array(
        [
            pow(x, y, modulus) if y >= 0 else {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
            for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ],
        object,
    )


def inputs(row: Row, dtype, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    arrays = []
    for k in range(3):
        if np.issubdtype(dtype, np.integer):
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            x = rng.integers(max(low, -50), 50, count).astype(dtype)
            x[k * 5 : k * 5 + 5] = [low, high, 0, 1, low + 1]
        else:
            x = (rng.integers(-64, 65, count) / 8).astype(dtype)
            x[k * 6 : k * 6 + 6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 30000]
        arrays.append(x)
    if row.name in ("TSHL", "TSHR"):
        arrays[1] = (arrays[1].astype(np.int64) % (8 * np.dtype(dtype).itemsize)).astype(dtype)
    return arrays


def wrapped(values: np.ndarray, dtype) -> np.ndarray:
    if values.dtype == object:
        bits = 8 * np.dtype(dtype).itemsize
        unsigned = [int(v) % (1 << bits) for v in values]
        return np.array(unsigned, np.uint64).astype(f"u{bits // 8}").view(dtype)
    return values.astype(dtype)


def check(got: np.ndarray, want: np.ndarray, where: str) -> None:
    if np.issubdtype(got.dtype, np.integer):
        np.testing.assert_array_equal(got, wrapped(want, got.dtype), where)
        return
    ulps = {"float32": 3, "float64": 4}.get(str(got.dtype), 0.51)
    want = np.asarray(want, np.float64)
    with np.errstate(all="ignore"):
        nearest, value = want.astype(got.dtype), got.astype(np.float64)
        spacing = np.abs(np.spacing(nearest)).astype(np.float64)
        close = np.abs(value - want) <= ulps * spacing
    same = (nearest == got) | (np.isnan(want) & np.isnan(value)) | close
    assert same.all(), f"{where}: {got[~same][:4]}, should be {want[~same][:4]}"


PAIRS = [(row, ctype) for row in ROWS for ctype in TYPES if row.suits(ctype)]


@pytest.mark.parametrize(
    ("row", "ctype"), PAIRS, ids=lambda part: part.name if isinstance(part, Row) else part
)
def test_instruction_is_its_numpy_column(library, row, ctype):
    dtype = TYPES[ctype]
    reduces = row.macro == "PTO_REDUCE"
    count = COUNT
    a, b, c = inputs(row, dtype, count)
    shape, axis = (count,), None
    if reduces:
        axis = 1 if row.name.startswith("TROW") else 0
        a = (np.arange(count) % 3 % 2 + 1).astype(dtype) if "PROD" in row.name else b
        a = np.where(np.isfinite(a.astype(np.float64)), a, 2).astype(dtype)
        a[29] = 1 if np.issubdtype(dtype, np.integer) else -np.inf
        shape = (7,) if axis else (29,)
    got = np.zeros(shape, dtype)
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, c, got)]
    getattr(library, f"{row.name}_{ctype}")(*pointers, count)
    # Accumulating rows round 16-bit floats after each step, as NumPy does on its own; one does not.
    steps = row.macro == "PTO_ACCUMULATE" and row.name != "TFUSEDMULADD"
    rounds = steps and np.dtype(dtype).itemsize == 2
    as_is = rounds or np.issubdtype(dtype, np.integer)
    exact = [x if as_is else x.astype(np.float64) for x in (a, b, c)]
    if reduces:
        exact[0] = exact[0].reshape(7, 29)
    names = {"np": np, "math": math, "divide": divide, "power": power, "axis": axis}
    with np.errstate(all="ignore"):
        want = eval(row.numpy, names | dict(zip("abc", exact, strict=True)))
    check(got, np.asarray(want), f"{row.name} on {ctype}")
