// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/signature.hpp"

#include "pto/abi/limits.h"
#include "pto/base/strided.hpp"

namespace pto {
namespace {

// One word: bits 0-3 dtype, 4-7 rank, 8-9 stride class, 16-23 the sizes that are 1.
constexpr uint32_t kRankShift = 4, kStrideShift = 8, kOnesShift = 16;

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

}  // namespace

StrideClass stride_class(const int64_t* sizes, const int64_t* strides, int rank) {
  if (is_contiguous(rank, sizes, strides)) return StrideClass::Contiguous;
  const bool rows = sizes[rank - 1] == 1 || strides[rank - 1] == 1;
  return rows ? StrideClass::Rows : StrideClass::Any;
}

void Signature::add(const pto_tensor_ref& tensor) {
  if (count == PTO_MAX_TENSORS) {
    fail({"more than " + std::to_string(PTO_MAX_TENSORS) + " tensor arguments",
          "a kernel takes at most that many", "split the function, or stack some of its tensors"});
  }
  if (tensor.rank > PTO_MAX_RANK) {
    fail({"tensor argument " + std::to_string(count) + " has " + std::to_string(tensor.rank) +
              " dimensions",
          "a kernel's tensors have at most " + std::to_string(PTO_MAX_RANK),
          "reshape it to fewer dimensions"});
  }
  const TensorClass about = class_of(tensor);
  words[count++] = static_cast<uint32_t>(about.dtype) |
                   static_cast<uint32_t>(about.rank) << kRankShift |
                   static_cast<uint32_t>(about.strides) << kStrideShift | about.ones << kOnesShift;
}

TensorClass class_of(const pto_tensor_ref& tensor) {
  uint32_t ones = 0;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    ones |= static_cast<uint32_t>(tensor.sizes[axis] == 1) << axis;
  }
  return {dtype_of(tensor), tensor.rank, stride_class(tensor.sizes, tensor.strides, tensor.rank),
          ones};
}

size_t Signature::hash() const {
  uint64_t hash = mixed(attributes, count);
  for (uint32_t i = 0; i < count; ++i) hash = mixed(hash, words[i]);
  return hash;
}

TensorClass tensor_class(uint32_t word) {
  return {static_cast<DType>(word & 0xf), static_cast<int>(word >> kRankShift & 0xf),
          static_cast<StrideClass>(word >> kStrideShift & 3), word >> kOnesShift & 0xff};
}

Dims TensorClass::symbolic_shape(int* next_symbol) const {
  Dims shape;
  for (int axis = 0; axis < rank; ++axis) {
    shape.push_back((ones >> axis & 1) != 0 ? Dim(1) : Dim::symbol((*next_symbol)++));
  }
  return shape;
}

}  // namespace pto
