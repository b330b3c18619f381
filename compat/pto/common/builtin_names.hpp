// SPDX-License-Identifier: Apache-2.0
// Builtin names: the names that a chip's compiler knows without a header, so that public sources
// write them without `pto::`: element types, the core that runs, flags and pipes, caches and
// control registers.
//
// With __CPU_SIM cache_line_t is a namespace and mem_dsb_t an int, as public sources make them.
//
// Invariant: every name here is one of pto:: by another spelling.
// Thread safety: that of each name.
#pragma once
#include <pto/pto-inst.hpp>

#include <time.h>

using pto::_getFFTSMsg;
using pto::bfloat16_t;
using pto::block_idx;
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
using pto::EVENT_ID0;
using pto::EVENT_ID1;
using pto::EVENT_ID2;
using pto::EVENT_ID3;
using pto::EVENT_ID4;
using pto::EVENT_ID5;
using pto::EVENT_ID6;
using pto::EVENT_ID7;
using pto::event_t;
using pto::ffts_cross_core_sync;
using pto::float4_e1m2x2_t;
using pto::float4_e2m1x2_t;
using pto::float8_e4m3_t;
using pto::float8_e5m2_t;
using pto::float8_e8m0_t;
using pto::get_block_idx;
using pto::get_block_num;
using pto::get_coreid;
using pto::get_ctrl;
using pto::get_subblockdim;
using pto::get_subblockid;
using pto::getFFTSMsg;
using pto::half;
using pto::hifloat8_t;
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
using pto::sbitset0;
using pto::sbitset1;
using pto::set_ctrl;
using pto::set_ffts_base_addr;
using pto::set_flag;
using pto::set_intra_block;
using pto::set_mask_count;
using pto::set_mask_norm;
using pto::set_vector_mask;
using pto::SINGLE_CACHE_LINE;
using pto::wait_flag;
using pto::wait_flag_dev;
using pto::wait_intra_block;

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
