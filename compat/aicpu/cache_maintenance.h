// SPDX-License-Identifier: Apache-2.0
// Ranges of the orchestrating core's cache, by the public path. Cores here see each other's memory,
// so these calls only keep the accesses before and after them in order.
//
//     cache_invalidate_range(flags, sizeof(flags));   // before others' writes are read
//
// Thread safety: any thread.
#pragma once

#include <stddef.h>

#include <atomic>

inline void cache_invalidate_range(const void*, size_t) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline void cache_flush_range(const void*, size_t) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
