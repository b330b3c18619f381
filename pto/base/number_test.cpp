// SPDX-License-Identifier: Apache-2.0
#include "pto/base/number.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace pto::number_test {

// All numbers of a 16-bit type.
class EachHalf : public ::testing::TestWithParam<DType> {};

TEST_P(EachHalf, number_has_its_bits) {
  const DType dtype = GetParam();
  for (uint64_t bits = 0; bits < 65536; ++bits) {
    const double value = from_bits(dtype, bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(bits_of(dtype, value), bits) << value;
    ASSERT_EQ(round_to(dtype, value), value) << bits;
  }
}

TEST_P(EachHalf, interval_rounds_to_the_nearer_end_and_ties_to_even) {
  const DType dtype = GetParam();
  for (uint64_t bits = 0; std::isfinite(from_bits(dtype, bits + 1)); ++bits) {
    const double low = from_bits(dtype, bits), high = from_bits(dtype, bits + 1);
    const double middle = low + (high - low) / 2;
    ASSERT_EQ(spacing(dtype, low), high - low) << bits;
    ASSERT_EQ(round_to(dtype, middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(round_to(dtype, std::nextafter(middle, 0)), low) << bits;
    ASSERT_EQ(round_to(dtype, -std::nextafter(middle, INFINITY)), -high) << bits;
  }
}

TEST_P(EachHalf, overflow_is_infinite) {
  const DType dtype = GetParam();
  const double top = largest(dtype), half_step = spacing(dtype, top) / 2;
  EXPECT_EQ(round_to(dtype, std::nextafter(top + half_step, 0)), top);
  EXPECT_EQ(round_to(dtype, top + half_step), INFINITY);
  EXPECT_EQ(round_to(dtype, -1e300), -INFINITY);
  EXPECT_TRUE(std::isnan(round_to(dtype, NAN)));
}

INSTANTIATE_TEST_SUITE_P(ElementNumber, EachHalf, ::testing::Values(DType::F16, DType::BF16),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(ElementNumber, bits_of_wide_floats_are_the_machines) {
  for (const double x : {0.0, -0.0, 1.5, -3e-40, 1e38, 0.1, double(INFINITY)}) {
    const auto single = static_cast<float>(x);
    EXPECT_EQ(bits_of(DType::F32, single), std::bit_cast<uint32_t>(single));
    EXPECT_EQ(from_bits(DType::F32, std::bit_cast<uint32_t>(single)), single);
    EXPECT_EQ(bits_of(DType::F64, x), std::bit_cast<uint64_t>(x));
    EXPECT_EQ(from_bits(DType::F64, std::bit_cast<uint64_t>(x)), x);
  }
  EXPECT_EQ(from_bits(DType::F64, bits_of(DType::F64, 5e-324)), 5e-324);
}

TEST(ElementNumber, integers_wrap) {
  EXPECT_EQ(wrap_to(DType::I8, 200), -56);
  EXPECT_EQ(wrap_to(DType::U8, -1), 255);
  EXPECT_EQ(wrap_to(DType::I32, INT64_C(1) << 31), INT32_MIN);
  EXPECT_EQ(wrap_to(DType::Bool, 2), 1);
  EXPECT_EQ(wrap_to(DType::U64, -1), -1);
}

TEST(ElementNumber, floats_become_integers_by_truncation_within_the_range) {
  EXPECT_EQ(truncate_to(DType::I32, -1.9), -1);
  EXPECT_EQ(truncate_to(DType::I32, 1e10), INT32_MAX);
  EXPECT_EQ(truncate_to(DType::I64, -1e30), INT64_MIN);
  EXPECT_EQ(truncate_to(DType::U8, -1), 0);
  EXPECT_EQ(truncate_to(DType::U64, 1e19), static_cast<int64_t>(UINT64_C(10000000000000000000)));
  EXPECT_EQ(truncate_to(DType::U64, 1e30), -1);
  EXPECT_EQ(truncate_to(DType::I32, NAN), 0);
}

}  // namespace pto::number_test
