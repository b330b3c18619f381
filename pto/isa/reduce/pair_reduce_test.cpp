// SPDX-License-Identifier: Apache-2.0
// Sums of neighbours over valid regions, and the orders that reductions name.
#define PTO_REDUCTION_ORDER_SEQUENTIAL
#include "pto/isa/reduce/pair_reduce.hpp"

#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::pair_reduce_test {
using namespace isa;

template <class T>
void check_pairs() {
  using Block = Tile<TileType::Vec, T, 4, 96, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  for (int cols : {0, 1, 2, 15, 31, 32, 33, 63, 64, 65, 95, 96}) {
    const int rows = cols % 5 < 4 ? cols % 5 + 1 : 4;
    auto s = shaped<Block>(rows, cols), d = s;
    for (int i = 0; i < s.Numel; ++i) s.SetValue(i, T(float(i % 37) / 4)), d.SetValue(i, T(9.f));
    TPAIRREDUCESUM(d, s);
    const auto old = s;
    TPAIRREDUCESUM(s, s);
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 96; ++c) {
        float want = 0;
        if (r < rows && 2 * c < cols) want = float(old.GetElement(r, 2 * c));
        if (r < rows && 2 * c + 1 < cols) want += float(old.GetElement(r, 2 * c + 1));
        ASSERT_EQ(float(d.GetElement(r, c)), float(T(want))) << cols << " at " << r << "," << c;
        ASSERT_EQ(float(s.GetElement(r, c)), float(T(want))) << "in place";
      }
  }
}

TEST(PairReduce, adds_neighbours_and_clears_the_rest_of_the_tile) {
  check_pairs<float>();
  check_pairs<half>();
  check_pairs<bfloat16_t>();
  check_pairs<int8_t>();
  check_pairs<uint8_t>();
  check_pairs<int16_t>();
  check_pairs<uint16_t>();
  check_pairs<int32_t>();
  check_pairs<uint32_t>();
  check_pairs<int64_t>();
  check_pairs<uint64_t>();
}

TEST(PairReduce, sums_of_integers_wrap) {
  Tile<TileType::Vec, int16_t, 1, 16> s, d;
  for (int i = 0; i < 16; ++i) s.SetValue(i, int16_t(i % 2 ? 32767 : i));
  TPAIRREDUCESUM(d, s);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(d.GetValue(i), int16_t(i ? 2 * i - 32769 : 32767)) << i;
}

template <class T>
void check_colsum() {
  Tile<TileType::Vec, T, 4, 32, BLayout::RowMajor, 3, 20> s, tmp;
  Tile<TileType::Vec, T, 1, 32, BLayout::RowMajor, 1, 20> d, want;
  for (int i = 0; i < s.Numel; ++i) s.SetValue(i, T(float(i % 5)));
  for (const bool is_binary : {false, true}) {
    TCOLSUM(d, s, tmp, is_binary);
    TCOLSUM(want, s);
    for (int c = 0; c < 20; ++c) ASSERT_EQ(d.GetValue(c), want.GetValue(c)) << c;
  }
}

TEST(PairReduce, column_sums_name_an_order_and_do_not_depend_on_it) {
  check_colsum<float>();
  check_colsum<half>();
  check_colsum<bfloat16_t>();
  check_colsum<int8_t>();
  check_colsum<uint8_t>();
  check_colsum<int16_t>();
  check_colsum<uint16_t>();
  check_colsum<int32_t>();
  check_colsum<uint32_t>();
  check_colsum<int64_t>();
  check_colsum<uint64_t>();
}

TEST(Sequential, sums_run_from_the_left_bit_for_bit) {
  Tile<TileType::Vec, float, 2, 96, BLayout::RowMajor, 2, 90> s;
  Tile<TileType::Vec, float, 8, 1, BLayout::ColMajor, 2, 1> d;
  for (int i = 0; i < s.Numel; ++i) s.SetValue(i, 1.f / float(i * 7 % 101 + 1) - 0.02f);
  TROWSUM(d, s, s);
  for (int r = 0; r < 2; ++r) {
    float total = 0;
    for (int c = 0; c < 90; ++c) total += s.GetElement(r, c);
    EXPECT_EQ(d.GetValue(r), total);
  }
}

}  // namespace pto::pair_reduce_test
