// SPDX-License-Identifier: Apache-2.0
// Weights: packed copies of matrices that operators multiply by again and again.
//
//     const auto packed = packed_weight(op, weight, owner, rows, &pto_operator_run);
//     if (packed) tensors[place] = packed->tensor();   // keep it until the run is over
//
// Copies of one weight that are packed in different ways live beside each other.
//
// A weight is packed when it is seen again unchanged. At each call its owner, address, sizes,
// strides, version and some elements are compared: whole-tensor writes are noticed however they are
// made, writes of a few elements where the owner counts them. Every change doubles the number of
// calls after which it is packed again. Packed copies take at most a quarter of the machine's
// memory; those of dead owners are freed before another is packed, and by packed_weight_bytes().
//
// Invariant: a PackedWeight is immutable and holds its owner's address, not its memory.
// Thread safety: every function may be called from any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pto/abi/operator.h"
#include "pto/abi/precision.h"
#include "pto/abi/weights.h"
#include "pto/base/dtype.hpp"

namespace pto {

enum class WeightCheck {
  Sampled,   // 64 elements
  Compared,  // all of them, with a copy
  Never,     // no weight is packed
  Trusted    // neither elements nor version: only owner, address, sizes and strides
};

void set_weight_check(WeightCheck check);
WeightCheck weight_check();

// Sets the check of this thread alone; null: the one of the process. Returns the one before.
std::optional<WeightCheck> exchange_thread_weight_check(std::optional<WeightCheck> check);

class PackedWeight;

// How a weight is packed: ways of one number give the same copy for products of one precision.
struct WeightPacker {
  uint64_t way;
  int precision;
  const void* self;
  // Packs into memory that the weight takes(). Returns false where that fails, or another precision
  // came about meanwhile.
  bool (*pack)(const void* self, const pto_tensor_ref& weight, PackedWeight* to);
  bool packs = true;  // false: only what other calls have packed is taken
};

class PackedWeight {
 public:
  static constexpr int kMostAxes = 4;

  PackedWeight(const pto_tensor_ref& weight, const pto_weight_owner& owner, int wanted);
  ~PackedWeight();
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  pto_tensor_ref tensor() const;
  void* data() const { return memory_; }
  void* take(int64_t bytes);  // for its packer; null where there is no memory

  // A matrix has some axes of size 1 in front.
  using Axes = std::array<int64_t, kMostAxes>;

 private:
  friend class PackedWeights;
  static constexpr int kSamples = 64;

  bool is_of(const pto_tensor_ref& weight) const;
  bool is_unchanged(const pto_tensor_ref& weight, const pto_weight_owner& owner) const;
  int64_t place_of(int64_t row, int64_t col) const;
  int64_t rows() const { return sizes_[0] * sizes_[1] * sizes_[2]; }
  int64_t cols() const { return sizes_[kMostAxes - 1]; }
  template <class F>
  bool for_elements(F f) const;

  const void* data_;
  Axes sizes_, strides_;
  DType dtype_;
  pto_weight_owner owner_;
  std::array<int64_t, kSamples> places_;  // offsets of elements
  std::array<uint32_t, kSamples> samples_;
  std::vector<uint32_t> copy_;  // of all elements, where they are compared
  const int wanted_;            // sights until it is packed
  std::atomic<int> sights_{1};
  void* memory_ = nullptr;
  int64_t floats_ = 0, bytes_ = 0;
};

// Returns the packed copy of a weight of f32, f16, bf16, i8 or u8 with two to four axes, or null:
// the call takes the weight itself.
std::shared_ptr<const PackedWeight> packed_weight(const WeightPacker& packer,
                                                  const pto_tensor_ref& weight,
                                                  const pto_weight_owner& owner);

// Does the same for a matrix and a product of `rows` rows; for too few it packs no large matrix of
// f32. `run` runs the operator that packs.
std::shared_ptr<const PackedWeight> packed_weight(const pto_operator& op,
                                                  const pto_tensor_ref& weight,
                                                  const pto_weight_owner& owner, int64_t rows,
                                                  int32_t (*run)(const pto_operator_call*));

// Forgets the copies of weights that begin in this memory. Returns how many.
int64_t forget_weights(const void* memory, int64_t bytes);

// Counts the bytes of a weight that a caller keeps packed; negative ones when it is freed.
void count_packed_weight(int64_t bytes);

// Returns the bytes of all copies whose owners live, and of those that callers keep.
int64_t packed_weight_bytes();

}  // namespace pto
