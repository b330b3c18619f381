// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/number.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "pto/base/error.hpp"

namespace pto::number_test {

using testing::HasSubstr;

constexpr pto_parameter kI8{0, 0, 0, 8}, kI32{0, 0, 0, 32}, kI64{0, 0, 0, 64}, kU32{0, 0, 1, 32},
    kU64{0, 0, 1, 64}, kBool{0, 0, 6, 8}, kF16{0, 0, 2, 16}, kF32{0, 0, 2, 32}, kF64{0, 0, 2, 64},
    kBf16{0, 0, 4, 16};
constexpr pto_parameter kIntegers[] = {kI8, kI32, kI64, kU32, kU64, kBool};
constexpr pto_parameter kReals[] = {kF16, kF32, kF64, kBf16};

ScalarNumber of(int64_t value) { return {uint64_t(value), PTO_NUMBER_SIGNED}; }
ScalarNumber of_unsigned(uint64_t value) { return {value, PTO_NUMBER_UNSIGNED}; }
ScalarNumber of(double value) { return {std::bit_cast<uint64_t>(value), PTO_NUMBER_REAL}; }
ScalarNumber of_bits(uint64_t bits) { return {bits, PTO_NUMBER_BITS}; }

// The value that the parameter gets, or the kind of the error.
struct Got {
  bool is_error;
  ErrorKind kind;
  uint64_t slot;
};
Got got(const pto_parameter& parameter, ScalarNumber number) {
  try {
    return {false, ErrorKind::Value, slot_for(parameter, number, {"k", 0})};
  } catch (const Error& error) {
    return {true, error.kind(), 0};
  }
}
double real(const pto_parameter& parameter, ScalarNumber number) {
  return std::bit_cast<double>(slot_for(parameter, number, {"k", 0}));
}

// Counts the significant bits of the type, by another way than holds_exactly().
bool is_exact(const pto_parameter& type, int64_t value) {
  const int precision = type.type_bits == 64   ? 53
                        : type.type_bits == 32 ? 24
                        : type.type_code == 4  ? 8
                                               : 11;
  const long double size = std::fabs(static_cast<long double>(value));
  if (size > static_cast<long double>(largest_real(type))) return false;
  int exponent = 0;
  const long double fraction = std::ldexp(std::frexp(size, &exponent), precision);
  return fraction == std::floor(fraction);
}

TEST(Numbers, integers_reach_floats_exactly_or_not_at_all) {
  std::mt19937_64 random(1);
  for (const pto_parameter& type : kReals) {
    for (int i = 0; i < 4000; ++i) {
      const auto value = int64_t(random() >> random() % 64) * (i % 2 ? 1 : -1);
      const Got result = got(type, of(value));
      ASSERT_EQ(!result.is_error, is_exact(type, value)) << value << " to " << int(type.type_bits);
      if (result.is_error) {
        EXPECT_EQ(result.kind, ErrorKind::Type);
      } else {
        EXPECT_EQ(static_cast<long double>(std::bit_cast<double>(result.slot)),
                  static_cast<long double>(value));
      }
    }
    EXPECT_EQ(real(type, of(int64_t(0))), 0.0);
  }
  EXPECT_EQ(real(kF64, of(INT64_MIN)), -0x1p63);
  EXPECT_EQ(real(kF32, of_unsigned(uint64_t(1) << 63)), 0x1p63);
  EXPECT_TRUE(got(kF64, of_unsigned(UINT64_MAX)).is_error);
}

TEST(Numbers, integers_reach_integers_that_hold_them) {
  std::mt19937_64 random(2);
  for (const pto_parameter& type : kIntegers) {
    const IntegerRange range = range_of(type);
    for (int i = 0; i < 4000; ++i) {
      const uint64_t bits = random() >> random() % 64;
      const auto value = int64_t(bits);
      const Got as_signed = got(type, of(value)), as_unsigned = got(type, of_unsigned(bits));
      EXPECT_EQ(!as_signed.is_error, value < 0 ? value >= range.least : bits <= range.most);
      EXPECT_EQ(!as_unsigned.is_error, bits <= range.most);
      if (!as_signed.is_error) {
        EXPECT_EQ(as_signed.slot, bits);
      }
    }
  }
}

TEST(Numbers, a_float_reaches_no_integer_and_any_float_that_is_large_enough) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  for (const double value : {0.0, -0.0, 4.0, 0.1, -1e30, 65505.0, 1e39, infinity, -infinity, nan}) {
    for (const pto_parameter& type : kIntegers) {
      const Got result = got(type, of(value));
      EXPECT_TRUE(result.is_error && result.kind == ErrorKind::Type) << value;
    }
    for (const pto_parameter& type : kReals) {
      const Got result = got(type, of(value));
      EXPECT_EQ(result.is_error, std::isfinite(value) && std::fabs(value) > largest_real(type));
      if (result.is_error) {
        EXPECT_EQ(result.kind, ErrorKind::Value);
      } else {
        EXPECT_EQ(result.slot, std::bit_cast<uint64_t>(value));
      }
    }
  }
}

TEST(Numbers, bits_are_a_float32s_or_a_float64s_to_a_float_and_an_integer_to_an_integer) {
  for (const float value : {0.0f, -0.0f, 1.5f, -3e38f, 1e-45f}) {
    EXPECT_EQ(real(kF32, of_bits(std::bit_cast<uint32_t>(value))), double(value));
    EXPECT_EQ(real(kF64, of_bits(std::bit_cast<uint32_t>(value))), double(value));
  }
  EXPECT_EQ(real(kF64, of_bits(std::bit_cast<uint64_t>(0.1))), 0.1);
  EXPECT_TRUE(got(kF32, of_bits(std::bit_cast<uint64_t>(1e300))).is_error);
  EXPECT_EQ(got(kI32, of_bits(7)).slot, 7u);
  EXPECT_EQ(got(kI64, of_bits(uint64_t(-7))).slot, uint64_t(-7));
  EXPECT_EQ(got(kU64, of_bits(UINT64_MAX)).slot, UINT64_MAX);
  EXPECT_TRUE(got(kU32, of_bits(uint64_t(1) << 32)).is_error);
}

TEST(Numbers, without_a_kind_are_as_the_kernel_takes_them) {
  for (const pto_parameter& type : kIntegers)
    EXPECT_EQ(got(type, {UINT64_MAX, PTO_NUMBER_ANY}).slot, UINT64_MAX);
  EXPECT_EQ(got(kF32, {1, PTO_NUMBER_ANY}).slot, 1u);
}

TEST(Numbers, say_what_and_why_and_how_to_mend_it) {
  try {
    slot_for(kI64, of(4.0), {"fill", 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("fill: scalar 2 is 4 (float64), its parameter is i64"));
    EXPECT_THAT(error.what(), HasSubstr("why: a floating-point number is not converted"));
    EXPECT_THAT(error.what(), HasSubstr("fix: pass an integer"));
  }
}

TEST(Numbers, kernels_are_known_while_they_are_exported) {
  const pto_kernel kernel = [](const pto_args*) { return 0; };
  const pto_parameter parameters[] = {{1, 0, 2, 32}, kF32, {1, 1, 2, 32}, kI64};
  const pto_signature signature{"k", parameters, 4};
  EXPECT_FALSE(exported_numbers(kernel).has_value());
  pto_export_kernel(kernel, &signature);
  const auto known = exported_numbers(kernel);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->size(), 2u);
  pto_export_kernel(kernel, nullptr);
  EXPECT_FALSE(exported_numbers(kernel).has_value());
}

}  // namespace pto::number_test
