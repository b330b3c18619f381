// SPDX-License-Identifier: Apache-2.0
// Shared memory: a region that this process and its workers map, and blocks of it.
//
//     auto heap = SharedHeap::make(int64_t(1) << 30);       // pages cost nothing until written
//     std::shared_ptr<SharedBlock> block = heap->allocate(4096);
//     block->data();                                        // zeros; freed with its last owner
//
// A region has no name in any folder: the system frees it when the last process that maps it has
// ended, however it ended.
// Invariant: blocks begin at multiples of 64 bytes, large ones at pages; a new block is zero.
// Memory ends at most 64 KiB past the last block: an access beyond raises SIGBUS in any process, so
// that a wild kernel cannot fill the machine.
// A process that was forked from the one that made a heap has a mere copy of its books: it may read
// and write blocks, but it allocates none and gives none back.
// Thread safety: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "pto/tasks/book/trace.hpp"

namespace pto {

class SharedRegion {
 public:
  // Reserves addresses for `bytes`, of which the first `present` have memory. Throws Error if the
  // system refuses.
  explicit SharedRegion(int64_t bytes, int64_t present = INT64_MAX);
  // Maps a region of another process and takes over its descriptor.
  SharedRegion(int fd, int64_t bytes);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }
  bool holds(const void* address, int64_t bytes) const;
  // Gives pages back to the system; they read as zero afterwards. Both are multiples of a page.
  void discard(int64_t offset, int64_t bytes);
  // Leaves memory to the first bytes only, in all processes; bytes that come anew are zero.
  void set_present(int64_t bytes);
  int64_t present() const { return present_; }

 private:
  void map();

  int fd_;
  int64_t bytes_, present_;
  char* data_ = nullptr;
};

class SharedHeap;

// A part of a heap; it keeps the heap alive.
class SharedBlock {
 public:
  SharedBlock(std::shared_ptr<SharedHeap> heap, int64_t offset, int64_t bytes)
      : heap_(std::move(heap)), offset_(offset), bytes_(bytes) {}
  ~SharedBlock();
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;

  char* data() const;
  int64_t offset() const { return offset_; }  // in the region
  int64_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<SharedHeap> heap_;
  const int64_t offset_, bytes_;
};

class SharedHeap : public std::enable_shared_from_this<SharedHeap> {
 public:
  static std::shared_ptr<SharedHeap> make(int64_t bytes);

  // Says whether this process made the heap. A fork's copies of the heap, and of what uses it, must
  // leave memory and workers alone: they belong to the parent.
  bool is_of_this_process() const;
  // Allocates at least one byte. Throws Error if the heap has no room, with the bytes that are
  // taken and all that there are; or in a fork.
  std::shared_ptr<SharedBlock> allocate(int64_t bytes);
  // Clears what a kernel may have written outside all blocks.
  void clear_free();
  // Returns the block that holds the address; null for memory outside the heap.
  std::shared_ptr<SharedBlock> find(const void* address);

  const SharedRegion& region() const { return region_; }
  int64_t taken_bytes() const;

  // Records blocks until end_trace(), also those that are there; of freed ones the last `capacity`.
  void begin_trace(size_t capacity, uint64_t start_ns);
  void note_first_task(const SharedBlock& block, uint64_t task, uint32_t site);
  void end_trace(RunTrace& into);

 private:
  friend class SharedBlock;
  explicit SharedHeap(int64_t bytes);
  int64_t take(int64_t bytes, int64_t alignment);
  void give_back(int64_t offset);
  uint64_t since_trace_ns() const;
  void fit_to(int64_t end);  // the end of the last block

  SharedRegion region_;
  const int process_;  // that made it
  mutable std::mutex mutex_;
  struct Extent {
    int64_t bytes;
    bool is_zero;  // known for certain
  };
  std::map<int64_t, Extent> free_;  // by offset; no two touch
  struct Taken {
    int64_t bytes;
    std::weak_ptr<SharedBlock> block;
    MemoryRecord record;
  };
  std::map<int64_t, Taken> taken_;
  int64_t taken_bytes_ = 0;
  uint64_t allocated_ = 0;    // blocks so far
  int64_t trace_start_ = -1;  // by now_ns(); -1: no trace
  Ring<MemoryRecord> freed_;
};

}  // namespace pto
