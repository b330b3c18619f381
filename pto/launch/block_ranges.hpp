// SPDX-License-Identifier: Apache-2.0
// BlockRanges: hands the blocks of one launch out to its threads, to each those of a range of its
// own first, so that it finds in its caches what it left there in the launch before.
//
//     ranges.reset(blocks, threads);
//     for (int32_t b = ranges.take(thread); b >= 0; b = ranges.take(thread)) run(b);   // on each
//
// Invariant: each block is taken once, whoever takes. A thread whose range is empty takes from the
// others, so that none waits for a slow one.
// Thread safety: any thread may take or stop; reset() needs that no other call is under way.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pto {

class BlockRanges {
 public:
  // Cuts blocks 0 .. blocks-1 into `ranges` ranges of about equal length, or fewer.
  void reset(int32_t blocks, int ranges) {
    blocks_ = blocks;
    count_ = std::clamp(std::min(blocks, ranges), 1, kRangesMost);
    for (int i = 0; i < count_; ++i) next(i).store(first(i), std::memory_order_relaxed);
  }

  // Returns a block that nobody has taken, of this range (modulo their number) where it has one; -1
  // where there is none.
  int32_t take(int range) {
    for (int i = 0; i < count_; ++i) {
      const int of = (range + i) % count_;
      const int64_t end = first(of + 1);
      if (next(of).load(std::memory_order_relaxed) >= end) continue;
      const int64_t block = next(of).fetch_add(1, std::memory_order_relaxed);
      if (block < end) return static_cast<int32_t>(block);
    }
    return -1;
  }

  // Leaves no block to be taken.
  void stop() {
    for (int i = 0; i < count_; ++i) next(i).store(first(i + 1), std::memory_order_relaxed);
  }

  // Counts threads that run a block, by the range that they took it for.
  void enter(int range) { at(range).threads.fetch_add(1); }
  void leave(int range) { at(range).threads.fetch_sub(1); }
  int inside() const {
    int all = 0;
    for (const Range& one : ranges_) all += one.threads.load();
    return all;
  }

  int range_of(int32_t block) const {
    return static_cast<int>((int64_t{block} * count_ + count_ - 1) / blocks_);
  }
  int32_t blocks() const { return blocks_; }

 private:
  static constexpr int kRangesMost = 16;  // more threads share them
  struct alignas(64) Range {
    std::atomic<int64_t> next{0};
    std::atomic<int> threads{0};
  };

  Range& at(int range) { return ranges_[static_cast<size_t>(range)]; }
  std::atomic<int64_t>& next(int range) { return at(range).next; }
  int64_t first(int range) const { return int64_t{blocks_} * range / count_; }

  int32_t blocks_ = 1;
  int count_ = 1;
  std::array<Range, kRangesMost> ranges_;
};

}  // namespace pto
