// SPDX-License-Identifier: Apache-2.0
// Law: a position along joined axes names the row that it names in a reshape.
#include "pto/launch/joined_axes.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace pto::joined_axes_test {

struct Case {
  const char* name;
  std::vector<int64_t> sizes, strides;
  int axis, count;
  bool is_dense;
};

class EachLayout : public ::testing::TestWithParam<Case> {};

TEST_P(EachLayout, names_the_row_of_a_reshape) {
  const auto& [name, sizes, strides, axis, count, is_dense] = GetParam();
  const auto rank = static_cast<int32_t>(sizes.size());
  std::vector<float> memory(4096);
  float* const front = memory.data() + 2048;
  const pto_tensor x{front, sizes.data(), strides.data(), rank, 2, 32, 1, 0, -1};
  const JoinedAxes joined(x, axis, count);
  const pto_tensor one = joined.tensor();
  EXPECT_EQ(joined.is_dense(), is_dense);
  EXPECT_EQ(one.rank, rank - count + 1);
  int64_t size = 1;
  for (int d = axis; d < axis + count; ++d) size *= sizes[size_t(d)];
  ASSERT_EQ(one.sizes[axis], size);
  for (int d = axis + count; d < rank; ++d) {
    EXPECT_EQ(one.sizes[d - count + 1], sizes[size_t(d)]);
    EXPECT_EQ(one.strides[d - count + 1], strides[size_t(d)]);
  }
  for (int64_t position = 0; position < size; ++position) {
    const float* row = front;
    int64_t rest = position;
    for (int d = axis + count - 1; d >= axis; rest /= sizes[size_t(d--)])
      row += rest % sizes[size_t(d)] * strides[size_t(d)];
    const int64_t place = is_dense ? position : joined.distance(position);
    EXPECT_GE(place, 0);
    EXPECT_EQ(static_cast<const float*>(one.data) + place * one.strides[axis], row) << position;
  }
}

INSTANTIATE_TEST_SUITE_P(
    JoinedAxes, EachLayout,
    ::testing::Values(Case{"dense", {4, 3, 8}, {24, 8, 1}, 0, 2, true},
                      Case{"one_axis", {4, 3, 8}, {50, 8, 1}, 0, 1, true},
                      Case{"gaps_between_rows", {4, 3, 8}, {30, 10, 1}, 0, 2, true},
                      Case{"gaps_between_pages", {4, 3, 8}, {48, 8, 1}, 0, 2, false},
                      Case{"pages_backwards", {4, 3, 8}, {-48, 8, 1}, 0, 2, false},
                      Case{"all_backwards", {4, 3, 8}, {-48, -8, -1}, 0, 2, false},
                      Case{"behind_a_batch", {2, 4, 3, 8}, {200, 48, 8, 1}, 1, 2, false},
                      Case{"three_axes", {4, 3, 2, 5}, {60, 20, 5, 1}, 0, 3, false},
                      Case{"vector", {4, 3}, {7, 2}, 0, 2, false}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace pto::joined_axes_test
