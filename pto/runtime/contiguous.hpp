// SPDX-License-Identifier: Apache-2.0
// Whether a tensor's elements lie row-major without gaps.
//
//     is_contiguous(2, sizes, strides);   // {4, 8} and {8, 1}: yes; {4, 8} and {9, 1}: no
//
// Strides count elements. Those of dimensions of one element say nothing, and a tensor without
// elements has no gaps.
// Thread safety: pure function.
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

}  // namespace pto
