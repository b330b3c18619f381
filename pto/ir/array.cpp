// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/array.hpp"

#include <algorithm>
#include <cmath>

#include "pto/base/number.hpp"
#include "pto/base/text.hpp"

namespace pto {

Array::Array(DType dtype, std::vector<int64_t> sizes) : dtype(dtype), shape(std::move(sizes)) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  if (is_float(dtype))
    reals.resize(count);
  else
    integers.resize(count);
}

void Array::set(size_t i, ElementNumber value) {
  if (is_float(dtype))
    reals[i] = value.real;
  else
    integers[i] = value.integer;
}

void Array::normalize() {
  for (double& value : reals) value = round_to(dtype, value);
  for (int64_t& value : integers) value = wrap_to(dtype, value);
}

uint64_t element_bits(DType dtype, ElementNumber value) {
  return is_float(dtype) ? bits_of(dtype, value.real) : static_cast<uint64_t>(value.integer);
}

ElementNumber element_from_bits(DType dtype, uint64_t bits) {
  if (is_float(dtype)) return {from_bits(dtype, bits), 0};
  return {0, wrap_to(dtype, static_cast<int64_t>(bits))};
}

bool same_bits(const Array& a, const Array& b) {
  const auto same = [](double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
  };
  return a.dtype == b.dtype && a.shape == b.shape && a.integers == b.integers &&
         std::equal(a.reals.begin(), a.reals.end(), b.reals.begin(), b.reals.end(), same);
}

std::string text(const Array& array, size_t limit) {
  std::vector<std::string> values;
  for (size_t i = 0; i < std::min(limit, array.size()); ++i)
    values.push_back(is_float(array.dtype) ? text(array.reals[i]) : text(array.integers[i]));
  if (array.size() > limit) values.emplace_back("...");
  const auto self = [](const std::string& s) { return s; };
  return std::string(name(array.dtype)) + "[" +
         joined(array.shape, ", ", [](int64_t n) { return text(n); }) + "] {" +
         joined(values, ", ", self) + "}";
}

std::vector<size_t> places(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                           int64_t start) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return {};
  std::vector<size_t> all{static_cast<size_t>(start)};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<size_t> next;
    next.reserve(all.size() * static_cast<size_t>(shape[axis]));
    for (const size_t base : all)
      for (int64_t i = 0; i < shape[axis]; ++i)
        next.push_back(static_cast<size_t>(static_cast<int64_t>(base) + i * strides[axis]));
    all = std::move(next);
  }
  return all;
}

}  // namespace pto
