// SPDX-License-Identifier: Apache-2.0
// Extent: the addresses between the first byte and the last that a tensor's elements may take.
//
//     if (overlap(extent(a), extent(b))) ...
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "pto/runtime/program.hpp"

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

}  // namespace pto::bindings
