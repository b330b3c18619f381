// SPDX-License-Identifier: Apache-2.0
// The spellings of the public simulator: what its sources write without `pto::`, its macros, and
// the standard headers that they take for granted. pto/pto-inst.hpp includes it where __CPU_SIM is
// defined and this folder is an include folder.
//
//     g++ -D__CPU_SIM -I compat $(python -m pto config --cxxflags) kernel.cpp ...
//
// Invariant: no logic. Every name here is one of pto:: by another spelling.
// Thread safety: as what is named.
#pragma once
#include <pto/pto-inst.hpp>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <pto/common/debug.h>
#include <pto/common/constants.hpp>
#include <pto/common/limits_of_types.hpp>
#include <pto/isa/simulator.hpp>

// A core is both, unless the source is built for one kind.
#if !defined(__DAV_CUBE__) && !defined(__DAV_VEC__)
#define __DAV_CUBE__
#define __DAV_VEC__
#endif
// The tests of bfloat16_t, which is one by any compiler here.
#if defined(PTO_CPU_SIM_ENABLE_BF16) && !defined(CPU_SIM_BFLOAT_ENABLED)
#define CPU_SIM_BFLOAT_ENABLED
#endif
#define __cce_get_tile_ptr(pointer) pointer
#define FFTS_MODE_VAL 2
#define aclFloat16ToFloat(value) static_cast<float>(value)
#define aclFloatToFloat16(value) static_cast<aclFloat16>(static_cast<float>(value))

using aclFloat16 = pto::half;
using pto::bfloat16_t;
using pto::float4_e1m2x2_t;
using pto::float4_e2m1x2_t;
using pto::float8_e4m3_t;
using pto::float8_e5m2_t;
using pto::float8_e8m0_t;
using pto::half;
using pto::hifloat8_t;
using pto::NPU_MEMORY_CLEAR;
using pto::NPU_MEMORY_INIT;

using pto::block_idx;
using pto::get_block_idx;
using pto::get_block_num;
using pto::get_coreid;
using pto::get_subblockdim;
using pto::get_subblockid;

using pto::EVENT_ID0;
using pto::EVENT_ID1;
using pto::EVENT_ID2;
using pto::EVENT_ID3;
using pto::EVENT_ID4;
using pto::EVENT_ID5;
using pto::EVENT_ID6;
using pto::EVENT_ID7;
using pto::event_t;
using pto::PIPE_ALL;
using pto::pipe_barrier;
using pto::PIPE_FIX;
using pto::PIPE_M;
using pto::PIPE_MTE1;
using pto::PIPE_MTE2;
using pto::PIPE_MTE3;
using pto::PIPE_S;
using pto::pipe_t;
using pto::PIPE_V;
using pto::set_flag;
using pto::wait_flag;

using pto::_getFFTSMsg;
using pto::ffts_cross_core_sync;
using pto::getFFTSMsg;
using pto::set_ffts_base_addr;
using pto::set_intra_block;
using pto::wait_flag_dev;
using pto::wait_intra_block;

using pto::cache_line_t;
using pto::CACHELINE_ALL;
using pto::CACHELINE_ATOMIC;
using pto::CACHELINE_OUT;
using pto::CACHELINE_UB;
using pto::dcci;
using pto::dcci_dst_t;
using pto::dsb;
using pto::DSB_ALL;
using pto::DSB_DDR;
using pto::DSB_SEQ;
using pto::DSB_UB;
using pto::ENTIRE_DATA_CACHE;
using pto::get_ctrl;
using pto::mem_dsb_t;
using pto::sbitset0;
using pto::sbitset1;
using pto::set_ctrl;
using pto::set_mask_count;
using pto::set_mask_norm;
using pto::set_vector_mask;
using pto::SINGLE_CACHE_LINE;
using pto::cpu_sim::get_task_cookie;

namespace cce {
using std::printf;
}

// Ranks are played one after the other by one process: none to start, to wait for or to miss.
#define HcclHostBarrier(communicator, stream)
#define SKIP_IF_RANKS_LT(count)
template <class... A>
bool CommMpiInit(A&&...) {
  return true;
}
template <class... A>
void CommMpiBarrier(A&&...) {}
template <class... A>
void CommMpiFinalize(A&&...) {}

struct HcclRootInfo {};
constexpr uint32_t HCCL_MAX_RANK_NUM = 64;
// What a rank knows of the group: where the memory of each rank begins that others may use.
struct CommDeviceContext {
  uint64_t workSpace, workSpaceSize;
  uint32_t rankId, rankNum;
  uint64_t winSize, windowsIn[HCCL_MAX_RANK_NUM], windowsOut[HCCL_MAX_RANK_NUM];
};
using HcclDeviceContext = CommDeviceContext;

namespace pto {

// What TPRINT prints goes through std::cout, which sources capture.
PTO_INLINE void print_to_cout(const char* text, int length) { std::cout.write(text, length); }
inline const bool kPrintsToCout = (isa::detail::print_text = print_to_cout, true);

// The bytes of an element, and whether it is two numbers.
template <class T>
constexpr size_t GetTypeSize() {
  return sizeof(T);
}
template <class T>
constexpr bool isTwinType() {
  return std::is_same_v<T, float4_e1m2x2_t> || std::is_same_v<T, float4_e2m1x2_t>;
}
template <class T>
constexpr bool IsTwinType() {
  return isTwinType<T>();
}

// Some of the simulator's inner names, which some sources call.
#define PTO_INNER_NAME(M)                     \
  template <class... A>                       \
  PTO_INLINE void M##_IMPL(A&&... operands) { \
    M(static_cast<A&&>(operands)...);         \
  }
PTO_INNER_NAME(TCONCAT)
PTO_INNER_NAME(TGEMV_MX)
PTO_INNER_NAME(TLOAD)
PTO_INNER_NAME(TMATMUL_MX)
PTO_INNER_NAME(TPRINT)
PTO_INNER_NAME(TSTORE)

}  // namespace pto
using pto::IsTwinType;

PTO_NAMESPACE_BEGIN
namespace comm {
PTO_INNER_NAME(TNOTIFY)
PTO_INNER_NAME(TREDUCE)
}  // namespace comm
PTO_NAMESPACE_END
#undef PTO_INNER_NAME
