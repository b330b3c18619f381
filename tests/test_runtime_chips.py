# SPDX-License-Identifier: Apache-2.0
"""Platforms a2a3sim and a5sim: a kernel's tiles must fit the buffers of its core."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import pto

# clang says it behind what an error shows of it.
SITE = "" if "clang" in os.environ.get("PTO_CXX", "") else " at work.cpp:5"
ROOT = Path(__file__).resolve().parent.parent
ORCHESTRATION = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  pto::TaskOptions options;
  options.blocks = 2;
  options.together = o.integer(0) <= 1;
  o.submit("work", {o.inout(o.inout(0)), o.scalar(o.integer(0))}, options);
  return 0;
}
"""
KERNEL = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ __aicore__ void Work(__gm__ float* x, int64_t n) {
%s
}
PTO_KERNEL(work, Work)
"""
# Adds one to each element, by tiles of so many floats.
STEP = """
  Tile<TileType::Vec, float, 64, {cols}> t;
  TLOAD(t, GlobalTensor(x, n));
  {{
    Tile<TileType::Vec, float, 64, {cols}> u;
    TADDS(u, t, 1.0f);
    t = u;
  }}
  Tile<TileType::Vec, float, 64, {cols}> v = t;
  if (block_idx == 0) TSTORE(GlobalTensor(x, n), v);
"""
PLACED = """
  Tile<TileType::Vec, float, 64, 256> t, u;
  TASSIGN(t, 0x20000);
  TASSIGN(u, 0x1000 * n);
  Tile<TileType::Vec, float, 64, 512> automatic;
"""
# Each of two blocks holds 144 KB while it waits for the other, and then asks for more or not.
WAITS = """
  Tile<TileType::Vec, float, 64, 576> t;
  t.SetValue(0, float(get_block_idx()));
  SYNCALL();
  if (n > 0) {
    Tile<TileType::Vec, float, 64, 256> u;
    u.SetValue(0, 9);
  }
  x[get_block_idx()] = t.GetValue(0) + 1;
"""
CUBE = """
  Tile<TileType::Left, float, 16, {cols}, BLayout::RowMajor, 16, {cols}, SLayout::RowMajor> a;
  a.SetValue(0, 1);
"""


def package(body, platform, core_type="aiv"):
    kernels = [{"source": KERNEL % body, "core_type": core_type, "name": "work"}]
    return pto.compile(platform, ORCHESTRATION, kernels)


def run(package, x, n):
    with pto.Runtime(platform=package.platform) as rt:
        rt.register("p", pkg=package)
        rt.run("p", [pto.Arg.inout(x), pto.Arg.scalar(n)])


@pytest.mark.parametrize("platform, cols, fits", [
    ("cpu", 1024, True), ("a2a3sim", 384, True), ("a2a3sim", 392, False), ("a5sim", 392, True),
    ("a5sim", 512, True), ("a5sim", 520, False),
])  # fmt: skip
def test_tiles_that_live_together_share_a_core_s_buffer(platform, cols, fits):
    made = package(STEP.format(cols=cols), platform)
    for _ in range(3):  # tiles of a failed kernel are counted off
        x = np.zeros((64, cols), np.float32)
        if fits:
            run(made, x, x.size)
            assert (x == 1).all()
        else:
            with pytest.raises(RuntimeError, match=rf"\(work\).*: automatic tiles .* ask for "
                               rf"{2 * 4 * 64 * cols} bytes of Vec \(UB\), {platform[:-3]} has "
                               rf"{196608 if platform == 'a2a3sim' else 262144}\n"):  # fmt: skip
                run(made, x, x.size)


def test_a_tile_larger_than_its_buffer_is_refused_when_it_is_compiled():
    body = STEP.format(cols=1024)
    with pytest.raises(ValueError, match=(
        rf"kernel work: a tile{SITE} asks for 262144 bytes of Vec \(UB\), but a2a3 has "
        "196608\n.*\n.*smaller"
    )):  # fmt: skip
        package(body, "a2a3sim")
    package(body, "a5sim")
    with pytest.raises(ValueError, match=r"asks for 262400 bytes of Vec \(UB\), but a5 has 262144"):
        package("  Tile<TileType::Vec, float, 1, 65600> t;", "a5sim")


@pytest.mark.parametrize("core_type, cols, text", [
    ("aic", 1024, None), ("mix", 1024, None),
    ("aic", 1032, r"asks for 66048 bytes of Left \(L0A\), but a2a3 has 65536"),
    ("aiv", 16,
     r"asks for 1024 bytes of Left \(L0A\), but an aiv core of a2a3 has no such buffer\n.*aic"),
])  # fmt: skip
def test_a_core_has_the_buffers_of_its_type(core_type, cols, text):
    if text is None:
        run(package(CUBE.format(cols=cols), "a2a3sim", core_type), np.zeros(1, np.float32), 1)
    else:
        with pytest.raises(ValueError, match=text):
            package(CUBE.format(cols=cols), "a2a3sim", core_type)


def test_a_vector_tile_is_no_cube_core_s():
    # The source of both kinds of core may declare it, and say where it lies.
    declared = (
        "  Tile<TileType::Vec, float, 8, 8, BLayout::RowMajor, 8, 7> t;\n  TASSIGN(t, 0x40);\n"
    )
    run(package(declared + "  TASSIGN<0x80>(t);", "a5sim", "aic"), np.zeros(1, np.float32), 1)
    site = SITE and r" at work.cpp:\d+"
    for use in ("t.SetValue(0, 1);", "TADDS(t, t, 1.0f);", "TLOAD(t, GlobalTensor(x, n));"):
        asked = rf"a tile{site} asks for 256 bytes of Vec \(UB\), but an aic core of a5 has no such"
        with pytest.raises(ValueError, match=asked + " buffer\n.*aiv"):
            package(declared + use, "a5sim", "aic")
    with pytest.raises(ValueError, match=r"asks for 262400 bytes of Vec \(UB\), but a5 has 262144"):
        package("  Tile<TileType::Vec, float, 1, 65600> t;", "a5sim", "aic")


def test_addresses_lie_in_the_buffer():
    made, x = package(PLACED, "a2a3sim"), np.zeros(1, np.float32)
    run(made, x, 0x20)
    with pytest.raises(RuntimeError, match=r"TASSIGN: a tile needs 200704 bytes of Vec \(UB\)"):
        run(made, x, 0x21)
    with pytest.raises(RuntimeError, match="TASSIGN: a tile needs"):
        run(made, x, -1)
    with pytest.raises(ValueError, match=rf"a tile{SITE} asks for 262144 bytes of Vec \(UB\)"):
        package("  Tile<TileType::Vec, float, 64, 256> t;\n  TASSIGN<0x30000>(t);", "a2a3sim")


def test_blocks_that_wait_have_buffers_of_their_own():
    made = package(WAITS, "a2a3sim")
    for _ in range(10):
        x = np.zeros(2, np.float32)
        run(made, x, 0)
        assert x.tolist() == [1, 2]
        with pytest.raises(RuntimeError, match="ask for 212992 bytes of Vec"):
            run(made, x, 1)


def test_one_source_serves_several_core_types():
    source = KERNEL % STEP.format(cols=8)
    kernels = [{"source": source, "core_type": core} for core in ("aiv", "mix")]
    kernels[1]["name"] = "other"
    made = pto.compile("a5sim", ORCHESTRATION, kernels)
    assert made.kernels[0].code is not made.kernels[1].code
    x = np.zeros((64, 8), np.float32)
    run(made, x, x.size)
    assert (x == 1).all()


def test_the_sizes_are_those_of_the_public_table():
    chip = (ROOT / "pto/isa/kernel/chip.hpp").read_text()
    rows = re.search(r"kKilobytes\[2\]\[kBuffers\] = \{\{(.*?)\},\s*\{(.*?)\}\}", chip, re.S)
    ours = [[int(n) for n in row.split(",")] for row in rows.groups()]
    public = (ROOT / "compat/pto/common/buffer_limits.hpp").read_text()
    a5, _, others = public.partition("#else")
    for sizes, part in ((ours[1], a5), (ours[0], others)):
        text = part + others
        for place, name in ((0, "UBUF"), (1, "CBUF"), (2, "L0A"), (3, "L0B"), (4, "L0C"),
                            (5, "BIAS"), (6, "FBUF")):  # fmt: skip
            found = re.search(rf"PTO_{name}_SIZE_BYTES \((\d+)u \* 1024u\)", text)
            assert sizes[place] == int(found.group(1)), name
