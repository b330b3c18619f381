// SPDX-License-Identifier: Apache-2.0
// Memory owns memory of one call; Range says which addresses a tensor's elements take.
//
//     Memory copy("gelu", bytes);                         // pto_malloc, freed with its owner
//     const bool is_shared = overlap(range_of(x), range_of(y));
//
// Invariant: an empty tensor has an empty range, which overlaps nothing.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "pto/abi/host.h"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/launch/program.hpp"

namespace pto {

// Owns a block of pto_malloc(); throws Error if there is none.
class Memory {
 public:
  Memory(const char* op, int64_t bytes) : data_(pto_malloc(static_cast<size_t>(bytes))) {
    if (data_) return;
    fail({std::string(op) + ": no memory for a copy of " + std::to_string(bytes) + " bytes",
          "the host could not allocate it", "use smaller tensors or free memory"},
         ErrorKind::Runtime);
  }
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  ~Memory() { pto_free(data_); }
  void* data() const { return data_; }

 private:
  void* data_;
};

// The addresses that a tensor's elements may take: [first, end).
struct Range {
  uintptr_t first = 0, end = 0;
  friend bool overlap(const Range& a, const Range& b) { return a.first < b.end && b.first < a.end; }
};

inline Range range_of(const TensorArgument& tensor) {
  int64_t low = 0, high = bytes(tensor.dtype);
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.sizes[axis] == 0) return {};
    const int64_t reach = (tensor.sizes[axis] - 1) * tensor.strides[axis] * bytes(tensor.dtype);
    (reach < 0 ? low : high) += reach;
  }
  const auto data = reinterpret_cast<uintptr_t>(tensor.data);
  return {data + static_cast<uintptr_t>(low), data + static_cast<uintptr_t>(high)};
}

}  // namespace pto
