// SPDX-License-Identifier: Apache-2.0
// Builtin names: the names that a chip's compiler knows without a header, so that public sources
// write them without `pto::`: element types, the core that runs, flags and pipes, caches and
// control registers.
//
//     set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);   // pto::set_flag(pto::PIPE_MTE2, ...)
//
// With __CPU_SIM cache_line_t is a namespace and mem_dsb_t an int, as public sources make them.
//
// Invariant: every name here is one of pto:: by another spelling.
// Thread safety: that of each name.
#pragma once
#include <pto/pto-inst.hpp>

#include <time.h>

#define PTO_NAME(name) using pto::name;
#include "pto/isa/builtin_names.def"

#if defined(__CPU_SIM)
namespace cache_line_t {
using namespace pto::isa;  // a directive, so that a source may define the names anew
}
typedef int mem_dsb_t;
namespace pto {
namespace cache_line_t = ::cache_line_t;
using ::mem_dsb_t;
}  // namespace pto
#else
using pto::cache_line_t;
using pto::mem_dsb_t;
#endif

// Reads a clock of 50 MHz.
static inline uint64_t get_sys_cnt() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 50000000 + uint64_t(now.tv_nsec) / 20;
}
