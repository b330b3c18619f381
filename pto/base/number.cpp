// SPDX-License-Identifier: Apache-2.0
#include "pto/base/number.hpp"

#include <algorithm>
#include <cmath>

namespace pto {
namespace {

// Significand bits (with the hidden one) and exponents of the smallest and largest normal numbers.
struct Format {
  int precision, min_exponent, max_exponent;
};

Format format(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return {11, -14, 15};
    case DType::BF16:
      return {8, -126, 127};
    case DType::F32:
      return {24, -126, 127};
    default:
      return {53, -1022, 1023};
  }
}

// Returns the exponent of the last significand bit of numbers around `value`, which is finite.
int last_bit(const Format& f, double value) {
  const int exponent = value == 0 ? f.min_exponent : std::ilogb(value);
  return std::max(exponent, f.min_exponent) - (f.precision - 1);
}

}  // namespace

double round_to(DType dtype, double value) {
  if (dtype == DType::F64 || value == 0 || !std::isfinite(value)) return value;
  if (dtype == DType::F32) return static_cast<float>(value);
  const Format f = format(dtype);
  const int q = last_bit(f, value);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -q)), q);
  return std::abs(rounded) > largest(dtype) ? std::copysign(INFINITY, value) : rounded;
}

double spacing(DType dtype, double value) {
  if (!std::isfinite(value)) return INFINITY;
  return std::ldexp(1.0, last_bit(format(dtype), value));
}

double largest(DType dtype) {
  const Format f = format(dtype);
  return std::ldexp(2.0 - std::ldexp(1.0, 1 - f.precision), f.max_exponent);
}

uint64_t bits_of(DType dtype, double value) {
  const Format f = format(dtype);
  const int fraction = f.precision - 1;
  const uint64_t sign = std::signbit(value) ? uint64_t(1) << (8 * bytes(dtype) - 1) : 0;
  const uint64_t infinity = static_cast<uint64_t>(2 * f.max_exponent + 1) << fraction;
  if (std::isnan(value)) return infinity | uint64_t(1) << (fraction - 1);
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const int last = last_bit(f, value);
  const auto significand = static_cast<uint64_t>(std::ldexp(std::abs(value), -last));
  // The hidden bit of a normal number adds the missing one to its exponent.
  const auto exponent = static_cast<uint64_t>(last + fraction - f.min_exponent);
  return sign | ((exponent << fraction) + significand);
}

double from_bits(DType dtype, uint64_t bits) {
  const Format f = format(dtype);
  const int fraction = f.precision - 1;
  const uint64_t magnitude = bits & ((uint64_t(1) << (8 * bytes(dtype) - 1)) - 1);
  const auto exponent = static_cast<int>(magnitude >> fraction);
  const uint64_t significand = magnitude & ((uint64_t(1) << fraction) - 1);
  double value = 0;
  if (exponent == 2 * f.max_exponent + 1)
    value = significand == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    value = std::ldexp(static_cast<double>(significand), f.min_exponent - fraction);
  else
    value = std::ldexp(static_cast<double>(significand | uint64_t(1) << fraction),
                       exponent - 1 + f.min_exponent - fraction);
  return bits >> (8 * bytes(dtype) - 1) & 1 ? -value : value;
}

int64_t wrap_to(DType dtype, int64_t value) {
  if (dtype == DType::Bool) return value != 0;
  if (is_float(dtype)) return value;
  const int unused = 64 - 8 * bytes(dtype);
  const uint64_t high = static_cast<uint64_t>(value) << unused;
  return is_signed(dtype) ? static_cast<int64_t>(high) >> unused
                          : static_cast<int64_t>(high >> unused);
}

int64_t lowest_integer(DType dtype) {
  if (!is_signed(dtype)) return 0;
  return INT64_MIN >> (64 - 8 * bytes(dtype));
}

int64_t highest_integer(DType dtype) {
  if (dtype == DType::Bool) return 1;
  if (is_signed(dtype)) return INT64_MAX >> (64 - 8 * bytes(dtype));
  return static_cast<int64_t>(UINT64_MAX >> (64 - 8 * bytes(dtype)));
}

int64_t truncate_to(DType dtype, double value) {
  if (std::isnan(value)) return 0;
  if (dtype == DType::U64) {
    if (value <= 0) return 0;
    return static_cast<int64_t>(value >= 0x1p64 ? UINT64_MAX : static_cast<uint64_t>(value));
  }
  const int64_t low = lowest_integer(dtype), high = highest_integer(dtype);
  if (value <= static_cast<double>(low)) return low;
  return value >= static_cast<double>(high) ? high : static_cast<int64_t>(value);
}

}  // namespace pto
