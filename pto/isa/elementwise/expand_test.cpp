// SPDX-License-Identifier: Apache-2.0
// Expansions over types and valid regions against one element at a time.
#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::expand_test {
using namespace isa;

template <class T>
using Block = Tile<TileType::Vec, T, 5, 96, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <class T>
using Column = Tile<TileType::Vec, T, 32, 1, BLayout::ColMajor, DYNAMIC, 1>;
template <class T>
using Row = Tile<TileType::Vec, T, 1, 96, BLayout::RowMajor, 1, DYNAMIC>;

// Fills with small numbers, so that every type holds the result.
template <class D>
void fill_small(D& tile, unsigned seed) {
  for (int i = 0; i < D::Numel; ++i)
    tile.SetValue(i, typename D::DType(float((unsigned(i) * 7 + seed * 5) % 4)));
}

template <class T, bool EveryForm, class Scalar, class Call>
std::string check_row_expansion(Call call) {
  auto a = shaped<Block<T>>(4, 61), d = a;
  auto column = shaped<Column<T>>(4, 1);
  fill_small(a, 1), fill_small(column, 2), fill(d, 3);
  const auto before = d;
  call(d, a, column);
  const std::string second = differs(d, before, 2, [&](int r, int c) {
    return Scalar::of(wide(a.GetElement(r, c)), wide(column.GetElement(r, 0)));
  });
  if (!EveryForm) return second;
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

template <class T, bool EveryForm = false>
void check_expansions() {
#define PTO_ROW_EXPAND(M, of_row)                                           \
  if constexpr (is_in<T>(lanes::of_row##_value::kTypes)) {                  \
    const auto call = [](auto& d, auto& a, auto& b) { M(d, a, b); };        \
    using Scalar = scalar::of_row##_value;                                  \
    EXPECT_EQ((check_row_expansion<T, EveryForm, Scalar>(call)), "") << #M; \
  }
#define PTO_COL_EXPAND(M, of_row)                                    \
  if constexpr (is_in<T>(lanes::of_row##_value::kTypes)) {           \
    const auto call = [](auto& d, auto& a, auto& b) { M(d, a, b); }; \
    using Scalar = scalar::of_row##_value;                           \
    EXPECT_EQ((check_column_expansion<T, Scalar>(call)), "") << #M;  \
  }
#include "pto/isa/instructions.def"
}

TEST(Expansions, combine_every_row_with_its_value_and_every_column_with_its_value) {
  check_expansions<float, true>(), check_expansions<half, true>();
  check_expansions<bfloat16_t>(), check_expansions<double>();
  check_expansions<int8_t>(), check_expansions<uint8_t>();
  check_expansions<int16_t>(), check_expansions<uint16_t>();
  check_expansions<int32_t>(), check_expansions<uint32_t>();
  check_expansions<int64_t>(), check_expansions<uint64_t>();
}

// Checks tiles of different Cols and the same valid columns, as types and as numbers of the run.
template <class D, class A, class B>
void check_valid_columns(D d, A a, B b, int period) {
  fill_small(a, 1), fill_small(b, 2), fill(d, 3);
  const D before = d;
  TROWEXPANDSUB(d, a, b);
  EXPECT_EQ(differs(d, before, 0,
                    [&](int r, int c) {
                      return wide(a.GetElement(r, c)) - wide(b.GetElement(r, c % period));
                    }),
            "");
  TROWEXPANDSUB(d, b, a);
  EXPECT_EQ(differs(d, before, 0,
                    [&](int r, int c) {
                      return wide(b.GetElement(r, c % period)) - wide(a.GetElement(r, c));
                    }),
            "");
}

TEST(Expansions, compare_valid_columns_not_those_of_the_tiles) {
  using Static = Tile<TileType::Vec, float, 3, 448>;
  using InLarger = Tile<TileType::Vec, float, 3, 512, BLayout::RowMajor, 3, 448>;
  using Free = Tile<TileType::Vec, float, 3, 512, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using ColumnOf3 = Tile<TileType::Vec, float, 8, 1, BLayout::ColMajor, 3, 1>;
  using InRows = Tile<TileType::Vec, float, 3, 512, BLayout::RowMajor, 3, 1>;
  check_valid_columns(Static(), InLarger(), ColumnOf3(), 1);
  check_valid_columns(InLarger(), Static(), InRows(), 1);
  check_valid_columns(Free(3, 448), Static(), InRows(), 1);
  check_valid_columns(Free(3, 448), InLarger(), Free(3, 1), 1);
  check_valid_columns(Free(3, 448), Free(3, 448), Free(3, 8), 8);
  check_valid_columns(Static(), Free(3, 448), Free(3, 448), 448);
  Tile<TileType::Vec, float, 1, 512, BLayout::RowMajor, 1, 448> row;
  Static d;
  InLarger a;
  fill_small(row, 1), fill_small(a, 2), fill(d, 3);
  const Static before = d;
  TCOLEXPANDADD(d, a, row);
  const auto sum = [&](int r, int c) { return wide(a.GetElement(r, c)) + row.GetElement(0, c); };
  EXPECT_EQ(differs(d, before, 0, sum), "");
  TCOLEXPAND(d, row);
  EXPECT_EQ(differs(d, before, 0, [&](int, int c) { return wide(row.GetElement(0, c)); }), "");
}

template <class T>
void check_repetition() {
  auto d = shaped<Block<T>>(3, 50);
  fill(d, 1);
  const auto before = d;
  auto column = shaped<Column<T>>(3, 1);
  Row<T> row(50);
  fill(column, 2), fill(row, 3);
  TROWEXPAND(d, column);
  EXPECT_EQ(differs(d, before, 0, [&](int r, int) { return wide(column.GetElement(r, 0)); }), "");
  TCOLEXPAND(d, row);
  EXPECT_EQ(differs(d, before, 0, [&](int, int c) { return wide(row.GetElement(0, c)); }), "");
  const T value = row.GetElement(0, 1);
  TEXPANDS(d, value);
  EXPECT_EQ(differs(d, before, 0, [&](int, int) { return wide(value); }), "");
}

TEST(Expansions, repeat_a_column_a_row_and_a_number) {
  check_repetition<float>(), check_repetition<half>(), check_repetition<bfloat16_t>();
  check_repetition<double>(), check_repetition<int8_t>(), check_repetition<uint8_t>();
  check_repetition<int16_t>(), check_repetition<uint16_t>(), check_repetition<int32_t>();
  check_repetition<uint32_t>(), check_repetition<int64_t>(), check_repetition<uint64_t>();
}

template <int Cols>
void check_in_place() {
  using D = Tile<TileType::Vec, float, 3, Cols, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  D d(3, Cols - 3), before(3, Cols - 3);
  fill_small(before, 1);
  d = before;
  TCOLEXPANDSUB(d, d, d);
  EXPECT_EQ(differs(d, before, 0,
                    [&](int r, int c) {
                      return wide(before.GetElement(r, c) - before.GetElement(0, c));
                    }),
            "");
}

TEST(Expansions, take_a_destination_that_is_the_expanded_operand) {
  check_in_place<64>();
  check_in_place<1024>();  // rows too long for blocks of columns
}

}  // namespace pto::expand_test
