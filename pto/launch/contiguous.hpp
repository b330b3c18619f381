// SPDX-License-Identifier: Apache-2.0
// Contiguous: tensors with elements in row-major order without gaps.
//
//     is_contiguous(2, sizes, strides);   // {4, 8} and {8, 1}: yes; {4, 8} and {9, 1}: no
//     dense_strides(2, sizes, strides);   // {4, 8}: strides {8, 1}, and 32 elements
//
// Strides count elements. The stride of a dimension with one element is never used, and a tensor
// without elements has no gaps.
//
// Thread safety: pure functions.
#pragma once
#include <cstdint>

namespace pto {

inline bool is_contiguous(int32_t rank, const int64_t* sizes, const int64_t* strides) {
  int64_t dense = 1;
  bool gap = false;
  for (int32_t axis = rank - 1; axis >= 0; --axis) {
    if (sizes[axis] == 0) return true;
    gap = gap || (sizes[axis] != 1 && strides[axis] != dense);
    dense *= sizes[axis];
  }
  return !gap;
}

// Writes the strides; returns the number of elements. Products may wrap for an empty tensor, which
// never uses them.
inline int64_t dense_strides(int32_t rank, const int64_t* sizes, int64_t* strides) {
  uint64_t elements = 1;
  for (int32_t axis = rank - 1; axis >= 0; --axis) {
    strides[axis] = static_cast<int64_t>(elements);
    elements *= static_cast<uint64_t>(sizes[axis]);
  }
  return static_cast<int64_t>(elements);
}

}  // namespace pto
