// SPDX-License-Identifier: Apache-2.0
// The spellings of the public simulator: names that its sources write without `pto::`, its macros,
// and the standard headers that they take for granted. pto/pto-inst.hpp includes it where __CPU_SIM
// is defined and this folder is an include folder.
//
//     #define __CPU_SIM          // or -D__CPU_SIM -I compat
//     #include <pto/pto-inst.hpp>
//
// Invariant: no logic. Every name here is one of pto:: by another spelling.
// Thread safety: that of each name.
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

#include <platform_comm/comm_context.h>
#include <pto/common/debug.h>
#include <pto/common/builtin_names.hpp>
#include <pto/common/constants.hpp>
#include <pto/common/limits_of_types.hpp>
#include <pto/cpu/pipe_state.hpp>
#include <pto/cpu/quantising_steps.hpp>
#include <pto/cpu/trace.hpp>
#include <pto/isa/kernel/simulator.hpp>

// A core has both kinds, unless the source is built for one.
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
using pto::NPU_MEMORY_CLEAR;
using pto::NPU_MEMORY_INIT;

using pto::cpu_sim::get_task_cookie;

namespace cce {
using std::printf;
}

// One process plays all ranks, one after the other: none to start, to wait for or to miss.
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
using CommDeviceContext = CommContext;
using HcclDeviceContext = CommDeviceContext;

namespace pto {

// TPRINT prints through std::cout, which sources capture.
PTO_INLINE void print_to_cout(const char* text, int length) { std::cout.write(text, length); }
inline const bool kPrintsToCout = (isa::detail::print_text = print_to_cout, true);

// Returns the bytes of an element; isTwinType() tells whether it holds two numbers.
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

// Returns an element by its number, where bytes may hold two.
template <class T>
T GetProperDataPart(T* elements, size_t at) {
  return GlobalTensor<T, Shape<>, Stride<>>(elements).GetElement(int64_t(at));
}
template <class T>
void SetProperDataPart(T* elements, size_t at, T value) {
  GlobalTensor<T, Shape<>, Stride<>>(elements).SetElement(int64_t(at), value);
}

}  // namespace pto
using pto::GetProperDataPart;
using pto::IsTwinType;
using pto::SetProperDataPart;

PTO_NAMESPACE_BEGIN
namespace comm {
PTO_INNER_NAME(TNOTIFY)
PTO_INNER_NAME(TREDUCE)
}  // namespace comm
PTO_NAMESPACE_END
#undef PTO_INNER_NAME
