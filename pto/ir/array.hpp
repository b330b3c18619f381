// SPDX-License-Identifier: Apache-2.0
// Array: a tensor of values, dense and row-major, for the interpreter and tests.
//
//     Array x{DType::F32, {2, 3}};
//     x.reals[4] = 0.5;
//     x.size() == 6;
//
// Invariant: float types fill `reals` (every value is one of the type), the others `integers`
// (bool: 0 or 1; u64 keeps its bits).
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pto/base/dtype.hpp"
#include "pto/ir/element.hpp"

namespace pto {

struct Array {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<double> reals;
  std::vector<int64_t> integers;

  Array() = default;
  Array(DType dtype, std::vector<int64_t> shape);  // zeros

  size_t size() const { return is_float(dtype) ? reals.size() : integers.size(); }
  ElementNumber at(size_t i) const {
    return is_float(dtype) ? ElementNumber{reals[i], 0} : ElementNumber{0, integers[i]};
  }
  void set(size_t i, ElementNumber value);

  // Rounds or wraps every element to the type.
  void normalize();
};

// Convert an element to its bits in memory, in the low bytes, and back.
uint64_t element_bits(DType dtype, ElementNumber value);
ElementNumber element_from_bits(DType dtype, uint64_t bits);

// True for equal types, shapes and values; NaN equals NaN, -0 differs from 0.
bool same_bits(const Array& a, const Array& b);

// Prints "f32[2, 2] {1, -0, nan, 0.5}", at most `limit` elements.
std::string text(const Array& array, size_t limit = 16);

// Returns the place of each element of a dense `shape`, when a step along axis i moves by
// strides[i].
std::vector<size_t> places(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                           int64_t start = 0);

}  // namespace pto
