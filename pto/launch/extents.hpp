// SPDX-License-Identifier: Apache-2.0
// Extents: memory ranges of known length, behind pto_register_range and pto_extent (abi/host.h).
//
//     Extents extents;
//     extents.add(x, 400);
//     extents.bytes_from(x + 100);   // 300, for a char* x
//     extents.bytes_from(y);         // -1: in no range
//
// Ranges may nest and overlap; the smallest one that holds the pointer counts.
//
// Thread safety: any thread; a look-up takes no lock where the thread's last answer still holds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <shared_mutex>
#include <vector>

namespace pto {

class Extents {
 public:
  Extents();

  // A base may be added several times; empty ranges and null are ignored.
  void add(const void* base, size_t bytes);

  // Removes the range that was added last at this base; false without one.
  bool remove(const void* base);

  // Returns the bytes from `pointer` to the end of its range, or -1.
  int64_t bytes_from(const void* pointer) const;

  void lock() { mutex_.lock(); }  // around fork()
  void unlock() { mutex_.unlock(); }
  // The child calls this: its thread does not hold the parent's lock, so it cannot unlock it.
  void renew_lock() { new (&mutex_) std::shared_mutex; }

 private:
  // One answer for every pointer of [low, high): the end of the range, 0 without one.
  struct Answer {
    uint64_t version = 0;
    uintptr_t low = 0, high = 0, end = 0;
  };
  struct Range {
    uintptr_t base, end;
    uintptr_t reach;  // the largest end of this range and all before it
  };
  Answer look_up(uintptr_t address) const;
  void update_reach(size_t from);

  mutable std::shared_mutex mutex_;
  std::vector<Range> ranges_;  // by base; equal bases in the order of addition
  std::atomic<uint64_t> version_;
};

// Returns the ranges of this process, which pto_register_range fills.
Extents& process_extents();

}  // namespace pto
