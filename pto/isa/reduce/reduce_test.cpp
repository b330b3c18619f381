// SPDX-License-Identifier: Apache-2.0
// Reductions over types and valid regions against one element at a time.
#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::reduce_test {

template <class T>
using Block = Tile<TileType::Vec, T, 37, 96, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <class T>
using Column = Tile<TileType::Vec, T, 64, 1, BLayout::ColMajor, DYNAMIC, 1>;
template <class T>
using Row = Tile<TileType::Vec, T, 1, 96, BLayout::RowMajor, 1, DYNAMIC>;
template <class T>
using Line = MicroTile<T, 8 * kLanes<T>>;
template <class T>
using Value = MicroTile<T, kLanes<T>, 1>;

// Fills with small numbers, so that sums and products of a line are exact in every accumulator.
template <class D>
void fill_small(D& tile, unsigned seed) {
  for (int i = 0; i < D::Numel; ++i) {
    const unsigned n = (unsigned(i) * 2654435761u + seed * 40503u) >> 13;
    tile.SetValue(i, typename D::DType(float(n % 31 == 0 ? 2 : n % 3 == 0 ? 1 : n % 2)));
  }
}

template <class T>
double ulps() {
  return kIsFloat<T> ? 1 : 0;
}

// Checks one reduction on every shape; Scalar is the row's value, `start` its neutral element.
template <class T, class Scalar, class RowCall, class ColCall>
void check_reduction(const char* name, Wide<T> start, RowCall by_row, ColCall by_col) {
  const auto folded = [&](const auto& s, int row, int col) {
    Wide<T> total = start;
    const int n = row >= 0 ? s.GetValidCol() : s.GetValidRow();
    for (int i = 0; i < n; ++i)
      total = Scalar::of(total, wide(row >= 0 ? s.GetElement(row, i) : s.GetElement(i, col)));
    return total;
  };
  for (int cols : {1, 3, 16, 37, 95, 96})
    for (int rows : {1, 5, 16, 37}) {
      auto s = shaped<Block<T>>(rows, cols);
      fill_small(s, unsigned(cols));
      auto column = shaped<Column<T>>(rows, 1);
      fill(column, 1);
      const auto column_before = column;
      by_row(column, s, s);
      ASSERT_EQ(
          differs(column, column_before, ulps<T>(), [&](int r, int) { return folded(s, r, -1); }),
          "")
          << name << " of rows, " << rows << " x " << cols << ", " << sizeof(T) << " bytes";
      auto row = shaped<Row<T>>(1, cols);
      fill(row, 2);
      const auto row_before = row;
      by_col(row, s);
      ASSERT_EQ(differs(row, row_before, ulps<T>(), [&](int, int c) { return folded(s, -1, c); }),
                "")
          << name << " of columns, " << rows << " x " << cols << ", " << sizeof(T) << " bytes";
    }
  Line<T> line;
  fill_small(line, 9);
  Value<T> value;
  by_row(value, line, line);
  EXPECT_TRUE(close(value.GetValue(0), folded(line, 0, -1), ulps<T>())) << name << " in registers";
}

template <class T>
void check_reductions() {
  const auto low = wide(T(lowest<Compute<T>>()));
  const auto high = wide(T(highest<Compute<T>>()));
  check_reduction<T, scalar::TROWSUM_value>(
      "sum", 0, [](auto& d, auto& s, auto& t) { TROWSUM(d, s, t); },
      [](auto& d, auto& s) { TCOLSUM(d, s); });
  check_reduction<T, scalar::TROWPROD_value>(
      "prod", 1, [](auto& d, auto& s, auto& t) { TROWPROD(d, s, t); },
      [](auto& d, auto& s) { TCOLPROD(d, s); });
  check_reduction<T, scalar::TROWMAX_value>(
      "max", low, [](auto& d, auto& s, auto& t) { TROWMAX(d, s, t); },
      [](auto& d, auto& s) { TCOLMAX(d, s); });
  check_reduction<T, scalar::TROWMIN_value>(
      "min", high, [](auto& d, auto& s, auto& t) { TROWMIN(d, s, t); },
      [](auto& d, auto& s) { TCOLMIN(d, s); });
}

TEST(Reductions, fold_the_valid_elements_of_each_row_and_column) {
  check_reductions<float>(), check_reductions<half>();
  check_reductions<bfloat16_t>(), check_reductions<double>();
  check_reductions<int8_t>(), check_reductions<uint8_t>();
  check_reductions<int16_t>(), check_reductions<uint16_t>();
  check_reductions<int32_t>(), check_reductions<uint32_t>();
  check_reductions<int64_t>(), check_reductions<uint64_t>();
}

TEST(Reductions, of_a_row_do_not_depend_on_the_rows_around_it) {
  auto all = shaped<Block<float>>(37, 91), one = shaped<Block<float>>(1, 91);
  fill(all, 1);
  auto sums = shaped<Column<float>>(37, 1), sum = shaped<Column<float>>(1, 1);
  TROWSUM(sums, all, all);
  for (int r = 0; r < 37; ++r) {
    for (int c = 0; c < 91; ++c) one.SetElement(0, c, all.GetElement(r, c));
    TROWSUM(sum, one, one);
    const float together = sums.GetValue(r), alone = sum.GetValue(0);
    EXPECT_TRUE(together == alone || (std::isnan(together) && std::isnan(alone))) << r;
  }
}

// Row r holds: negative numbers only (r % 3 = 0), infinities of both signs too (r % 5 = 1), or
// `nan` (r % 7 = 2).
template <class T>
void fill_signed(Block<T>& tile, unsigned seed, float nan) {
  fill(tile, seed);
  for (int r = 0; r < tile.GetValidRow(); ++r) {
    for (int c = 0; c < tile.GetValidCol(); ++c) {
      const float size = float(1 + (unsigned(r * 96 + c) * 2654435761u + seed) % 997) / 8;
      tile.SetElement(r, c, T(r % 3 == 0 || (c + r) % 2 ? -size : size));
    }
    const int at = (r * 29 + int(seed)) % tile.GetValidCol();
    if (r % 5 == 1) {
      tile.SetElement(r, at, T(INFINITY));
      tile.SetElement(r, tile.GetValidCol() - 1 - at, T(-INFINITY));
    }
    if (r % 7 == 2) tile.SetElement(r, at, T(nan));
  }
}

template <class T>
void check_extremes(float nan) {
  for (int cols : {1, 16, 37, 64, 95, 96})
    for (int rows : {3, 16, 37}) {
      auto s = shaped<Block<T>>(rows, cols);
      fill_signed(s, unsigned(cols + rows), nan);
      auto high = shaped<Column<T>>(rows, 1), low = shaped<Column<T>>(rows, 1);
      TROWMAX(high, s, s);
      TROWMIN(low, s, s);
      for (int r = 0; r < rows; ++r) {
        float most = -INFINITY, least = INFINITY;
        for (int c = 0; c < cols; ++c) {
          const float v = float(s.GetElement(r, c));
          most = std::isnan(v) || v > most ? v : most;
          least = std::isnan(v) || v < least ? v : least;
        }
        const float high_r = float(high.GetValue(r)), low_r = float(low.GetValue(r));
        ASSERT_TRUE(most == high_r || (std::isnan(most) && std::isnan(high_r)))
            << "row " << r << " of " << rows << " x " << cols << ": " << high_r << ", not " << most;
        ASSERT_TRUE(least == low_r || (std::isnan(least) && std::isnan(low_r)))
            << "row " << r << " of " << rows << " x " << cols << ": " << low_r << ", not " << least;
      }
    }
}

TEST(Reductions, find_extremes_among_negative_numbers_infinities_and_nan) {
  for (float nan : {NAN, -NAN}) {
    check_extremes<float>(nan);
    check_extremes<half>(nan), check_extremes<bfloat16_t>(nan);
  }
}

TEST(Reductions, propagate_nan_wherever_it_stands) {
  for (int at : {0, 1, 31, 60, 95}) {
    auto s = shaped<Block<float>>(1, 96);
    fill_small(s, 1);
    s.SetValue(at, NAN);
    auto column = shaped<Column<float>>(1, 1);
    TROWMAX(column, s, s);
    EXPECT_TRUE(std::isnan(column.GetValue(0))) << at;
    TROWMIN(column, s, s);
    EXPECT_TRUE(std::isnan(column.GetValue(0))) << at;
    Row<float> row(96);
    TCOLMAX(row, s);
    EXPECT_TRUE(std::isnan(row.GetValue(at))) << at;
  }
}

TEST(Reductions, of_an_empty_row_are_the_neutral_element) {
  auto s = shaped<Block<float>>(2, 0);
  auto column = shaped<Column<float>>(2, 1);
  TROWSUM(column, s, s);
  EXPECT_EQ(column.GetValue(1), 0);
  TROWMAX(column, s, s);
  EXPECT_EQ(column.GetValue(1), -INFINITY);
}

template <class Td, class T>
void check_widening() {
  for (int cols : {0, 1, 16, 37, 96}) {
    auto s = shaped<Block<T>>(3, cols);
    for (int i = 0; i < s.Numel; ++i) s.SetValue(i, T(float(20000 + i % 100)));
    auto d = shaped<Column<Td>>(3, 1);
    fill(d, 1);
    const auto before = d;
    TROWSUM(d, s, s);
    EXPECT_EQ(differs(d, before, 1,
                      [&](int r, int) {
                        Wide<Td> total = 0;
                        for (int c = 0; c < cols; ++c) total += Wide<Td>(wide(s.GetElement(r, c)));
                        return total;
                      }),
              "")
        << cols << " columns";
  }
}

TEST(Reductions, of_rows_may_be_wider_than_their_elements) {
  check_widening<float, half>();
  check_widening<float, bfloat16_t>();
  check_widening<int32_t, int16_t>();
}

}  // namespace pto::reduce_test
