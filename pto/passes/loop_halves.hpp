// SPDX-License-Identifier: Apache-2.0
// LoopHalves: how the body of a nest's inner loop falls into two, each with one product that reads
// side by side.
//
//     const LoopHalves halves(nest);     // of attention: scores and weights; the weighted values
//     if (halves.any()) ...              // then the first half runs for all iterations of a group
//
// Keys are then read in one go, and values in the next, so that a cache holds half as much.
//
// Thread safety: immutable; it refers to the nest.
#pragma once

#include <set>
#include <vector>

#include "pto/passes/loop_nest.hpp"

namespace pto {

class LoopHalves {
 public:
  explicit LoopHalves(const LoopNest& nest);

  bool any() const { return any_; }
  // True for a number or size that is the same in all iterations of the outer loop.
  bool is_common(Value v) const { return is_common_[static_cast<size_t>(v)]; }
  // True where the second half computes what the inner loop carries in this place.
  bool is_late(size_t k) const;
  // Values that the first half computes, or starts from and changes, and the second one reads.
  const std::set<Value>& crossing() const { return crossing_; }

 private:
  Value find_second_product() const;
  void mark_values(Value second);
  bool reads_part(Value v) const;
  void need_early(Value v);
  void need_late(Value v, std::set<Value>* seen);
  bool splits_no_sum() const;

  const LoopNest& nest_;
  const Graph& body_;
  std::vector<bool> is_common_, is_late_, is_early_;
  std::set<Value> crossing_;
  bool any_ = false;
};

}  // namespace pto
