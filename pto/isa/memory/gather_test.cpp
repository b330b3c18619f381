// SPDX-License-Identifier: Apache-2.0
// Gather and scatter within tiles, one element at a time, indices outside included.
#include "pto/isa/memory/gather.hpp"

#include <gtest/gtest.h>

#include "pto/isa/element/narrow_float.hpp"
#include "tests/isa_oracle.hpp"

namespace pto::gather_test {
using namespace isa;

template <class T>
using Block = Tile<TileType::Vec, T, 4, 64, BLayout::RowMajor, DYNAMIC, DYNAMIC>;

template <class T>
void number(Block<T>& tile, int first) {
  for (int i = 0; i < tile.Numel; ++i) tile.SetValue(i, T(float((first + i) % 100 + 1)));
}

// Returns indices inside, repeated, just outside and far outside.
template <class I>
I index_at(int i) {
  return i % 11 == 3 ? I(256) : i % 13 == 5 ? I(-1) : I(i * 37 % 256);
}

template <class T, class I>
void check_indexed(int rows, int cols) {
  auto s = shaped<Block<T>>(4, 64), d = shaped<Block<T>>(rows, cols);
  auto index = shaped<Block<I>>(rows, cols);
  number(s, 0);
  number(d, 50);
  for (int i = 0; i < 256; ++i) index.SetValue(i, index_at<I>(i));
  const auto before = d;
  TGATHER(d, s, index, s);
  EXPECT_EQ(differs(d, before, 0,
                    [&](int r, int c) {
                      const int64_t i = int64_t(index.GetElement(r, c));
                      return i < 0 || i >= 256 ? 0 : wide(s.GetValue(int(i)));
                    }),
            "");
  auto whole = shaped<Block<T>>(4, 64);
  number(whole, 70);
  std::vector<T> want(whole.data(), whole.data() + 256);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      const int64_t i = int64_t(index.GetElement(r, c));
      if (i >= 0 && i < 256) want[size_t(i)] = s.GetElement(r, c);
    }
  TSCATTER(whole, s, index);
  for (int i = 0; i < 256; ++i) ASSERT_EQ(float(whole.GetValue(i)), float(want[size_t(i)])) << i;
}

TEST(Gather, takes_and_puts_elements_at_flat_indices) {
  for (const int cols : {0, 1, 33, 64}) {
    check_indexed<float, int32_t>(3, cols);
    check_indexed<float, uint32_t>(4, cols);
    check_indexed<int32_t, int32_t>(1, cols);
    check_indexed<uint32_t, uint32_t>(1, cols);
    check_indexed<half, uint32_t>(2, cols);
    check_indexed<half, int16_t>(2, cols);
    check_indexed<bfloat16_t, uint16_t>(4, cols);
    check_indexed<int16_t, int16_t>(4, cols);
    check_indexed<uint16_t, uint16_t>(4, cols);
    check_indexed<int8_t, int32_t>(4, cols);
    check_indexed<uint8_t, uint32_t>(4, cols);
  }
}

TEST(Gather, indexes_column_major_tiles_row_by_row) {
  Tile<TileType::Vec, float, 8, 4, BLayout::ColMajor> s;
  Tile<TileType::Vec, float, 1, 32> d;
  Tile<TileType::Vec, int32_t, 1, 32> index;
  for (int i = 0; i < 32; ++i) s.SetElement(i / 4, i % 4, float(i)), index.SetValue(i, 31 - i);
  TGATHER(d, s, index, d);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(d.GetValue(i), float(31 - i));
  TSCATTER(s, d, index);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(s.GetElement(i / 4, i % 4), float(i));
}

template <MaskPattern P>
constexpr const char* kDigits = P == MaskPattern::P0101   ? "0101"
                                : P == MaskPattern::P1010 ? "1010"
                                : P == MaskPattern::P0001 ? "0001"
                                : P == MaskPattern::P0010 ? "0010"
                                : P == MaskPattern::P0100 ? "0100"
                                : P == MaskPattern::P1000 ? "1000"
                                                          : "1111";
bool is_named(const char* digits, int i) { return digits[3 - i % 4] == '1'; }

template <class T, MaskPattern P>
void check_pattern() {
  constexpr int kStep = detail::kPatternStep<P>;
  using Wide256 = Tile<TileType::Vec, T, 3, 256, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using Narrow = Tile<TileType::Vec, T, 3, 256 / kStep, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  auto s = shaped<Wide256>(3, 256), spread = s;
  auto d = shaped<Narrow>(3, 256 / kStep);
  for (int i = 0; i < s.Numel; ++i) s.SetValue(i, T(float(i % 97 + 1))), spread.SetValue(i, T(5.f));
  TGATHER<Narrow, Wide256, P>(d, s);
  int k = 0;
  for (int i = 0; i < s.Numel; ++i)
    if (is_named(kDigits<P>, i)) {
      ASSERT_EQ(float(d.GetValue(k++)), float(s.GetValue(i))) << kDigits<P> << " at " << i;
    }
  ASSERT_EQ(k, d.Numel);
  TSCATTER<P>(spread, d);
  for (int i = 0; i < s.Numel; ++i)
    ASSERT_EQ(float(spread.GetValue(i)), is_named(kDigits<P>, i) ? float(s.GetValue(i)) : 0)
        << kDigits<P> << " at " << i;
}

template <class T>
void check_patterns() {
  check_pattern<T, MaskPattern::P0101>();
  check_pattern<T, MaskPattern::P1000>();
  check_pattern<T, MaskPattern::P1111>();
}

TEST(Gather, keeps_the_columns_of_a_pattern_and_scatter_puts_them_back) {
  check_patterns<float>();
  check_patterns<half>();
  check_patterns<int8_t>();
  check_patterns<uint8_t>();
  check_patterns<bfloat16_t>();
  check_patterns<int16_t>();
  check_patterns<uint16_t>();
  check_patterns<int32_t>();
  check_patterns<uint32_t>();
  check_pattern<float, MaskPattern::P1010>();
  check_pattern<float, MaskPattern::P0001>();
  check_pattern<float, MaskPattern::P0010>();
  check_pattern<float, MaskPattern::P0100>();
}

TEST(Gather, keeps_the_rows_of_a_pattern_and_scatter_puts_them_back) {
  using Tall = Tile<TileType::Vec, float, 8, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using Low = Tile<TileType::Vec, float, 2, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  auto s = shaped<Tall>(8, 30), back = s;
  auto d = shaped<Low>(2, 30);
  for (int i = 0; i < s.Numel; ++i) s.SetValue(i, float(i + 1)), back.SetValue(i, 7);
  for (int i = 0; i < d.Numel; ++i) d.SetValue(i, 7);
  TGATHER<Low, Tall, MaskPattern::P0100, GATHER_COL>(d, s);
  TSCATTER<MaskPattern::P0100, SCATTER_COL>(back, d);
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 32; ++c) {
      const bool named = r % 4 == 2;
      if (named) {
        EXPECT_EQ(d.GetElement(r / 4, c), c < 30 ? s.GetElement(r, c) : 7);
      }
      EXPECT_EQ(back.GetElement(r, c), c >= 30 ? 7 : named ? s.GetElement(r, c) : 0);
    }
}

template <class To, class From, MaskPattern P>
void check_bits() {
  constexpr int kStep = detail::kPatternStep<P>, kFirst = detail::kPatternFirst<P>;
  using Source = Tile<TileType::Vec, From, 3, 256, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using Kept = Tile<TileType::Vec, To, 3, 256 / kStep, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using Row = Tile<TileType::Vec, To, 1, 256, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  auto s = shaped<Source>(3, 256);
  auto d = shaped<Kept>(3, 256 / kStep);
  auto row = shaped<Row>(1, 256);
  fill(s, 1);
  TGATHER<Kept, Source, P>(d, s);
  for (int i = 0; i < Kept::Numel; ++i)
    ASSERT_EQ(bits_of(d.GetValue(i)), bits_of(s.GetValue(i * kStep + kFirst))) << i;
  if (kStep != 2) return;
  TGATHER<Row, Source, P, GATHER_COL>(row, s);
  for (int c = 0; c < 256; ++c)
    ASSERT_EQ(bits_of(row.GetValue(c)), bits_of(s.GetElement(kFirst, c))) << c;
}

TEST(Gather, moves_bits_between_types_of_one_size) {
  check_bits<int32_t, float, MaskPattern::P1010>();
  check_bits<half, int16_t, MaskPattern::P0100>();
  check_bits<float8_e4m3_t, uint8_t, MaskPattern::P0101>();
}

template <class T, class I, CmpMode Mode, class Compare>
void check_where(Compare compare) {
  using K = Tile<TileType::Vec, T, 32, 1, BLayout::ColMajor, DYNAMIC, 1>;
  using C = Tile<TileType::Vec, I, 32, 1, BLayout::ColMajor, DYNAMIC, 1>;
  for (const int cols : {0, 1, 17, 64})
    for (const int room : {3, 64})
      for (const int limits : {1, 3}) {
        auto s = shaped<Block<T>>(3, cols);
        auto d = shaped<Block<I>>(3, room);
        auto k = shaped<K>(limits, 1);
        auto count = shaped<C>(3, 1);
        fill(s, unsigned(cols)), fill(d, 2);
        const auto before = d;
        for (int r = 0; r < 32; ++r) k.SetValue(r, T(float(r))), count.SetValue(r, I(0));
        TGATHER<Block<I>, Block<T>, K, C, Block<T>, Mode>(d, s, k, count, s, 1000);
        for (int r = 0; r < 3; ++r) {
          std::vector<int> want;
          for (int c = 0; c < cols; ++c)
            if (compare(wide(s.GetElement(r, c)), wide(k.GetValue(limits == 1 ? 0 : r))))
              want.push_back(c + 1000);
          ASSERT_EQ(int(count.GetValue(r)), int(want.size())) << "row " << r << " of " << cols;
          for (int i = 0; i < 64; ++i) {
            if (i < room && i < int(want.size())) {
              ASSERT_EQ(int(d.GetElement(r, i)), want[size_t(i)]);
            } else {
              ASSERT_EQ(d.GetElement(r, i), before.GetElement(r, i)) << "beyond the hits at " << i;
            }
          }
        }
      }
}

TEST(Gather, finds_the_columns_that_compare) {
  check_where<float, int32_t, CmpMode::GT>([](auto a, auto b) { return a > b; });
  check_where<float, uint32_t, CmpMode::LE>([](auto a, auto b) { return a <= b; });
  check_where<half, int32_t, CmpMode::NE>([](auto a, auto b) { return a != b; });
  check_where<half, uint32_t, CmpMode::GE>([](auto a, auto b) { return a >= b; });
  check_where<int32_t, int32_t, CmpMode::EQ>([](auto a, auto b) { return a == b; });
  check_where<int16_t, uint32_t, CmpMode::LT>([](auto a, auto b) { return a < b; });
}

template <class T>
void check_blocks() {
  constexpr int kIn = 32 / int(sizeof(T));
  auto s = shaped<Block<T>>(4, 64), d = shaped<Block<T>>(3, 64 - kIn / 2);
  Tile<TileType::Vec, uint32_t, 3, 64> off;
  number(s, 0), number(d, 50);
  const auto before = d;
  for (int i = 0; i < off.Numel; ++i)
    off.SetValue(i, i % 5 == 4 ? uint32_t(256 * sizeof(T) - 31)
                               : uint32_t(i * 7 % (256 - kIn)) * uint32_t(sizeof(T)));
  TGATHERB(d, s, off);
  EXPECT_EQ(differs(d, before, 0,
                    [&](int r, int c) {
                      const uint32_t at = off.GetElement(r, c / kIn);
                      if (at + 32 > 256 * sizeof(T)) return wide(before.GetElement(r, c));
                      return wide(s.GetValue(int(at / sizeof(T)) + c % kIn));
                    }),
            "");
}

TEST(Gather, copies_blocks_of_32_bytes) {
  check_blocks<float>();
  check_blocks<half>();
  check_blocks<bfloat16_t>();
  check_blocks<int8_t>();
  check_blocks<uint8_t>();
  check_blocks<int16_t>();
  check_blocks<uint16_t>();
  check_blocks<int32_t>();
  check_blocks<uint32_t>();
}

}  // namespace pto::gather_test
