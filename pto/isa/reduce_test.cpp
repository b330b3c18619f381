// SPDX-License-Identifier: Apache-2.0
// Reductions and expansions over types and valid regions against one element at a time.
#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto {
namespace {

template <class T>
using Block = Tile<TileType::Vec, T, 5, 96, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <class T>
using Column = Tile<TileType::Vec, T, 32, 1, BLayout::ColMajor, DYNAMIC, 1>;
template <class T>
using Row = Tile<TileType::Vec, T, 1, 96, BLayout::RowMajor, 1, DYNAMIC>;
template <class T>
using Line = MicroTile<T, 8 * kLanes<T>>;
template <class T>
using Value = MicroTile<T, kLanes<T>, 1>;

// Small numbers, so that sums and products of a line are exact in every type's accumulator.
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

// One reduction on every shape; Scalar is the row's value, `start` its neutral element.
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
    for (int rows : {1, 2, 5}) {
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
  check_reductions<float>();
  check_reductions<half>();
  check_reductions<bfloat16_t>();
  check_reductions<double>();
  check_reductions<int32_t>();
  check_reductions<int64_t>();
  check_reductions<uint8_t>();
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

template <class T, class Scalar, class Call>
std::string check_row_expansion(Call call) {
  auto a = shaped<Block<T>>(4, 61), d = a;
  auto column = shaped<Column<T>>(4, 1);
  fill_small(a, 1), fill_small(column, 2), fill(d, 3);
  const auto before = d;
  call(d, a, column);
  const std::string second = differs(d, before, 2, [&](int r, int c) {
    return Scalar::of(wide(a.GetElement(r, c)), wide(column.GetElement(r, 0)));
  });
  call(d, column, a);
  const std::string first = differs(d, before, 2, [&](int r, int c) {
    return Scalar::of(wide(column.GetElement(r, 0)), wide(a.GetElement(r, c)));
  });
  using Blocks = Tile<TileType::Vec, T, 5, 32 / int(sizeof(T)), BLayout::RowMajor, DYNAMIC>;
  Blocks block(4);
  fill_small(block, 5);
  call(d, a, block);
  const std::string by_block = differs(d, before, 2, [&](int r, int c) {
    return Scalar::of(wide(a.GetElement(r, c)), wide(block.GetElement(r, c % Blocks::Cols)));
  });
  call(d, block, a);
  const std::string by_first_block = differs(d, before, 2, [&](int r, int c) {
    return Scalar::of(wide(block.GetElement(r, c % Blocks::Cols)), wide(a.GetElement(r, c)));
  });
  return second + first + by_block + by_first_block;
}

template <class T, class Scalar, class Call>
std::string check_column_expansion(Call call) {
  auto a = shaped<Block<T>>(4, 61), d = a;
  Row<T> row(61);
  fill_small(a, 1), fill_small(row, 2), fill(d, 3);
  const auto before = d;
  call(d, a, row);
  return differs(d, before, 2, [&](int r, int c) {
    return Scalar::of(wide(a.GetElement(r, c)), wide(row.GetElement(0, c)));
  });
}

TEST(Expansions, combine_every_row_with_its_value_and_every_column_with_its_value) {
#define PTO_ROW_EXPAND(M, of_row)                                \
  EXPECT_EQ((check_row_expansion<float, scalar::of_row##_value>( \
                [](auto& d, auto& a, auto& b) { M(d, a, b); })), \
            "")                                                  \
      << #M;                                                     \
  EXPECT_EQ((check_row_expansion<half, scalar::of_row##_value>(  \
                [](auto& d, auto& a, auto& b) { M(d, a, b); })), \
            "")                                                  \
      << #M;
#define PTO_COL_EXPAND(M, of_row)                                        \
  EXPECT_EQ((check_column_expansion<float, scalar::of_row##_value>(      \
                [](auto& d, auto& a, auto& b) { M(d, a, b); })),         \
            "")                                                          \
      << #M;                                                             \
  EXPECT_EQ((check_column_expansion<bfloat16_t, scalar::of_row##_value>( \
                [](auto& d, auto& a, auto& b) { M(d, a, b); })),         \
            "")                                                          \
      << #M;
#include "pto/isa/instructions.def"
}

TEST(Expansions, repeat_a_column_and_a_row) {
  auto d = shaped<Block<float>>(3, 50);
  fill(d, 1);
  const auto before = d;
  auto column = shaped<Column<float>>(3, 1);
  Row<float> row(50);
  fill(column, 2), fill(row, 3);
  TROWEXPAND(d, column);
  EXPECT_EQ(differs(d, before, 0, [&](int r, int) { return wide(column.GetElement(r, 0)); }), "");
  TCOLEXPAND(d, row);
  EXPECT_EQ(differs(d, before, 0, [&](int, int c) { return wide(row.GetElement(0, c)); }), "");
}

}  // namespace
}  // namespace pto
