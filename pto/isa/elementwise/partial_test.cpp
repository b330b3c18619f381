// SPDX-License-Identifier: Apache-2.0
// The PART instructions over pairs of valid regions, one element at a time.
#include "pto/isa/elementwise/partial.hpp"

#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::partial_test {
using namespace isa;

template <class T>
using Block = Tile<TileType::Vec, T, 5, 96, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <class T>
using Standing = Tile<TileType::Vec, T, 96, 5, BLayout::ColMajor, DYNAMIC, DYNAMIC>;

struct Case {
  int rows_a, cols_a, rows_b, cols_b, rows, cols;
};
const Case kCases[] = {{3, 40, 5, 17, 5, 40}, {5, 96, 1, 1, 5, 96}, {2, 9, 2, 33, 4, 50},
                       {0, 0, 2, 20, 3, 30},  {5, 31, 5, 31, 2, 7}, {1, 0, 0, 5, 1, 8}};

template <class D, class Scalar, class Call>
void check(const char* name, Call call) {
  using T = typename D::DType;
  for (Case k : kCases) {
    if (!D::isRowMajor) k = {k.cols_a, k.rows_a, k.cols_b, k.rows_b, k.cols, k.rows};
    D a = shaped<D>(k.rows_a, k.cols_a), b = shaped<D>(k.rows_b, k.cols_b);
    D d = shaped<D>(k.rows, k.cols);
    fill(a, 1), fill(b, 2), fill(d, 3);
    if (kSame<T, uint64_t>)  // products of 64 bits would not fit the oracle
      for (int i = 0; i < D::Numel; ++i) a.SetValue(i, T(uint64_t(wide(a.GetValue(i))) & 0xffffff));
    const D before = d, old_a = a;
    const auto want = [&](int r, int c) -> Wide<T> {
      const bool in_a = r < k.rows_a && c < k.cols_a, in_b = r < k.rows_b && c < k.cols_b;
      const auto x = wide(old_a.GetElement(r, c)), y = wide(b.GetElement(r, c));
      return in_a && in_b ? Scalar::of(x, y) : in_a ? x : in_b ? y : 0;
    };
    call(d, a, b);
    ASSERT_EQ(differs(d, before, kIsFloat<T> ? 1 : 0, want), "") << name << ", " << k.cols_a;
    call(a, a, b);
    ASSERT_EQ(differs(a, old_a, kIsFloat<T> ? 1 : 0, want), "") << name << " in place";
  }
}

template <class D>
void check_all() {
  check<D, scalar::TROWSUM_value>("TPARTADD", [](auto& d, auto& a, auto& b) { TPARTADD(d, a, b); });
  check<D, scalar::TROWPROD_value>("TPARTMUL",
                                   [](auto& d, auto& a, auto& b) { TPARTMUL(d, a, b); });
  check<D, scalar::TROWMAX_value>("TPARTMAX", [](auto& d, auto& a, auto& b) { TPARTMAX(d, a, b); });
  check<D, scalar::TROWMIN_value>("TPARTMIN", [](auto& d, auto& a, auto& b) { TPARTMIN(d, a, b); });
}

TEST(Parts, combine_where_both_are_valid_pass_the_valid_one_and_clear_the_rest) {
  check_all<Block<float>>();
  check_all<Block<double>>();
  check_all<Block<half>>();
  check_all<Block<bfloat16_t>>();
  check_all<Block<int8_t>>();
  check_all<Block<uint8_t>>();
  check_all<Block<int16_t>>();
  check_all<Block<uint16_t>>();
  check_all<Block<int32_t>>();
  check_all<Block<uint32_t>>();
  check_all<Block<int64_t>>();
  check_all<Block<uint64_t>>();
  check<Standing<float>, scalar::TROWSUM_value>(
      "TPARTADD of columns", [](auto& d, auto& a, auto& b) { TPARTADD(d, a, b); });
}

TEST(Parts, add_the_valid_lanes_of_a_tail_to_a_full_accumulator) {
  constexpr int N = kLanes<float>;
  for (int n = 0; n <= N; ++n) {
    MicroTile<float, N> sum;
    MicroTile<float, N, DYNAMIC> tail(n);
    TEXPANDS(sum, 1.0f);
    TEXPANDS(tail, 2.0f);
    TPARTADD(sum, sum, tail);
    for (int i = 0; i < N; ++i) EXPECT_EQ(sum.GetValue(i), i < n ? 3 : 1) << n << " " << i;
  }
}

template <class T, class I>
void check_arg(bool greater) {
  for (const Case& k : kCases) {
    auto a = shaped<Block<T>>(k.rows_a, k.cols_a), b = shaped<Block<T>>(k.rows_b, k.cols_b);
    auto ai = shaped<Block<I>>(k.rows_a, k.cols_a), bi = shaped<Block<I>>(k.rows_b, k.cols_b);
    auto d = shaped<Block<T>>(k.rows, k.cols);
    auto di = shaped<Block<I>>(k.rows, k.cols);
    fill(a, 1), fill(b, 2), fill(d, 3), fill(ai, 4), fill(bi, 5), fill(di, 6);
    const auto before = d;
    const auto index_before = di;
    const auto takes_a = [&](int r, int c) {
      const bool in_a = r < k.rows_a && c < k.cols_a, in_b = r < k.rows_b && c < k.cols_b;
      const double x = wide(a.GetElement(r, c)), y = wide(b.GetElement(r, c));
      const bool wins = greater ? x > y : x < y;
      return !in_a && !in_b ? -1 : !in_b || (in_a && (wins || (x != x && y == y))) ? 1 : 0;
    };
    if (greater)
      TPARTARGMAX(d, a, b, di, ai, bi);
    else
      TPARTARGMIN(d, a, b, di, ai, bi);
    ASSERT_EQ(differs(d, before, 0,
                      [&](int r, int c) {
                        const int which = takes_a(r, c);
                        return which < 0 ? 0 : wide((which ? a : b).GetElement(r, c));
                      }),
              "");
    ASSERT_EQ(differs(di, index_before, 0,
                      [&](int r, int c) {
                        const int which = takes_a(r, c);
                        return which < 0 ? 0 : wide((which ? ai : bi).GetElement(r, c));
                      }),
              "");
  }
}

TEST(Parts, take_the_greater_or_smaller_element_with_its_index) {
  check_arg<float, uint32_t>(true);
  check_arg<float, int32_t>(false);
  check_arg<float, int16_t>(true);
  check_arg<half, uint16_t>(true);
  check_arg<half, int16_t>(false);
  check_arg<half, uint32_t>(false);
  check_arg<half, int32_t>(true);
}

}  // namespace pto::partial_test
