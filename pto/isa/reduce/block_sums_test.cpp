// SPDX-License-Identifier: Apache-2.0
// Law: a long sum keeps the error that block_sums.hpp states, whatever its length.
#include "pto/isa/reduce/block_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/deep.hpp"

namespace pto::block_sums_test {

using isa::BlockSums;
using isa::kBlockSteps;
using isa::RunningSum;

double bound(double n, double u) {
  return (4 * static_cast<double>(kBlockSteps) + 2 * std::log2(n)) * u;
}

TEST(RunningSum, of_ones_counts_beyond_the_integers_of_its_type) {
  for (int64_t n : {int64_t(0), int64_t(1), kBlockSteps, kBlockSteps + 1, int64_t(1) << 25,
                    (int64_t(1) << 26) + 128}) {
    RunningSum<float> sum;
    for (int64_t i = 0; i < n; ++i) sum.add(1);
    EXPECT_EQ(sum.total(), static_cast<float>(n));
  }
}

TEST(RunningSum, of_random_numbers_is_within_its_bound) {
  uint32_t state = 1;
  RunningSum<float> sum;
  RunningSum<double> wide;
  long double exact = 0, sizes = 0;
  const int count = rounds_of(3000000, 100000000);
  for (int n = 1; n <= count; ++n) {
    state = state * 1664525u + 1013904223u;
    const float x = static_cast<float>(state >> 8) * 0x1p-24f - (state & 64 ? 0.25f : 0.5f);
    sum.add(x), wide.add(x), exact += x, sizes += std::fabs(x);
    if (n % 77777 != 0 && n > 1000) continue;
    const auto size = static_cast<double>(sizes);
    ASSERT_LE(std::fabs(static_cast<double>(sum.total() - exact)), bound(n, 0x1p-24) * size) << n;
    ASSERT_LE(std::fabs(static_cast<double>(wide.total() - exact)), bound(n, 0x1p-53) * size) << n;
  }
}

TEST(BlockSums, add_each_lane_by_itself) {
  constexpr int kLanes = 16;
  BlockSums<float, kLanes> sums;
  EXPECT_FALSE(sums.any());
  const int blocks = 3 * 128 * 128 + 77;
  float block[kLanes], last[kLanes];
  for (int i = 0; i < kLanes; ++i) block[i] = static_cast<float>(i), last[i] = 0.5f;
  for (int b = 0; b < blocks; ++b) sums.add(block);
  sums.add_all_to(last);
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(last[i], static_cast<float>(blocks * i) + 0.5f);
}

}  // namespace pto::block_sums_test
