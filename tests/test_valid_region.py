# SPDX-License-Identifier: Apache-2.0
"""A valid region that is larger than its tile fails the kernel where it is set, in every build."""

import numpy as np
import pytest

import pto

KERNEL = """
#include <pto/pto-inst.hpp>
using namespace pto;
using Cols = Tile<TileType::Vec, float, 1, 16, BLayout::RowMajor, 1, DYNAMIC>;
using Rows = Tile<TileType::Vec, float, 8, 16, BLayout::RowMajor, DYNAMIC, 16>;
using Both = Tile<TileType::Vec, float, 8, 16, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
__global__ __aicore__ void Valid(__gm__ float* x, int32_t how, int32_t rows, int32_t cols) {
  Cols c;
  Rows r;
  Both b;
  switch (how) {
    case 0: c = Cols(cols); break;
    case 1: c.SetValidCol(cols); break;
    case 2: c.SetValidShape(1, cols); break;
    case 3: r = Rows(rows); break;
    case 4: r.SetValidRow(rows); break;
    case 5: b = Both(rows, cols); break;
    case 6: b.SetValidShape(rows, cols); break;
  }
  x[0] = float(how == 3 || how == 4 ? r.GetValidRow() : how > 4 ? b.GetValidRow() : 1);
  x[1] = float(how < 3 ? c.GetValidCol() : how > 4 ? b.GetValidCol() : 16);
}
PTO_KERNEL(valid, Valid)
"""
ORCH = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  o.submit("valid", {o.out(o.output(0)), o.scalar(o.integer(0)), o.scalar(o.integer(1)),
                     o.scalar(o.integer(2))});
  return 0;
}
"""
SETS_COLS, SETS_ROWS = (0, 1, 2, 5, 6), (3, 4, 5, 6)


@pytest.fixture(scope="module", params=["", "-DPTO_CHECKED"], ids=["default", "checked"])
def rt(request):
    with pto.Runtime(workers=1) as rt:
        rt.register("p", orch=ORCH, kernels=[{"source": KERNEL}], flags=request.param)
        yield rt


def run(rt, how, rows, cols):
    x = np.zeros(2, np.float32)
    rt.run("p", [pto.Arg.output(x), *map(pto.Arg.scalar, (how, rows, cols))])
    return x.tolist()


@pytest.mark.parametrize("how", range(7))
def test_what_fits_is_set_and_what_does_not_ends_the_kernel(rt, how):
    for cols in (0, 1, 15, 16) if how in SETS_COLS else (16,):
        for rows in (0, 1, 8) if how in SETS_ROWS else (1,):
            assert run(rt, how, rows, cols) == [rows, cols]
    for cols in (17, 24, 2**31 - 1, -1, -(2**31)) if how in SETS_COLS else ():
        with pytest.raises(RuntimeError, match=f"{cols} valid columns in a tile of 16 columns"):
            run(rt, how, 1, cols)
    for rows in (9, 2**31 - 1, -1) if how in SETS_ROWS else ():
        with pytest.raises(RuntimeError, match=f"{rows} valid rows in a tile of 8 rows"):
            run(rt, how, rows, 16)
