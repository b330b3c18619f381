// SPDX-License-Identifier: Apache-2.0
// Extent: the addresses that a tensor's elements may take, and whether each element has its own.
//
//     const bool is_shared = overlap(extent(a), extent(b));
//
// Invariant: an empty tensor has an empty extent, which overlaps nothing.
// Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "pto/launch/program.hpp"

namespace pto::bindings {

inline int64_t elements(const TensorArgument& tensor) {
  int64_t count = 1;
  for (int axis = 0; axis < tensor.rank; ++axis) count *= tensor.sizes[axis];
  return count;
}

struct Extent {
  uintptr_t begin, end;
};

inline Extent extent(const TensorArgument& tensor) {
  auto low = reinterpret_cast<uintptr_t>(tensor.data), high = low;
  const int64_t item = bytes(tensor.dtype);
  if (elements(tensor) == 0) return {low, low};
  for (int axis = 0; axis < tensor.rank; ++axis) {
    const int64_t reach = (tensor.sizes[axis] - 1) * tensor.strides[axis] * item;
    (reach < 0 ? low : high) += static_cast<uintptr_t>(reach);
  }
  return {low, high + static_cast<uintptr_t>(item)};
}

inline bool overlap(const Extent& a, const Extent& b) {
  return a.begin < b.end && b.begin < a.end && a.begin != a.end && b.begin != b.end;
}

// Says whether no two elements share an address: sorted by stride, each axis must step over all
// that lies within the axes before it.
inline bool is_injective(const TensorArgument& tensor) {
  if (elements(tensor) == 0) return true;
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (int axis = 0; axis < tensor.rank; ++axis)
    if (tensor.sizes[axis] > 1)
      axes.emplace_back(std::abs(tensor.strides[axis]), tensor.sizes[axis]);
  std::sort(axes.begin(), axes.end());
  int64_t reach = 1;
  for (const auto& [stride, size] : axes) {
    if (stride < reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

}  // namespace pto::bindings
