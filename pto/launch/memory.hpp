// SPDX-License-Identifier: Apache-2.0
// Memory: the recycling allocator behind pto_malloc and pto_free (abi/host.h).
//
//     void* out = pto_malloc(256 << 20);   // the second time: the block that was freed last
//     memory_stats().live_bytes;
//
// Fresh pages cost a large output more than its arithmetic, so large blocks (from 1 MB) lie on
// huge pages and are kept for the next allocation of about their size. All held together stay
// below Machine::pool_bytes, by default the larger of 256 MB and the recent peak of live bytes: the
// oldest go first. The allocator touches no page before its user does. Small blocks go through a
// list per thread to the C allocator.
//
// Invariant: blocks are 64-byte aligned and never zeroed. Under AddressSanitizer, also when only
// the program has it, the bytes behind a block and those of a freed one are poisoned.
// Thread safety: every function may be called from any thread; a block may be freed by another
// thread than the one that asked for it. fork() is safe.
#pragma once

#include <cstdint>

namespace pto {

struct MemoryStats {
  int64_t live_bytes;       // as asked for
  int64_t peak_live_bytes;  // since the start or reset_peak_live_bytes()
  int64_t held_bytes;       // large blocks, live and free, as mapped
  int64_t free_bytes;       // large blocks kept for reuse
  int64_t maps;             // large blocks that the system had to supply
};

MemoryStats memory_stats();

void reset_peak_live_bytes();

// Gives all free large blocks, and this thread's free small ones, back to the system.
void release_cached();

// Returns the bytes of address space that a large block of `bytes` takes.
int64_t mapped_bytes(int64_t bytes);

}  // namespace pto
