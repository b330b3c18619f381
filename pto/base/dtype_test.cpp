// SPDX-License-Identifier: Apache-2.0
#include "pto/base/dtype.hpp"

#include <gtest/gtest.h>

namespace pto::dtype_test {

TEST(DType, names_and_dlpack_types_read_back) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    const DLPackType type = dlpack_type(dtype);
    EXPECT_EQ(from_dlpack(type.code, type.bits), dtype);
    EXPECT_EQ(type.bits, 8 * bytes(dtype));
  }
}

TEST(FrameworkTypes, map_both_ways) {
  constexpr FrameworkTypes kTypes(11, 1, 2, 3, 4, 0, 27, 28, 29, 5, 15, 6, 7);
  int found = 0;
  for (int32_t number = -2; number < 200; ++number) {
    const int32_t ours = kTypes.ours(number);
    if (ours < 0) continue;
    EXPECT_EQ(kTypes.theirs(ours), number);
    ++found;
  }
  EXPECT_EQ(found, kDTypes);
}

TEST(DType, unknown_ones_are_nothing) {
  EXPECT_FALSE(parse_dtype("float32"));
  EXPECT_FALSE(from_dlpack(2, 128));
  EXPECT_FALSE(from_dlpack(2, 32, 4)) << "vectors are no elements";
}

TEST(DType, is_a_float_an_integer_or_bool) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(is_float(dtype) + is_integer(dtype) + (dtype == DType::Bool), 1) << name(dtype);
  }
  EXPECT_TRUE(is_signed(DType::BF16));
  EXPECT_FALSE(is_signed(DType::U8));
  EXPECT_EQ(cpp_name(DType::BF16), "bfloat16_t");
}

}  // namespace pto::dtype_test
