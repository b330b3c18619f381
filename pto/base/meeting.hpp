// SPDX-License-Identifier: Apache-2.0
// Meeting: whether elements of two strided tensors may share memory.
//
//     may_meet(keys, values);   // kv[:, 0] and kv[:, 1] of one buffer: no
//
// Invariant: false is certain. True may be said of tensors with a common range whose elements pass
// each other by some pattern that is no step of theirs.
// Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>

#include "pto/abi/limits.h"
#include "pto/base/strided.hpp"

namespace pto {

// Elements of `item` bytes; the strides count elements and are not null.
struct Layout {
  const void* data;
  int64_t item;
  int64_t rank;
  const int64_t *sizes, *strides;

  AddressRange range() const {
    const pto_tensor_ref tensor{const_cast<void*>(data), sizes, strides, int32_t(rank), 0};
    return address_range(tensor, item);
  }
};

// A Layout of a tensor, with the strides where it has none.
class LaidOut {
 public:
  explicit LaidOut(const pto_tensor_ref& x)
      : layout_{x.data, bytes(dtype_of(x)), x.rank, x.sizes, x.strides} {
    if (x.strides != nullptr) return;
    dense_strides(x.rank, x.sizes, dense_.data());
    layout_.strides = dense_.data();
  }
  LaidOut(const LaidOut&) = delete;
  operator const Layout&() const { return layout_; }

 private:
  Layout layout_;
  std::array<int64_t, PTO_MAX_RANK> dense_;
};

// The bytes from the lowest to past the highest element of those that the axes reach whose strides
// are no multiple of `step`.
inline AddressRange range_within(const Layout& one, int64_t step) {
  int64_t low = 0, high = one.item;
  for (int64_t axis = 0; axis < one.rank; ++axis) {
    const int64_t stride = one.strides[axis] * one.item;
    if (stride % step == 0) continue;
    const int64_t reach = (one.sizes[axis] - 1) * stride;
    (reach < 0 ? low : high) += reach;
  }
  const auto data = reinterpret_cast<uintptr_t>(one.data);
  return {data + uint64_t(low), data + uint64_t(high)};
}

// Says whether the elements of both lie in different parts of every `step` bytes, as two columns of
// a matrix do.
inline bool are_apart_within(const Layout& a, const Layout& b, int64_t step) {
  const AddressRange one = range_within(a, step), other = range_within(b, step);
  const int64_t distance = int64_t(other.first - one.first) % step;
  const int64_t at = distance < 0 ? distance + step : distance;
  return int64_t(one.end - one.first) <= at && at + int64_t(other.end - other.first) <= step;
}

inline bool may_meet(const Layout& a, const Layout& b) {
  if (!overlap(a.range(), b.range())) return false;
  int64_t all = 0;
  for (const Layout* one : {&a, &b})
    for (int64_t axis = 0; axis < one->rank; ++axis) {
      const int64_t stride = one->strides[axis] * one->item, step = stride < 0 ? -stride : stride;
      if (one->sizes[axis] == 1 || step == 0) continue;
      if (are_apart_within(a, b, step)) return false;
      all = std::gcd(all, step);
    }
  return all == 0 || !are_apart_within(a, b, all);
}
inline bool may_meet(const pto_tensor_ref& a, const pto_tensor_ref& b) {
  return may_meet(LaidOut(a), LaidOut(b));
}

// Returns the bytes of both, counted from the lowest one: "0 to 64", "32 to 96".
inline std::array<std::string, 2> bytes_of_both(const pto_tensor_ref& a, const pto_tensor_ref& b) {
  const AddressRange one = address_range(a), other = address_range(b);
  const auto told = [first = std::min(one.first, other.first)](const AddressRange& range) {
    return std::to_string(range.first - first) + " to " + std::to_string(range.end - first);
  };
  return {told(one), told(other)};
}

}  // namespace pto
