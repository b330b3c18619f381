// SPDX-License-Identifier: Apache-2.0
// Every element-wise row of the table, over types, shapes and valid regions, against the row's
// value for one element. The destination may be a source; padding keeps its values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/isa_oracle.hpp"

namespace pto::elementwise_test {
using namespace isa;

template <class T>
using Micro = MicroTile<T, 2 * kLanes<T>>;
template <class T>
using Part = Tile<TileType::Vec, T, 1, 2 * kLanes<T>, BLayout::RowMajor, 1, DYNAMIC>;
template <class T>
using Rows = Tile<TileType::Vec, T, 3, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <class T>
using Columns = Tile<TileType::Vec, T, 32, 2, BLayout::ColMajor, DYNAMIC, DYNAMIC>;
template <class T>
using Whole = Tile<TileType::Vec, T, 16, 48>;

template <class T>
constexpr double kUlps = kSame<T, half> || kSame<T, bfloat16_t> ? 0.51
                         : kSame<T, float>                      ? 3
                                                                : 2;

// A row of the table: the instruction on a tile, and its value for one element. `d` is the old
// destination.
template <class D>
struct Case {
  using T = typename D::DType;
  const char* row;
  void (*call)(D& d, const D& a, const D& b, const D& c);
  Wide<T> (*want)(Wide<T> d, Wide<T> a, Wide<T> b, Wide<T> c);
  bool is_shift;   // b counts bits
  bool is_scalar;  // b is the same number everywhere
};

template <class D>
std::string check(const Case<D>& row, int rows, int cols, unsigned seed) {
  using T = typename D::DType;
  D before = shaped<D>(rows, cols), a = before, b = before, c = before;
  fill(before, seed), fill(a, seed + 1), fill(b, seed + 2), fill(c, seed + 3);
  if constexpr (!kIsFloat<T>) {
    if (row.is_shift)
      for (int i = 0; i < D::Numel; ++i)
        b.SetValue(i, T(uint64_t(b.GetValue(i)) % (8 * sizeof(T))));
  }
  if (row.is_scalar)
    for (int i = 1; i < D::Numel; ++i) b.SetValue(i, b.GetValue(0));
  const auto want = [&](const D& first) {
    return [&](int r, int j) {
      return row.want(wide(before.GetElement(r, j)), wide(first.GetElement(r, j)),
                      wide(b.GetElement(r, j)), wide(c.GetElement(r, j)));
    };
  };
  D d = before;
  row.call(d, a, b, c);
  const std::string wrong = differs(d, before, kUlps<T>, want(a));
  if (!wrong.empty()) return wrong;
  const D old = before;
  D both = before;
  row.call(both, both, b, c);
  const std::string in_place = differs(both, old, kUlps<T>, want(old));
  return in_place.empty() ? "" : "in place: " + in_place;
}

template <class D>
void check_regions(const Case<D>& row) {
  using T = typename D::DType;
  const int regions[][2] = {{1, 1},
                            {0, 0},
                            {D::Rows, D::Cols},
                            {D::Rows, D::Cols - 1},
                            {1, D::Cols},
                            {(D::Rows + 1) / 2, D::Cols / 2 + 1}};
  unsigned seed = 0;
  for (const auto& region : regions)
    ASSERT_EQ(check(row, region[0], region[1], ++seed), "")
        << row.row << " on " << D::Rows << " x " << D::Cols << ", valid " << region[0] << " x "
        << region[1] << ", " << sizeof(T) << "-byte " << (kIsFloat<T> ? "floats" : "integers");
}

#define PTO_CASE(M, types, name, instruction, value)                                       \
  struct M##_case {                                                                        \
    static constexpr ElementSet kTypes = types;                                            \
    template <class D>                                                                     \
    static __attribute__((noinline)) void call(D& d, const D& a, const D& b, const D& c) { \
      (void)b, (void)c;                                                                    \
      instruction;                                                                         \
    }                                                                                      \
    template <class T, class W = Wide<T>>                                                  \
    static W want(W d, W a, W b, W c) {                                                    \
      (void)b, (void)c, (void)d;                                                           \
      return value;                                                                        \
    }                                                                                      \
    template <class D>                                                                     \
    static Case<D> of() {                                                                  \
      using T = typename D::DType;                                                         \
      const bool is_shift = std::string(name).substr(0, 3) == "TSH";                       \
      return {name, call<D>, want<T>, is_shift, false};                                    \
    }                                                                                      \
  };
#define PTO_UNARY(M, op, value, numpy, types) \
  PTO_CASE(M, types, #M, M(d, a), scalar::M##_value::of(a))
#define PTO_BINARY_ONLY(M, value, numpy, types) \
  PTO_CASE(M, types, #M, M(d, a, b), scalar::M##_value::of(a, b))
#define PTO_BINARY(M, op, value, numpy, types) PTO_BINARY_ONLY(M, value, numpy, types)
#define PTO_TERNARY(M, value, numpy, types) \
  PTO_CASE(M, types, #M, M(d, a, b, c), scalar::M##_value::of(a, b, c))
#define PTO_ACCUMULATE(M, value, numpy, types)  \
  PTO_CASE(M, types, #M, M(d, a, b),            \
           lanes::kRoundsOnce<lanes::M##_value> \
               ? scalar::M##_value::of(a, b, d) \
               : double(scalar::M##_value::of(Steps<T>(a), Steps<T>(b), Steps<T>(d))))
#define PTO_LOGICAL_UNARY(...)
#define PTO_LOGICAL_BINARY(...)
#include "pto/isa/instructions.def"

#define PTO_SCALAR(M, of_row)                                                            \
  struct M##_case : of_row##_case {                                                      \
    template <class D>                                                                   \
    static __attribute__((noinline)) void call(D& d, const D& a, const D& b, const D&) { \
      M(d, a, b.GetValue(0));                                                            \
    }                                                                                    \
    template <class D>                                                                   \
    static Case<D> of() {                                                                \
      Case<D> row = of_row##_case::of<D>();                                              \
      row.row = #M, row.call = call<D>, row.is_scalar = true;                            \
      return row;                                                                        \
    }                                                                                    \
  };
#include "pto/isa/instructions.def"

template <class Row, template <class> class Shape, class... T>
void check_types() {
  const auto one = [](auto type) {
    using E = typename decltype(type)::type;
    if constexpr (is_in<E>(Row::kTypes)) check_regions<Shape<E>>(Row::template of<Shape<E>>());
  };
  (one(Choose<true, T, T>{}), ...);
}

template <class Row>
void check_row() {
  check_types<Row, Micro, float, int8_t, uint16_t, uint32_t, uint64_t>();
  check_types<Row, Part, float, int32_t, half, double>();
  check_types<Row, Rows, float, half, bfloat16_t, double, int32_t, int64_t, int16_t, uint8_t>();
  check_types<Row, Columns, float, int32_t>();
  check_types<Row, Whole, float, bfloat16_t, int32_t>();
}

#define PTO_TEST(M)                                                               \
  TEST(Elementwise, M##_is_its_value_on_every_valid_element_and_leaves_padding) { \
    check_row<M##_case>();                                                        \
  }
#define PTO_UNARY(M, op, value, numpy, types) PTO_TEST(M)
#define PTO_BINARY_ONLY(M, value, numpy, types) PTO_TEST(M)
#define PTO_BINARY(M, op, value, numpy, types) PTO_TEST(M)
#define PTO_TERNARY(M, value, numpy, types) PTO_TEST(M)
#define PTO_ACCUMULATE(M, value, numpy, types) PTO_TEST(M)
#define PTO_SCALAR(M, of_row) PTO_TEST(M)
#define PTO_LOGICAL_UNARY(...)
#define PTO_LOGICAL_BINARY(...)
#include "pto/isa/instructions.def"
#undef PTO_TEST

// (1 + 2^-p)^2 - (1 + 2^(1-p)) is 2^-2p: all of it, or nothing where the product is rounded first.
template <class T>
void check_fused(float one_up, float product, float rest) {
  Tile<TileType::Vec, T, 1, 32> a, b, fused, stepwise;
  TEXPANDS(a, T(one_up)), TEXPANDS(b, T(-product)), TEXPANDS(fused, T(one_up));
  stepwise = b;
  TFUSEDMULADD(fused, a, b);
  TMULADDDST(stepwise, a, a);
  EXPECT_EQ(float(fused.GetValue(5)), rest);
  EXPECT_EQ(float(stepwise.GetValue(5)), 0.f);
}

TEST(Elementwise, fused_products_of_short_floats_round_once) {
  check_fused<half>(1 + 0x1p-10f, 1 + 0x1p-9f, 0x1p-20f);
  check_fused<bfloat16_t>(1 + 0x1p-7f, 1 + 0x1p-6f, 0x1p-14f);
}

template <class T>
void check_integer_reciprocals() {
  Tile<TileType::Vec, T, 2, 64> a, d;
  for (int i = 0; i < a.Numel; ++i) a.SetValue(i, T(i - 8));
  TRECIP(d, a);
  for (int i = 0; i < a.Numel; ++i) {
    const T x = a.GetValue(i);
    EXPECT_EQ(int64_t(d.GetValue(i)), x == T(1) ? 1 : T(-1) < T(0) && x == T(-1) ? -1 : 0) << i;
  }
}
TEST(Elementwise, TRECIP_of_integers_drops_the_fraction) {
  check_integer_reciprocals<int8_t>();
  check_integer_reciprocals<uint8_t>();
  check_integer_reciprocals<int16_t>();
  check_integer_reciprocals<uint16_t>();
  check_integer_reciprocals<int32_t>();
  check_integer_reciprocals<uint32_t>();
  check_integer_reciprocals<int64_t>();
  check_integer_reciprocals<uint64_t>();
}

template <class T>
void check_integer_differences() {
  Tile<TileType::Vec, T, 2, 64> a, b, d;
  fill(a, 1), fill(b, 2);
  a.SetValue(0, std::numeric_limits<T>::max()), b.SetValue(0, T(-1));
  a.SetValue(1, std::numeric_limits<T>::min()), b.SetValue(1, T(1));
  TSUBRELU(d, a, b);
  for (int i = 0; i < a.Numel; ++i) {
    const T difference = T(uint64_t(a.GetValue(i)) - uint64_t(b.GetValue(i)));
    EXPECT_EQ(d.GetValue(i), std::max(difference, T(0))) << i;
  }
}
TEST(Elementwise, TSUBRELU_of_integers_wraps_before_its_relu) {
  check_integer_differences<int8_t>();
  check_integer_differences<uint8_t>();
  check_integer_differences<int16_t>();
  check_integer_differences<uint16_t>();
  check_integer_differences<int32_t>();
  check_integer_differences<uint32_t>();
  check_integer_differences<int64_t>();
  check_integer_differences<uint64_t>();
}

template <class T>
void check_integer_logarithms() {
  Tile<TileType::Vec, T, 2, 64> a, d;
  for (int i = 0; i < a.Numel; ++i) a.SetValue(i, T(i - 8));
  a.SetValue(0, std::numeric_limits<T>::max());
  TLOG(d, a);
  for (int i = 0; i < a.Numel; ++i) {
    const T x = a.GetValue(i);
    EXPECT_EQ(int64_t(d.GetValue(i)), x > T(0) ? int64_t(std::log(static_cast<long double>(x))) : 0)
        << i;
  }
}
TEST(Elementwise, TLOG_of_integers_drops_the_fraction) {
  check_integer_logarithms<int8_t>();
  check_integer_logarithms<uint8_t>();
  check_integer_logarithms<int16_t>();
  check_integer_logarithms<uint16_t>();
  check_integer_logarithms<int32_t>();
  check_integer_logarithms<uint32_t>();
  check_integer_logarithms<int64_t>();
  check_integer_logarithms<uint64_t>();
}

}  // namespace pto::elementwise_test
