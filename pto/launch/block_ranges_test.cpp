// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/block_ranges.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace pto::block_ranges_test {

TEST(BlockRanges, each_block_is_taken_once) {
  for (const int32_t blocks : {1, 2, 3, 16, 17, 1000})
    for (const int threads : {1, 2, 3, 8, 40}) {
      BlockRanges ranges;
      ranges.reset(blocks, threads);
      std::vector<std::atomic<int>> times(static_cast<size_t>(blocks));
      std::vector<std::thread> all;
      for (int thread = 0; thread < threads; ++thread)
        all.emplace_back([&, thread] {
          for (int32_t b = ranges.take(thread); b >= 0; b = ranges.take(thread))
            ++times[static_cast<size_t>(b)];
        });
      for (std::thread& one : all) one.join();
      EXPECT_TRUE(std::ranges::all_of(times, [](const auto& n) { return n == 1; }))
          << blocks << " blocks, " << threads << " threads";
    }
}

TEST(BlockRanges, a_thread_takes_its_own_range_first_then_what_is_left) {
  BlockRanges ranges;
  ranges.reset(10, 3);  // 0 1 2, 3 4 5, 6 7 8 9
  EXPECT_EQ(ranges.take(2), 6);
  std::vector<int32_t> taken;
  for (int32_t b = ranges.take(1); b >= 0; b = ranges.take(1)) taken.push_back(b);
  EXPECT_EQ(taken, (std::vector<int32_t>{3, 4, 5, 7, 8, 9, 0, 1, 2}));
}

TEST(BlockRanges, a_block_is_of_the_range_that_hands_it_out) {
  for (const int32_t blocks : {1, 5, 10, 33, 1000})
    for (const int threads : {1, 3, 7, 16}) {
      BlockRanges ranges;
      ranges.reset(blocks, threads);
      for (int range = 0; range < std::min({blocks, threads, 16}); ++range)
        EXPECT_EQ(ranges.range_of(ranges.take(range)), range) << blocks << " " << threads;
    }
}

TEST(BlockRanges, none_is_left_after_a_stop) {
  BlockRanges ranges;
  ranges.reset(10, 3);
  EXPECT_EQ(ranges.take(0), 0);
  ranges.stop();
  for (int range = 0; range < 3; ++range) EXPECT_EQ(ranges.take(range), -1);
  ranges.reset(2, 8);
  EXPECT_EQ(ranges.take(7), 1);
}

}  // namespace pto::block_ranges_test
