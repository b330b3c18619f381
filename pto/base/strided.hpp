// SPDX-License-Identifier: Apache-2.0
// Strided memory: the addresses that the elements of a tensor take, from its sizes and strides.
//
//     is_contiguous(2, sizes, strides);   // {4, 8} and {8, 1}: yes; {4, 8} and {9, 1}: no
//     dense_strides(2, sizes, strides);   // {4, 8}: strides {8, 1}, and 32 elements
//     if (overlap(address_range(x), address_range(y)) || !is_injective(2, sizes, strides)) ...
//
// Strides count elements; null ones are row-major. The stride of a dimension with one element is
// never used; a tensor without elements has no gaps, and its range is empty and overlaps nothing.
//
// Thread safety: pure functions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "pto/abi/host.h"
#include "pto/base/dtype.hpp"
#include "pto/base/size_arithmetic.hpp"

namespace pto {

// Says whether the elements lie in row-major order without gaps.
inline bool is_contiguous(int32_t rank, const int64_t* sizes, const int64_t* strides) {
  if (strides == nullptr) return true;
  uint64_t dense = 1;
  bool gap = false;
  for (int32_t axis = rank - 1; axis >= 0; --axis) {
    if (sizes[axis] == 0) return true;
    gap = gap || (sizes[axis] != 1 && static_cast<uint64_t>(strides[axis]) != dense);
    dense *= static_cast<uint64_t>(sizes[axis]);
  }
  return !gap;
}

// Says whether memory lies between the elements of a kernel's tensor that are not its own.
inline bool has_gaps(const pto_tensor& tensor) {
  if (tensor.flags & (PTO_TENSOR_ABSENT | PTO_TENSOR_CONTIGUOUS)) return false;
  return tensor.sizes != nullptr && !is_contiguous(tensor.rank, tensor.sizes, tensor.strides);
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
inline std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  dense_strides(static_cast<int32_t>(sizes.size()), sizes.data(), strides.data());
  return strides;
}

// Says whether elements lie at multiples of their size, as compiled code reads and writes them.
inline bool is_aligned(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes(dtype)) == 0;
}

// Returns the bytes of all elements; the largest number where they are more.
inline int64_t element_bytes(const pto_tensor_ref& tensor) {
  int64_t count = bytes(dtype_of(tensor));
  bool fits = true;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.sizes[axis] == 0) return 0;
    fits = fits && calculate(DimOp::Mul, count, tensor.sizes[axis], &count) == SizeFault::None;
  }
  return fits ? count : INT64_MAX;
}

// The addresses that the elements lie in: [first, end).
struct AddressRange {
  uintptr_t first = 0, end = 0;
  friend bool overlap(const AddressRange& a, const AddressRange& b) {
    return a.first < b.end && b.first < a.end;
  }
};

// Takes a pto_tensor or pto_tensor_ref with elements of `item` bytes. Products may wrap for an
// empty tensor.
template <class Tensor>
AddressRange address_range(const Tensor& tensor, int64_t item) {
  const auto item_bytes = static_cast<uint64_t>(item);
  uint64_t low = 0, high = item_bytes, dense = item_bytes;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    if (tensor.sizes[axis] == 0) return {};
    const auto size = static_cast<uint64_t>(tensor.sizes[axis]);
    const uint64_t step = tensor.strides == nullptr
                              ? dense
                              : static_cast<uint64_t>(tensor.strides[axis]) * item_bytes;
    const uint64_t reach = (size - 1) * step;
    (static_cast<int64_t>(reach) < 0 ? low : high) += reach;
    dense *= size;
  }
  const auto data = reinterpret_cast<uintptr_t>(tensor.data);
  return {data + low, data + high};
}
inline AddressRange address_range(const pto_tensor_ref& tensor) {
  return address_range(tensor, bytes(dtype_of(tensor)));
}

// Says whether it is certain that no two elements share an address: sorted by stride, each axis
// steps over all that lies within the axes before it. `strides` is not null.
inline bool is_injective(int32_t rank, const int64_t* sizes, const int64_t* strides) {
  std::vector<std::pair<uint64_t, uint64_t>> axes;
  for (int32_t axis = 0; axis < rank; ++axis) {
    if (sizes[axis] == 0) return true;
    const auto stride = static_cast<uint64_t>(strides[axis]);
    if (sizes[axis] > 1)
      axes.emplace_back(strides[axis] < 0 ? 0 - stride : stride,
                        static_cast<uint64_t>(sizes[axis]));
  }
  std::sort(axes.begin(), axes.end());
  uint64_t reach = 1;
  for (const auto& [stride, size] : axes) {
    if (stride < reach) return false;
    uint64_t further = 0;
    if (__builtin_mul_overflow(stride, size - 1, &further) ||
        __builtin_add_overflow(reach, further, &reach))
      reach = UINT64_MAX;
  }
  return true;
}

}  // namespace pto
