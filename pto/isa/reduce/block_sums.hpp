// SPDX-License-Identifier: Apache-2.0
// Block sums: sums long lines in blocks of a bounded number of steps, and adds the blocks in pairs.
//
//     BlockSums<float, 8> sums;
//     sums.add(block);             // 8 lanes: the sum of a block that is full
//     sums.add_all_to(last);       // last += all of them
//     RunningSum<double> sum;      // the same one number after another
//     sum.add(x);
//     sum.total();
//
// One running sum stops growing where the next element is less than half of its spacing: the sum of
// 2^32 ones in f32 was 2^30. Here kBlockSteps additions make a block, as many blocks are added one
// after another, and their sums are added in pairs.
//
// Invariant: a sum of n numbers x differs from the exact one by at most
// (4 kBlockSteps + 2 log2 n) u sum |x|, u = 2^-24 for float and 2^-53 for double: a block may be
// twice as long where rows end in it. The order depends on the sizes only.
// Thread safety: a sum belongs to one thread.
#pragma once
#include "pto/isa/cpu/access.hpp"

PTO_NAMESPACE_BEGIN

// Few enough for the bound, so many that closing a block costs some percent of its loads.
constexpr int64_t kBlockSteps = 64;

template <class T, int N>
class BlockSums {
  static constexpr int kStep = N < kLanes<T> ? N : kLanes<T>;
  static constexpr int kLevels = 48;

 public:
  PTO_INLINE bool any() const { return blocks_ != 0; }

  PTO_INLINE void add(const T* block) {
    if (recent() == 0)
      copy(recent_, block);
    else
      add_to(recent_, block);
    ++blocks_;
    if (__builtin_expect(recent() == 0, 0)) add_recent_in_pairs();
  }

  // Out of line, as below: the loops that call it keep their registers for their own steps.
  __attribute__((noinline)) void add_all_to(T* last) const {
    if (recent() != 0) add_to(last, recent_);
    for (uint64_t level = 0, rest = blocks_ / kBlockSteps; rest >> level != 0; ++level)
      if (rest >> level & 1) add_to(last, levels_[level]);
  }

 private:
  PTO_INLINE uint64_t recent() const { return blocks_ % kBlockSteps; }

  // Counts in binary: level i holds the sum of 2^i blocks where bit i of their number is set.
  __attribute__((noinline)) void add_recent_in_pairs() {
    const uint64_t before = blocks_ / kBlockSteps - 1;
    int level = 0;
    for (; before >> level & 1; ++level) add_to(recent_, levels_[level]);
    copy(levels_[level], recent_);
  }
  static PTO_INLINE void copy(T* to, const T* from) {
    for (int i = 0; i < N; i += kStep) lanes::store<kStep>(to + i, lanes::load<kStep>(from + i));
  }
  static PTO_INLINE void add_to(T* sum, const T* other) {
    for (int i = 0; i < N; i += kStep)
      lanes::store<kStep>(sum + i, lanes::load<kStep>(sum + i) + lanes::load<kStep>(other + i));
  }

  uint64_t blocks_ = 0;
  T recent_[N];  // the sum of the last of them
  T levels_[kLevels][N];
};

// Sums one number after another.
template <class T>
class RunningSum {
 public:
  PTO_INLINE void add(T x) {
    open_ += x;
    if (__builtin_expect(++steps_ == kBlockSteps, 0)) {
      const T block = open_;
      blocks_.add(&block);
      open_ = 0, steps_ = 0;
    }
  }
  PTO_INLINE T total() const {
    T sum = open_;
    blocks_.add_all_to(&sum);
    return sum;
  }

 private:
  T open_ = 0;
  int64_t steps_ = 0;
  BlockSums<T, 1> blocks_;
};

PTO_NAMESPACE_END
