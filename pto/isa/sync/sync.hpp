// SPDX-License-Identifier: Apache-2.0
// Sync: order between pipes and between cores: flags, barriers over all blocks.
//
//     set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);              // one core runs its instructions in
//     wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);             // order, so the pair is only counted
//     ffts_cross_core_sync(PIPE_FIX, _getFFTSMsg(2, 3));   // cube core: flag 3 to its vector cores
//     wait_flag_dev(3);                                    // vector core
//     SYNCALL<SyncCoreType::Mix>();                        // every core of the launch
//
// A wait that nobody can end fails the launch at once: the text names every core that waits, for
// what, and the line of its source. A flag that is awaited and not set, or set and not awaited,
// fails the block that left it. Outside launches flags and barriers do nothing.
//
// Invariant: a wait sees everything that a core wrote before it set the flag or came to a barrier.
// Thread safety: cores run as fibers on any number of threads, see pto/launch/wait.hpp.
#pragma once
#include "pto/abi/host.h"
#include "pto/isa/kernel/enter.hpp"
#include "pto/isa/tile/global_tensor.hpp"

PTO_NAMESPACE_BEGIN

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };
enum event_t {
  EVENT_ID0,
  EVENT_ID1,
  EVENT_ID2,
  EVENT_ID3,
  EVENT_ID4,
  EVENT_ID5,
  EVENT_ID6,
  EVENT_ID7
};

// The place where a kernel waits: Here::now() as the last argument's default is the caller's line.
struct Here {
  const char* file;
  int line;
  static constexpr PTO_INLINE Here now(const char* file = __builtin_FILE(),
                                       int line = __builtin_LINE()) {
    return {file, line};
  }
};

PTO_INLINE void set_flag(pipe_t from, pipe_t to, int id, Here here = Here::now()) {
  pto_set_flag(from, to, id, here.file, here.line);
}
PTO_INLINE void wait_flag(pipe_t from, pipe_t to, int id, Here here = Here::now()) {
  pto_wait_flag(from, to, id, here.file, here.line);
}
PTO_INLINE void pipe_barrier(pipe_t) {}

// The message of ffts_cross_core_sync. Modes: 0 all cores of the caller's kind, 1 the vector cores
// of the block, 2 from the cube core to its vector cores, or back when all of them have set it.
constexpr int CV_CORE_SYNC = 2;
constexpr PTO_INLINE uint16_t _getFFTSMsg(uint16_t mode, uint16_t flag, uint16_t base = 1) {
  return uint16_t((base & 15) + ((mode & 3) << 4) + ((flag & 15) << 8));
}
constexpr PTO_INLINE uint16_t getFFTSMsg(uint16_t mode, uint16_t flag, uint16_t base = 1) {
  return _getFFTSMsg(mode, flag, base);
}
PTO_INLINE void set_ffts_base_addr(uint64_t) {}
PTO_INLINE void ffts_cross_core_sync(pipe_t, uint64_t message, Here here = Here::now()) {
  static_assert(PTO_SYNC_ALL == 0 && PTO_SYNC_LANES == 1 && PTO_SYNC_BLOCK == 2,
                "the modes of a message are those of pto_cross_set");
  pto_cross_set(int(message >> 4) & 3, int(message >> 8) & 15, here.file, here.line);
}
PTO_INLINE void wait_flag_dev(int flag, Here here = Here::now()) {
  pto_cross_wait(PTO_SYNC_BLOCK, flag, here.file, here.line);
}
PTO_INLINE void wait_flag_dev(pipe_t, int flag, Here here = Here::now()) {
  wait_flag_dev(flag, here);
}

// Set and await a flag between the cube core and one vector core of its block: the cube core counts
// the flags of the second vector core from 16 on.
PTO_INLINE void set_intra_block(pipe_t, int flag, Here here = Here::now()) {
  pto_cross_set(PTO_SYNC_PAIR, flag, here.file, here.line);
}
PTO_INLINE void wait_intra_block(pipe_t, int flag, Here here = Here::now()) {
  pto_cross_wait(PTO_SYNC_PAIR, flag, here.file, here.line);
}

// The cores that a barrier waits for; all, where a launch does not tell cube and vector cores
// apart.
enum class SyncCoreType { AIVOnly, AICOnly, Mix };
enum class SyncAllMode { Hard, Soft };

namespace detail {
constexpr int core_of(SyncCoreType type) {
  return type == SyncCoreType::AIVOnly   ? PTO_CORE_VECTOR
         : type == SyncCoreType::AICOnly ? PTO_CORE_CUBE
                                         : PTO_CORE_ANY;
}
}  // namespace detail

template <SyncCoreType Cores = SyncCoreType::AIVOnly>
PTO_INLINE void SYNCALL(Here here = Here::now()) {
  PTO_ENTER(SYNCALL, "<SyncCoreType>", "-:");
  pto_barrier(detail::core_of(Cores), nullptr, 0, here.file, here.line);
}

// Barriers with different workspaces are different ones; the workspace itself is left alone.
// `used` cores take part, 0: all.
template <SyncAllMode Mode, SyncCoreType Cores, class G>
PTO_INLINE void SYNCALL(const G& workspace, int32_t used = 0, Here here = Here::now()) {
  PTO_ENTER(SYNCALL, "<SyncAllMode, SyncCoreType> workspace, [usedCores]", in(workspace));
  static_assert(kSame<typename G::Element, int32_t>,
                "SYNCALL: the workspace counts in int32_t; pass a GlobalTensor<int32_t, ...>");
  pto_barrier(detail::core_of(Cores), workspace.data(), used, here.file, here.line);
}

// Caches are coherent here.
enum cache_line_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum dcci_dst_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum mem_dsb_t { DSB_ALL, DSB_DDR, DSB_UB, DSB_SEQ };
template <class T, class... X>
PTO_INLINE void dcci(T*, X...) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
template <class T>
PTO_INLINE void dsb(T) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
PTO_INLINE void set_mask_norm() {}
PTO_INLINE void set_mask_count() {}
PTO_INLINE void set_vector_mask(uint64_t, uint64_t) {}

PTO_NAMESPACE_END
