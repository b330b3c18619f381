// SPDX-License-Identifier: Apache-2.0
#include "pto/base/counterexample.hpp"

#include <algorithm>
#include <charconv>
#include <compare>
#include <cstring>
#include <span>
#include <vector>

#include "pto/base/number.hpp"
#include "pto/base/text.hpp"

namespace pto {
namespace {

struct Comparison {
  std::string_view name, sign;
  bool (*holds)(std::partial_ordering);
};

constexpr Comparison kComparisons[] = {{"lt", " < ", std::is_lt},  {"le", " <= ", std::is_lteq},
                                       {"gt", " > ", std::is_gt},  {"ge", " >= ", std::is_gteq},
                                       {"eq", " == ", std::is_eq}, {"ne", " != ", std::is_neq}};

struct Element {
  DType dtype;
  double real;
  int64_t integer;

  double as_real() const {
    if (is_float(dtype)) return real;
    return dtype == DType::U64 ? static_cast<double>(static_cast<uint64_t>(integer))
                               : static_cast<double>(integer);
  }
};

// The element at a place of a shape to which the tensor broadcasts.
Element element(const pto_tensor& x, std::span<const int64_t> at) {
  const DType dtype = *from_dlpack(x.type_code, x.type_bits);
  int64_t place = 0;
  for (int axis = 0; axis < x.rank; ++axis)
    if (x.sizes[axis] != 1)
      place += x.strides[axis] * at[at.size() - static_cast<size_t>(x.rank - axis)];
  uint64_t bits = 0;
  const auto size = static_cast<size_t>(bytes(dtype));
  std::memcpy(&bits, static_cast<const char*>(x.data) + place * bytes(dtype), size);
  if (is_float(dtype)) return {dtype, from_bits(dtype, bits), 0};
  return {dtype, 0, wrap_to(dtype, static_cast<int64_t>(bits))};
}

std::partial_ordering compare(const Element& a, const Element& b) {
  if (is_float(a.dtype) || is_float(b.dtype)) return a.as_real() <=> b.as_real();
  if (a.dtype == DType::U64 && b.dtype == DType::U64)
    return static_cast<uint64_t>(a.integer) <=> static_cast<uint64_t>(b.integer);
  return a.integer <=> b.integer;
}

std::string shown(const Element& x) {
  if (x.dtype == DType::Bool) return x.integer != 0 ? "True" : "False";
  if (x.dtype == DType::U64) return std::to_string(static_cast<uint64_t>(x.integer));
  if (!is_float(x.dtype)) return text(x.integer);
  if (x.dtype == DType::F64 || x.real != x.real) return text(x.real);
  char digits[24];  // the fewest that are this float
  return {digits, std::to_chars(digits, digits + sizeof digits, static_cast<float>(x.real)).ptr};
}

// The sizes to which two sides broadcast; one is 0 where they do not.
std::vector<int64_t> broadcast_sizes(const pto_tensor& a, const pto_tensor& b) {
  std::vector<int64_t> sizes(static_cast<size_t>(std::max(a.rank, b.rank)), 1);
  for (const pto_tensor* x : {&a, &b})
    for (int axis = 0; axis < x->rank; ++axis) {
      int64_t& size = sizes[sizes.size() - static_cast<size_t>(x->rank - axis)];
      if (size == 1 || x->sizes[axis] == 1)
        size *= x->sizes[axis];
      else if (size != x->sizes[axis])
        size = 0;
    }
  return sizes;
}

// Moves to the next place in row-major order; false behind the last one.
bool next_place(std::span<const int64_t> sizes, std::span<int64_t> at) {
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (++at[axis] < sizes[axis]) return true;
    at[axis] = 0;
  }
  return false;
}

std::string first_false(const Comparison& comparison, const pto_tensor& a, const pto_tensor& b) {
  const std::vector<int64_t> sizes = broadcast_sizes(a, b);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return "";
  std::vector<int64_t> at(sizes.size());
  do {
    const Element x = element(a, at), y = element(b, at);
    if (comparison.holds(compare(x, y))) continue;
    return shown(x) + std::string(comparison.sign) + shown(y) + " is false" +
           (at.empty() ? "" : " at " + text(at));
  } while (next_place(sizes, at));
  return "";
}

}  // namespace

std::string counterexample(std::string_view comparisons, const pto_tensor* sides) {
  for (; !comparisons.empty(); sides += 2) {
    const std::string_view name = comparisons.substr(0, comparisons.find(' '));
    comparisons.remove_prefix(std::min(comparisons.size(), name.size() + 1));
    for (const Comparison& one : kComparisons)
      if (one.name == name)
        if (std::string found = first_false(one, sides[0], sides[1]); !found.empty()) return found;
  }
  return "";
}

}  // namespace pto
