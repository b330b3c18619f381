// SPDX-License-Identifier: Apache-2.0
// Attention dropout: chooses the weights to drop, and the factor of the others.
//
//     const Dropout dropout(job);
//     float factors[kMostKeys];
//     if (dropout.is_active()) dropout.find(block, row, 0, 40, factors);   // keys 0 to 39 of it
//
// Law: the weight of key j, query i and head h, counted over all batches, is kept if word
// j % 64 / 16 of Philox4x32 with 10 rounds, the seed as its key (low word first) and the counter
// (j / 64 * 16 + j % 16, i, low word of h, high word of h) is at least dropout 2^32. Engine, cut,
// threads and direction do not change the choice.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/attention_block.hpp"
#include "pto/isa/cpu/philox.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

class Dropout {
 public:
  explicit Dropout(const pto_attention_job& job)
      : seed_(job.seed),
        head_(job.first_head),
        limit_(uint64_t(double(job.dropout) * 4294967296.0)),
        factor_(job.dropout < 1 ? 1 / (1 - job.dropout) : 0) {}

  bool is_active() const { return limit_ > 0; }

  // Writes the factor of each key from `first` to `last` of the block: 0 or 1 / (1 - dropout).
  void find(const KeyBlock& b, int row, int first, int last, float* to) const {
    constexpr int kRun = 64, kLanes = 16;  // keys of a run; of one word of its counters
    using Words = Vec<uint32_t, kLane>;
    const uint64_t head = head_ + uint64_t(b.head(row));
    const auto most = lanes::splat<Words>(uint32_t(limit_ - 1));  // of a word that drops
    for (int run = first / kRun * kRun; run < last; run += kRun)
      for (int lane = 0; lane < kLanes; lane += kLane) {
        Words word[4] = {lanes::iota<uint32_t, kLane>() + uint32_t((b.key + run) / 4 + lane),
                         lanes::splat<Words>(uint32_t(b.query(row))),
                         lanes::splat<Words>(uint32_t(head)),
                         lanes::splat<Words>(uint32_t(head >> 32))};
        lanes::philox<10>(word, uint32_t(seed_), uint32_t(seed_ >> 32));
        for (int i = 0; i < 4; ++i)
          lanes::store<kLane>(to + run + kLanes * i + lane,
                              lanes::select(word[i] > most, lanes::splat<V>(factor_), V{}));
      }
  }

 private:
  const uint64_t seed_, head_;
  const uint64_t limit_;  // a word below it drops; at most 2^32
  const float factor_;
};

}  // namespace attention
PTO_NAMESPACE_END
