// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/plain_sizes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pto {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Makes the shapes s0, 3 and `op` of both.
pto_shapes shapes_of(pto_dim (&dims)[3], int32_t op) {
  dims[0] = {PTO_DIM_SYMBOL, 0, 0, 0};
  dims[1] = {PTO_DIM_CONSTANT, 0, 0, 3};
  dims[2] = {op, 0, 1, 0};
  return {1, 3, 0, 0, dims, nullptr, nullptr, nullptr};
}

TEST(PlainSizes, have_a_value_or_a_text_with_expression_and_operands) {
  pto_dim dims[3];
  int64_t size = 0;
  EXPECT_EQ(evaluate_size(shapes_of(dims, PTO_DIM_FLOORDIV), 2, -7, 3, &size), "");
  EXPECT_EQ(size, -3);
  EXPECT_EQ(evaluate_size(shapes_of(dims, PTO_DIM_MOD), 2, INT64_MIN, 3, &size), "");
  EXPECT_EQ(size, 1);
  EXPECT_THAT(evaluate_size(shapes_of(dims, PTO_DIM_MUL), 2, INT64_MAX, 3, &size),
              AllOf(HasSubstr("the size (s0 * 3) leaves 64 bits"),
                    HasSubstr("its operands are 9223372036854775807 and 3")));
  EXPECT_THAT(evaluate_size(shapes_of(dims, PTO_DIM_ADD), 2, INT64_MAX, 3, &size),
              HasSubstr("the size (s0 + 3) leaves 64 bits"));
  for (const int32_t op : {PTO_DIM_FLOORDIV, PTO_DIM_MOD})
    EXPECT_THAT(evaluate_size(shapes_of(dims, op), 2, 6, 0, &size),
                HasSubstr("divides by zero: its operands are 6 and 0"));
  EXPECT_THAT(evaluate_size(shapes_of(dims, PTO_DIM_BROADCAST), 2, 2, 3, &size),
              HasSubstr("the size broadcast(s0, 3) does not broadcast"));
}

}  // namespace
}  // namespace pto
