# SPDX-License-Identifier: Apache-2.0
"""Kernels of the public form as they are: their macros, headers, language level and errors."""

import warnings

import numpy as np
import pytest

import pto
from pto.tasks import spellings

ORCHESTRATION = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  pto::TaskOptions options;
  options.blocks = 3;
  o.submit("0", {o.inout(o.inout(0)), o.scalar(o.inout(0).numel())}, options);
  return 0;
}
"""
SLOTS = 'extern "C" void kernel_entry(int64_t* args) {\n  float* x = (float*)args[0];\n%s\n}\n'


def results(source, size=8, core_type="aiv", **options):
    """The result of the kernel on zeros, by three blocks."""
    kernels = [{"source": source, "core_type": core_type}]
    x = np.zeros(size, np.float32)
    with pto.Runtime() as rt:
        rt.register("p", orch=ORCHESTRATION, kernels=kernels, **options)
        rt.run("p", [pto.Arg.inout(x)])
    return x.tolist()


@pytest.mark.parametrize("core_type, expected", [("aiv", [1, 0]), ("aic", [0, 2]), ("mix", [1, 2])])
def test_a_kernel_is_told_for_which_core_it_is_built(core_type, expected):
    body = "#if defined(__DAV_VEC__)\nx[0] = 1;\n#endif\n#if __DAV_CUBE__\nx[1] = 2;\n#endif"
    assert results(SLOTS % body, 2, core_type) == expected
    assert results(SLOTS % body, 2, core_type, flags=["-U__DAV_VEC__"])[0] == 0


@pytest.mark.parametrize("flags, level", [([], 202002), (["-std=c++17"], 201703),
                                          (["-std=gnu++2a"], 202002)])  # fmt: skip
def test_the_public_form_is_cpp20_unless_flags_name_another_level(flags, level):
    # A template that only its arguments find, as kernels call TPUSH<...>().
    text = "namespace a { struct A {}; template <class T> int f(A) { return 1; } }\n"
    body = "x[0] = __cplusplus / 100;"
    if level > 201703:
        body += " x[1] = f<int>(a::A());"
    assert results(text + SLOTS % body, flags=flags)[:2] == [level // 100, level > 201703]


def test_a_typed_kernel_is_cpp17_unless_flags_name_another_level():
    text = """
    #include <pto/pto-inst.hpp>
    __global__ void Level(__gm__ float* x, int64_t) { x[0] = __cplusplus / 100; }
    PTO_KERNEL(level, Level)
    """
    assert results(text)[0] == 2017
    assert results(text, flags="-std=c++20")[0] == 2020


PUBLIC = """
#include <cstdint>
#ifndef __aicore__
#define __aicore__
#endif
#include <pto/pto-inst.hpp>
#include "tensor.h"
#include "intrinsic.h"
#include "common/platform_config.h"
#include <pto/npu/a5/utils.hpp>
#include "pipe_sync.h"
#include "runtime.h"
#include "platform_comm/comm_context.h"
%s
static __aicore__ void fill(__gm__ float* x, int64_t* args) {
  const int64_t n = args[1];
  const uint64_t start = get_sys_cnt();
  set_flag(PIPE_S, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_S, PIPE_MTE3, EVENT_ID0);
  bfloat16_t three(3.0f);
  half four(4.0f);
  for (int64_t i = get_block_idx(args); i < n; i += get_block_num(args))
    x[i] = float(three) + float(four) + float(get_sub_block_id(args));
  if (get_dma_workspace(args, DMA_WORKSPACE_SDMA) == nullptr) x[0] = -1;
  if (get_dma_workspace(args, DMA_WORKSPACE_KIND_COUNT) != nullptr) x[0] = -1;
  dcci((__gm__ void*)x, cache_line_t::ENTIRE_DATA_CACHE);
  dcci((__gm__ void*)x, cache_line_t::SINGLE_CACHE_LINE, dcci_dst_t::CACHELINE_OUT);
  dsb((mem_dsb_t)DSB_DDR);
  pipe_sync();
  if (get_sys_cnt() < start || sizeof(CommContext) != 1056) x[0] = -1;
  if (get_sys_cnt() - start > 3600 * PLATFORM_PROF_SYS_CNT_FREQ) x[0] = -1;
  pto::Tile<pto::TileType::Left, half, 16, 16> left;
  pto::TASSIGN(left, 0x100);
  if (pto::GetScaleAddr(left.data()) != 0x10) x[0] = -1;
}
extern "C" __aicore__ void kernel_entry(__gm__ int64_t* args) {
  __gm__ Tensor* tensor = reinterpret_cast<__gm__ Tensor*>(args[0]);
  fill(reinterpret_cast<__gm__ float*>(tensor->buffer.addr) + tensor->start_offset, args);
}
"""
# Definitions that sources for the simulator repeat.
OWN = """
#undef dcci
#undef ENTIRE_DATA_CACHE
#undef SINGLE_CACHE_LINE
namespace cache_line_t {
constexpr int ENTIRE_DATA_CACHE = 0;
constexpr int SINGLE_CACHE_LINE = 0;
}
typedef int mem_dsb_t;
#define DSB_DDR 0
static inline void dcci(...) {}
static inline void dsb(mem_dsb_t) {}
#if !defined(__CPU_SIM)
#error "this is for the simulator"
#endif
using namespace pto;
static_assert(sizeof(cpu_sim::KernelLaunchOptions) > 0, "");
"""


@pytest.mark.parametrize("own, flags", [("", []), ("", ["-D__CPU_SIM"]), (OWN, ["-D__CPU_SIM"])],
                         ids=["chip", "simulator", "simulator, own names"])  # fmt: skip
def test_headers_and_names_of_public_kernels_are_there(own, flags):
    assert results(PUBLIC % own, flags=flags) == [7.0] * 8


WRONG = """#include <pto/pto-inst.hpp>
using namespace pto;
static void add(float* x) {
  Tile<TileType::Vec, float, 1, 16> a;
  Tile<TileType::Vec, float, 1, 32> b;
  TADD(a, a, b);
}
extern "C" void kernel_entry(int64_t* args) { add((float*)args[0]); }
"""


def test_a_compiler_s_text_begins_at_the_first_error_with_the_user_s_lines():
    with pytest.raises(RuntimeError) as raised:
        pto.compile(kernels=[{"source": WRONG, "name": "wrong"}])
    lines = str(raised.value).split("\n")[1:]
    assert "wrong.cpp:6:" in "\n".join(lines[:4])
    assert any("error: " in line for line in lines[:4])
    assert not any("In file included" in line for line in lines)
    assert "C++20" in str(raised.value)
    with pytest.raises(RuntimeError, match=r"wrong.cpp:1:\d+: error: (.|\n)*valid C\+\+17"):
        pto.compile(kernels=[{"source": "int x = y;\nextern \"C\" void kernel_entry(int64_t*) {}",
                              "name": "wrong"}], flags=["-std=c++17"])  # fmt: skip


def test_other_flags_are_refused():
    with pytest.raises(ValueError, match=r"flags: '-std=c\+\+14'\n.*-std= of C\+\+17 or later"):
        pto.compile(kernels=[{"source": SLOTS % ""}], flags=["-std=c++14"])


def test_a_kernel_may_name_folders_of_its_own_and_what_it_reads_and_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(spellings, "_noted", set())
    for k, value in enumerate((5, 6)):
        (tmp_path / f"{k}").mkdir()
        (tmp_path / f"{k}" / "value.h").write_text(f"const int kValue = {value};\n")
    kernel = {"source": '#include "value.h"\n' + SLOTS % "x[0] = kValue;", "core_type": "aiv"}
    x = np.zeros(3, np.float32)
    folders = [tmp_path / "0", tmp_path / "1"]
    for spelling, given, value in [("include_dirs", str(folders[0]), 5),
                                   ("extra_include_dirs", [folders[1]], 6)]:  # fmt: skip
        package = pto.compile(
            orch=ORCHESTRATION, kernels=[{**kernel, spelling: given}], include_dirs=folders[0]
        )
        with pto.Runtime() as rt:
            rt.register("p", pkg=package)
            rt.run("p", [pto.Arg.inout(x)])
        assert x[0] == value, spelling
    note = "signature: a submission tells what its task reads"
    with pytest.warns(RuntimeWarning, match=note) as caught:
        pto.compile(
            orch=ORCHESTRATION, kernels=[{**kernel, "signature": [3]}], include_dirs=folders[0]
        )
    assert caught[0].filename == __file__
    with pytest.raises(FileNotFoundError, match="is no folder"):
        pto.compile(kernels=[{**kernel, "include_dirs": [tmp_path / "2"]}])


def test_files_of_one_name_are_told_apart_by_their_func_id(tmp_path):
    body = SLOTS % "  x[pto_block_index()] += ADDED;"
    both = ORCHESTRATION.replace("o.submit", 'o.submit("3", {o.inout(o.inout(0))});\n  o.submit')
    (tmp_path / "add.cpp").write_text(
        "#if __DAV_CUBE__\n#define ADDED 8\n#else\n#define ADDED 1\n#endif\n" + body
    )
    kernels = [{"source": tmp_path / "add.cpp", "core_type": kind, "func_id": k}
               for kind, k in (("aiv", 0), ("aic", 3))]  # fmt: skip
    package = pto.compile(orch=both, kernels=kernels)
    assert [kernel.name for kernel in package.kernels] == ["add_0", "add_3"]
    x = np.zeros(3, np.float32)
    with pto.Runtime() as rt:
        rt.register("p", pkg=package)
        rt.run("p", [pto.Arg.inout(x)])
    assert x.tolist() == [8 + 1, 1, 1]  # one block of it, three of the other


def test_keywords_of_the_published_api_work_or_are_noted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(spellings, "_noted", set())
    (tmp_path / "seven.h").write_text("const int kSeven = 7;\n")
    kernels = [{"source": '#include "seven.h"\n' + SLOTS % "x[0] = kSeven;"}]
    given = {"orch_source": ORCHESTRATION, "kernel_sources": kernels,
             "extra_include_dirs": [str(tmp_path)]}  # fmt: skip
    decided = {"block_dim": 24, "aicpu_thread_num": 4, "orch_thread_num": 1,
               "build_dir": str(tmp_path)}  # fmt: skip
    with pytest.warns(
        RuntimeWarning, match="block_dim: a task says itself how many blocks it has; aicpu"
    ):
        package = pto.compile("cpu", runtime_name="tensormap_and_ringbuffer", **given, **decided)
    x = np.zeros(3, np.float32)
    with pto.Runtime() as rt, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rt.register("again", runtime="host_build_graph", **given, **decided)
        rt.register("again", runtime="host_build_graph", **given, **decided)
        assert not caught
        rt.register("package", pkg=package)
        rt.run("again", [pto.Arg.inout(x)])
    assert x[0] == 7
    with pytest.raises(TypeError, match="both include_dirs= and extra_include_dirs= are given"):
        pto.compile(**given, include_dirs=["."])
    with pytest.raises(ValueError, match="runtime='ring'(.|\n)*'tensormap_and_ringbuffer', 'host"):
        pto.compile(**given, runtime="ring")
    with pytest.raises(ValueError, match="runtime=array"):
        pto.compile(**given, runtime=np.zeros(2))
