// SPDX-License-Identifier: Apache-2.0
// Device blocks: finds a block of memory that a device's allocator has handed out, by any pointer
// into it.
//
//     process_device_blocks().add(&block);          // at each allocation
//     process_device_blocks().place_of(pointer);    // {device 0, 300 bytes to the block's end}
//
// Blocks bound raw pointers as registered ranges do (extents.hpp), and say which device a pointer
// belongs to. A program allocates much more often than it asks, so adding and removing cost some
// 10 ns whatever the number of blocks, and an answer costs two probes per order of magnitude.
//
// Invariant: a block of 2^(k-1)+1 to 2^k bytes (k is 8 for smaller ones too) hangs at the window of
// 2^k bytes that it begins in, so that the window of a pointer and the one before hold every block
// of that size around it.
// Thread safety: any thread. fork() is safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace pto {

// The owner of the memory keeps it; it must stay until it is removed.
struct DeviceBlock {
  uintptr_t base = 0;
  size_t bytes = 0;
  int32_t device = 0;
  DeviceBlock* next = nullptr;  // the next block in its window
};

struct DevicePlace {
  int32_t device;  // -1: the pointer lies in no block
  int64_t bytes;   // from the pointer to the end of its block
};

class DeviceBlocks {
 public:
  DeviceBlocks();

  // Blocks must not overlap; where some do, any of them may answer.
  void add(DeviceBlock* block);
  void remove(DeviceBlock* block);

  DevicePlace place_of(const void* pointer) const {
    DevicePlace place{-1, -1};
    visit(pointer, [&](DeviceBlock& block) {
      place = {block.device, static_cast<int64_t>(block.base + block.bytes -
                                                  reinterpret_cast<uintptr_t>(pointer))};
    });
    return place;
  }

  // Calls visit(block) for the pointer's block, which stays meanwhile; false without one.
  template <class Visit>
  bool visit(const void* pointer, Visit visit) const {
    if (levels_.load(std::memory_order_acquire) == 0) return false;
    const std::lock_guard lock(mutex_);
    DeviceBlock* const block = find(reinterpret_cast<uintptr_t>(pointer));
    if (block != nullptr) visit(*block);
    return block != nullptr;
  }

  void lock() { mutex_.lock(); }  // around fork()
  void unlock() { mutex_.unlock(); }

 private:
  DeviceBlock* find(uintptr_t address) const;
  DeviceBlock*& chain(int level, uintptr_t window) const;

  mutable std::mutex mutex_;
  mutable std::vector<DeviceBlock*> chains_;
  std::atomic<uint64_t> levels_{0};  // bit k: there has been a block of level k
};

// Returns the blocks of this process.
DeviceBlocks& process_device_blocks();

}  // namespace pto
