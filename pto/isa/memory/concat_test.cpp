// SPDX-License-Identifier: Apache-2.0
// Concatenation and interleaving of rows, in place and apart, one element at a time.
#include "pto/isa/memory/concat.hpp"

#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::concat_test {
using namespace isa;

template <class T>
using Block = Tile<TileType::Vec, T, 3, 160, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <class I>
using Column = Tile<TileType::Vec, I, 32, 1, BLayout::ColMajor, DYNAMIC, 1>;

// Joins row r of [a | b], of which n and m elements take part.
template <class T>
Wide<T> joined(const Block<T>& a, int n, const Block<T>& b, int m, const Block<T>& before, int r,
               int c) {
  return wide(c < n       ? a.GetElement(r, c)
              : c - n < m ? b.GetElement(r, c - n)
                          : before.GetElement(r, c));
}

template <class T>
void check_concat(int n, int m, int room) {
  auto a = shaped<Block<T>>(3, n), b = shaped<Block<T>>(3, m), d = shaped<Block<T>>(2, room);
  fill(a, 1), fill(b, 2), fill(d, 3);
  const auto before = d;
  TCONCAT(d, a, b);
  ASSERT_EQ(differs(d, before, 0, [&](int r, int c) { return joined(a, n, b, m, before, r, c); }),
            "")
      << n << " and " << m << " in " << room;
  auto both = b;
  both.SetValidShape(2, room);
  const auto both_before = both;
  TCONCAT(both, a, both);
  ASSERT_EQ(differs(both, both_before, 0,
                    [&](int r, int c) { return joined(a, n, b, room, both_before, r, c); }),
            "")
      << "in place";
}

template <class T, class I>
void check_indexed_concat() {
  auto a = shaped<Block<T>>(3, 40), b = shaped<Block<T>>(3, 50), d = shaped<Block<T>>(3, 90);
  fill(a, 1), fill(b, 2), fill(d, 3);
  const auto before = d;
  auto ai = shaped<Column<I>>(3, 1), bi = ai, di = ai;
  const int n[] = {3, 40, 0}, m[] = {50, 0, 7};
  for (int r = 0; r < 32; ++r) {
    ai.SetValue(r, I(r < 3 ? n[r] * int(sizeof(I)) : 0));
    bi.SetValue(r, I(r < 3 ? m[r] * int(sizeof(I)) : 0));
    di.SetValue(r, I(99));
  }
  const auto want = [&](int r, int c) { return joined(a, n[r], b, m[r], before, r, c); };
  TCONCAT(d, a, b, ai, bi);
  EXPECT_EQ(differs(d, before, 0, want), "");
  d = before;
  TCONCAT(d, a, b, di, ai, bi);
  EXPECT_EQ(differs(d, before, 0, want), "");
  for (int r = 0; r < 32; ++r)
    EXPECT_EQ(int(di.GetValue(r)), r < 3 ? (n[r] + m[r]) * int(sizeof(I)) : 99);
}

template <class T>
void check_interleave(int cols) {
  auto s0 = shaped<Block<T>>(2, cols), s1 = s0, d0 = s0, d1 = s0;
  fill(s0, 1), fill(s1, 2), fill(d0, 3), fill(d1, 4);
  const auto before0 = d0, before1 = d1;
  const auto stream = [&](int r, int i) { return wide((i % 2 ? s1 : s0).GetElement(r, i / 2)); };
  TINTERLEAVE(d1, d0, s1, s0);
  ASSERT_EQ(differs(d0, before0, 0, [&](int r, int c) { return stream(r, c); }), "") << cols;
  ASSERT_EQ(differs(d1, before1, 0, [&](int r, int c) { return stream(r, cols + c); }), "") << cols;
  auto back0 = d0, back1 = d1;
  TDEINTERLEAVE(back1, back0, back1, back0);
  ASSERT_EQ(differs(back0, before0, 0, [&](int r, int c) { return wide(s0.GetElement(r, c)); }),
            "");
  ASSERT_EQ(differs(back1, before1, 0, [&](int r, int c) { return wide(s1.GetElement(r, c)); }),
            "");
  back0.SetValidShape(2, cols / 2), back1.SetValidShape(2, cols / 2);
  const auto half0 = back0, half1 = back1;
  TDEINTERLEAVE(back1, back0, s0);
  ASSERT_EQ(differs(back0, half0, 0, [&](int r, int c) { return wide(s0.GetElement(r, 2 * c)); }),
            "");
  ASSERT_EQ(
      differs(back1, half1, 0, [&](int r, int c) { return wide(s0.GetElement(r, 2 * c + 1)); }),
      "");
}

template <class T>
void check() {
  check_concat<T>(40, 50, 90);
  check_concat<T>(0, 33, 33);
  check_concat<T>(33, 0, 40);
  check_concat<T>(100, 100, 160);
  check_indexed_concat<T, int32_t>();
  for (const int cols : {0, 2, 30, 64, 130, 160}) check_interleave<T>(cols);
}

TEST(Concat, joins_interleaves_and_takes_apart) {
  check<float>();
  check<half>();
  check<bfloat16_t>();
  check<int8_t>();
  check<uint8_t>();
  check<int16_t>();
  check<uint16_t>();
  check<int32_t>();
  check<uint32_t>();
  check_indexed_concat<float, uint32_t>();
  check_indexed_concat<half, int16_t>();
  check_indexed_concat<half, uint16_t>();
}

}  // namespace pto::concat_test
