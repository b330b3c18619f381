// SPDX-License-Identifier: Apache-2.0
// Positions of maxima and minima against a scan from the front, with ties, NaN and infinities.
#include "pto/isa/reduce/arg_reduce.hpp"

#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::arg_reduce_test {
using namespace isa;

template <class T>
using Block = Tile<TileType::Vec, T, 4, 96, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <class T>
using Column = Tile<TileType::Vec, T, 32, 1, BLayout::ColMajor, DYNAMIC, 1>;
template <class T>
using Row = Tile<TileType::Vec, T, 1, 96, BLayout::RowMajor, 1, DYNAMIC>;

// Returns the first position of the best of n elements.
template <class T, class At>
int best_of(int n, bool greatest, At at) {
  int best = 0;
  for (int i = 1; i < n; ++i) {
    const Wide<T> a = wide(at(i)), b = wide(at(best));
    const bool is_nan = a != a && b == b;
    if (is_nan || (b == b && (greatest ? a > b : a < b))) best = i;
  }
  return best;
}

// Fills with few different values, -infinity everywhere, or the awkward numbers with NaN.
template <class T>
void fill_kind(Block<T>& s, int kind) {
  fill(s, unsigned(kind));
  for (int i = 0; i < s.Numel && kind % 3 != 2; ++i)
    s.SetValue(i, kind % 3 == 0 ? T(float(i * 7 % 11)) : T(lowest<Compute<T>>()));
}

template <class T, class I>
void check_rows(const Block<T>& s, bool greatest) {
  const int rows = s.GetValidRow();
  auto index = shaped<Column<I>>(rows, 1);
  auto value = shaped<Column<T>>(rows, 1);
  for (int i = 0; i < 32; ++i) index.SetValue(i, I(77)), value.SetValue(i, T(7));
  Column<I> alone = index;
  if (greatest)
    TROWARGMAX(value, index, s, s), TROWARGMAX(alone, s, s);
  else
    TROWARGMIN(value, index, s, s), TROWARGMIN(alone, s, s);
  for (int r = 0; r < 32; ++r) {
    if (r >= rows) {
      ASSERT_EQ(int(index.GetValue(r)), 77) << "outside";
      continue;
    }
    const int want =
        best_of<T>(s.GetValidCol(), greatest, [&](int c) { return s.GetElement(r, c); });
    ASSERT_EQ(int(index.GetValue(r)), want) << "row " << r << " of " << s.GetValidCol();
    ASSERT_EQ(int(alone.GetValue(r)), want);
    ASSERT_TRUE(close<T>(value.GetValue(r), wide(s.GetElement(r, want)), 0));
  }
}

template <class T, class I>
void check_cols(const Block<T>& s, bool greatest) {
  const int cols = s.GetValidCol();
  Row<I> index(cols);
  Row<T> value(cols);
  for (int i = 0; i < 96; ++i) index.SetValue(i, I(77)), value.SetValue(i, T(7));
  Row<I> alone = index;
  if (greatest)
    TCOLARGMAX(value, index, s, s), TCOLARGMAX(alone, s, s);
  else
    TCOLARGMIN(value, index, s, s), TCOLARGMIN(alone, s, s);
  for (int c = 0; c < 96; ++c) {
    if (c >= cols) {
      ASSERT_EQ(int(index.GetValue(c)), 77) << "outside";
      ASSERT_EQ(float(value.GetValue(c)), 7) << "outside";
      continue;
    }
    const int want =
        best_of<T>(s.GetValidRow(), greatest, [&](int r) { return s.GetElement(r, c); });
    ASSERT_EQ(int(index.GetValue(c)), want) << "column " << c << " of " << s.GetValidRow();
    ASSERT_EQ(int(alone.GetValue(c)), want);
    ASSERT_TRUE(close<T>(value.GetValue(c), wide(s.GetElement(want, c)), 0));
  }
}

template <class T, class I>
void check() {
  int kind = 0;
  for (int cols : {1, 3, 16, 37, 95, 96}) {
    auto s = shaped<Block<T>>(kind % 4 + 1, cols);
    fill_kind(s, kind++);
    check_rows<T, I>(s, kind % 2 == 0);
    check_rows<T, I>(s, kind % 2 != 0);
    check_cols<T, I>(s, kind % 2 == 0);
    check_cols<T, I>(s, kind % 2 != 0);
  }
}

TEST(ArgReduce, finds_the_first_best_element_and_nan_before_all) {
  check<float, int32_t>();
  check<float, uint32_t>();
  check<half, int32_t>();
  check<half, uint32_t>();
  check<bfloat16_t, uint32_t>();
  check<int32_t, int32_t>();
  check<uint32_t, uint32_t>();
  check<int16_t, int32_t>();
  check<uint16_t, uint32_t>();
  check<int8_t, int32_t>();
  check<uint8_t, uint32_t>();
}

TEST(ArgReduce, of_nothing_is_position_zero) {
  auto s = shaped<Block<float>>(2, 0);
  auto index = shaped<Column<int32_t>>(2, 1);
  auto value = shaped<Column<float>>(2, 1);
  TROWARGMAX(value, index, s, s);
  EXPECT_EQ(index.GetValue(1), 0);
  EXPECT_EQ(value.GetValue(1), -INFINITY);
  auto none = shaped<Block<float>>(0, 3);
  Row<int32_t> across(3);
  TCOLARGMIN(across, none, none);
  EXPECT_EQ(across.GetValue(2), 0);
}

}  // namespace pto::arg_reduce_test
