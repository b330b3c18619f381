// SPDX-License-Identifier: Apache-2.0
// TMOV, TEXTRACT, TINSERT, TTRANS, TFILLPAD and shared storage, against loops over GetElement: each
// element of the destination has the formula's value or its earlier one.
#include "pto/isa/memory/move.hpp"

#include "pto/isa/element/narrow_float.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "pto/isa/memory/reshape.hpp"
#include "tests/isa_oracle.hpp"

namespace pto::move_test {
using namespace isa;

constexpr auto kRow = BLayout::RowMajor, kCol = BLayout::ColMajor;
constexpr auto kNone = SLayout::NoneBox, kRowBox = SLayout::RowMajor, kColBox = SLayout::ColMajor;

template <class T, BLayout B, SLayout S, int R = 64, int C = 64, TileType L = TileType::Mat>
using Any = Tile<L, T, R, C, B, DYNAMIC, DYNAMIC, S>;

template <class D>
void count_up(D& tile, int from) {
  for (int r = 0; r < D::Rows; ++r)
    for (int c = 0; c < D::Cols; ++c)
      tile.SetElement(r, c, typename D::DType(float((from + r * 37 + c * 3) % 101)));
}

// Expects want(r, c) in every element of d, or the value in `before` where want is negative.
template <class D, class Want>
void expect_each(const D& d, const D& before, Want want) {
  for (int r = 0; r < D::Rows; ++r)
    for (int c = 0; c < D::Cols; ++c) {
      const double expected = want(r, c), old = double(wide(before.GetElement(r, c)));
      ASSERT_EQ(double(wide(d.GetElement(r, c))), expected < 0 ? old : expected) << r << "," << c;
    }
}
template <class S>
double at(const S& s, int r, int c) {
  return double(wide(s.GetElement(r, c)));
}

template <class D, class S>
void check_extract(int rows, int cols, int r0, int c0) {
  S s(rows, cols);
  count_up(s, 0);
  D d(rows, cols), before;
  count_up(d, 50), count_up(before, 50);
  TEXTRACT(d, s, uint16_t(r0), uint16_t(c0));
  expect_each(d, before, [&](int r, int c) {
    return r < rows && c < cols && r0 + r < S::Rows && c0 + c < S::Cols ? at(s, r0 + r, c0 + c)
                                                                        : -1;
  });
}

template <class D, class S>
void check_moves(int rows, int cols, int r0, int c0) {
  check_extract<D, S>(rows, cols, r0, c0);
  S s(rows, cols);
  count_up(s, 0);
  D d(rows, cols), before;
  count_up(before, 50);
  const auto fresh = [&] {
    for (int i = 0; i < D::kStored; ++i) d.SetValue(i, before.GetValue(i));
  };
  fresh();
  TMOV(d, s);
  expect_each(d, before, [&](int r, int c) { return r < rows && c < cols ? at(s, r, c) : -1; });
  fresh();
  TINSERT(d, s, r0, c0);
  expect_each(d, before, [&](int r, int c) {
    return r >= r0 && r < r0 + rows && c >= c0 && c < c0 + cols ? at(s, r - r0, c - c0) : -1;
  });
}

template <class D, class T>
void check_from_every_layout() {
  for (auto [rows, cols, r0, c0] : {std::array<int, 4>{64, 64, 0, 0},
                                    {33, 19, 16, 32},
                                    {20, 41, 5, 23},
                                    {1, 64, 63, 0},
                                    {0, 9, 1, 1}}) {
    check_extract<D, Any<T, kRow, kNone>>(rows, cols, r0, c0);
    check_extract<D, Any<T, kCol, kNone>>(rows, cols, r0, c0);
    check_moves<D, Any<T, kCol, kRowBox>>(rows, cols, r0, c0);
    check_extract<D, Any<T, kRow, kColBox>>(rows, cols, r0, c0);
    check_extract<D, Any<T, kRow, kRowBox>>(rows, cols, r0, c0);
    check_extract<D, Any<T, kCol, kColBox>>(rows, cols, r0, c0);
  }
}

TEST(Move, every_layout_moves_to_every_layout) {
  check_from_every_layout<Any<half, kRow, kNone>, half>();
  check_from_every_layout<Any<half, kCol, kNone>, half>();
  check_from_every_layout<Any<half, kCol, kRowBox>, half>();
  check_from_every_layout<Any<half, kRow, kColBox>, half>();
  check_from_every_layout<Any<half, kRow, kRowBox>, half>();
  check_from_every_layout<Any<half, kCol, kColBox>, half>();
}

template <class T>
void check_type() {
  check_moves<TileRight<T, 64, 64, DYNAMIC, DYNAMIC>,
              TileNz<TileType::Mat, T, 64, 64, DYNAMIC, DYNAMIC>>(35, 40, 8, 16);
  Any<T, kRow, kNone, 64, 64, TileType::Vec> s(35, 64), d, before;
  count_up(s, 1), count_up(d, 2), count_up(before, 2);
  TTRANS(d, s, s);
  expect_each(d, before, [&](int r, int c) { return c < 35 ? at(s, c, r) : -1; });
}
TEST(Move, every_type_moves_and_is_transposed) {
  check_type<int8_t>();
  check_type<uint8_t>();
  check_type<int16_t>();
  check_type<uint16_t>();
  check_type<int32_t>();
  check_type<uint32_t>();
  check_type<int64_t>();
  check_type<uint64_t>();
  check_type<bfloat16_t>();
  check_type<half>();
  check_type<float>();
}

TEST(Move, overlapping_tiles_move_as_if_the_source_was_copied_first) {
  using Nz = Any<float, kCol, kRowBox>;
  Nz whole(40, 50), old;
  count_up(whole, 0), count_up(old, 0);
  TEXTRACT(whole, whole, 7, 3);
  expect_each(whole, old,
              [&](int r, int c) { return r < 40 && c < 50 ? at(old, r + 7, c + 3) : -1; });
  count_up(whole, 0);
  TINSERT(whole, whole, 7, 3);
  expect_each(whole, old, [&](int r, int c) {
    return r >= 7 && r < 47 && c >= 3 && c < 53 ? at(old, r - 7, c - 3) : -1;
  });
  Any<half, kRow, kNone> square(64, 64), before;
  count_up(square, 0), count_up(before, 0);
  TTRANS(square, square, square);
  expect_each(square, before, [&](int r, int c) { return at(before, c, r); });
  TMOV(square, square);
  expect_each(square, before, [&](int r, int c) { return at(before, c, r); });
}

TEST(Move, a_line_of_registers_moves_in_registers) {
  MicroTile<float, 2 * kLanes<float>> a, b;
  for (int i = 0; i < a.Numel; ++i) a.SetValue(i, float(i));
  TMOV(b, a);
  for (int i = 0; i < a.Numel; ++i) EXPECT_EQ(b.GetValue(i), float(i));
}

TEST(Move, one_tile_gives_two_rectangles) {
  Any<half, kRow, kNone> s(64, 64);
  count_up(s, 4);
  TileLeft<half, 32, 16> a;
  TileRight<half, 16, 32> b;
  TEXTRACT(a, b, s, 16, 5, 3, 32);
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 16; ++c) {
      ASSERT_EQ(at(a, r, c), at(s, r + 16, c + 5));
      ASSERT_EQ(at(b, c, r), at(s, c + 3, r + 32));
    }
}

TEST(Move, lines_before_a_tile_are_left_out) {
  using D = Any<float, kCol, kRowBox, 32, 32>;
  Any<float, kRow, kNone> s(20, 24);
  count_up(s, 1);
  D d(20, 24), before;
  count_up(before, 50);
  for (const auto& [row, col] : {std::array{-3, 4}, {2, -5}, {-1, -9}, {-20, 0}, {-70, -70}}) {
    count_up(d, 50);
    TEXTRACT(d, s, row, col);
    expect_each(d, before, [&, row = row, col = col](int r, int c) {
      return r < 20 && c < 24 && r + row >= 0 && c + col >= 0 ? at(s, r + row, c + col) : -1;
    });
    count_up(d, 50);
    TINSERT(d, s, row, col);
    expect_each(d, before, [&, row = row, col = col](int r, int c) {
      const int from_row = r - row, from_col = c - col;
      const bool is_inside = from_row >= 0 && from_row < 20 && from_col >= 0 && from_col < 24;
      return is_inside ? at(s, from_row, from_col) : -1;
    });
  }
}

TEST(Move, a_split_insertion_is_an_insertion) {
  Any<float, kCol, kRowBox, 48, 48, TileType::Vec> s(19, 35);
  Any<float, kCol, kRowBox> d(64, 64), e(64, 64), before(64, 64);
  count_up(s, 1), count_up(d, 9), count_up(e, 9), count_up(before, 9);
  const auto want = [&](int r, int c) {
    return r >= 16 && r < 35 && c >= 8 && c < 43 ? at(s, r - 16, c - 8) : -1;
  };
  TINSERT<TInsertMode::SPLIT2>(d, s, 16, 8);
  expect_each(d, before, want);
  TINSERT<TInsertMode::SPLIT4>(e, s, 16, 8);
  expect_each(e, before, want);
}

// Boxes are 16 rows of 32 bytes, whether an element has four bytes or half a one.
template <class T>
void check_rows_to_boxes() {
  constexpr int kBlock = kIsTwin<T> ? 64 : 32 / int(sizeof(T)), kRowBytes = 8 * 32;
  Any<T, kRow, kNone, 48, 8 * kBlock, TileType::Vec> s(48, 8 * kBlock), part(17, 3 * kBlock);
  Any<T, kCol, kRowBox, 32, 6 * kBlock> all(17, 3 * kBlock), from(17, 3 * kBlock),
      into(20, 4 * kBlock);
  const auto bytes_of = [](auto& tile) { return reinterpret_cast<uint8_t*>(tile.data()); };
  for (int i = 0; i < 48 * kRowBytes; ++i) bytes_of(s)[i] = bytes_of(part)[i] = uint8_t(i * 7 / 5);
  for (auto* bytes : {bytes_of(all), bytes_of(from), bytes_of(into)})
    std::memset(bytes, 0xa5, 6 * 32 * 32);
  TMOV<TileCopyMode::ND2NZ>(all, part);
  TEXTRACT<TileCopyMode::ND2NZ>(from, s, 3, kBlock);
  TINSERT<TileCopyMode::ND2NZ>(into, part, 3, kBlock);
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 6 * 32; ++c) {
      const auto want = [&](int row, int col, int more) {
        const bool is_inside = row >= 0 && row < 17 && col >= 0 && col < 3 * 32;
        return is_inside ? bytes_of(s)[row * kRowBytes + col + more] : 0xa5;
      };
      const int at = (c / 32 * 32 + r) * 32 + c % 32;
      EXPECT_EQ(bytes_of(all)[at], want(r, c, 0)) << r << "," << c;
      EXPECT_EQ(bytes_of(from)[at], want(r, c, 3 * kRowBytes + 32)) << r << "," << c;
      EXPECT_EQ(bytes_of(into)[at], want(r - 3, c - 32, 0)) << r << "," << c;
    }
}
TEST(Move, rows_become_boxes_of_32_bytes_by_name) {
  check_rows_to_boxes<float>();
  check_rows_to_boxes<float4_e2m1x2_t>();
}

uint64_t entry(float scale, int offset, bool is_signed) {
  uint32_t bits;
  std::memcpy(&bits, &scale, 4);
  return bits | uint64_t(offset) << 37 | uint64_t(is_signed) << 46;
}
template <class To>
double quantised(double x, float scale, int offset) {
  const double low = kIsSigned<To> ? -128 : 0, high = kIsSigned<To> ? 127 : 255;
  if (kIsFloat<To>) return double(float(To(float(x * double(scale)))));
  const double whole = std::rint(x * double(scale) + offset);
  return whole < low ? low : whole > high ? high : whole;
}
template <class D, class Want>
void expect_all(const D& d, int rows, int cols, Want want) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) ASSERT_EQ(at(d, r, c), want(r, c)) << r << "," << c;
}
template <class T>
TileAcc<T, 48, 48, DYNAMIC, DYNAMIC> accumulator(int rows, int cols) {
  TileAcc<T, 48, 48, DYNAMIC, DYNAMIC> acc(rows, cols);
  for (int r = 0; r < 48; ++r)
    for (int c = 0; c < 48; ++c) acc.SetElement(r, c, T(float((r * 37 + c * 11) % 401 - 200)));
  return acc;
}

constexpr auto kRelu = ReluPreMode::NormalRelu;
constexpr auto kSplitM = AccToVecMode::DualModeSplitM, kSplitN = AccToVecMode::DualModeSplitN;

TEST(Move, accumulators_become_narrower_and_lose_their_negatives) {
  const auto acc = accumulator<float>(40, 35);
  using Acc = TileAcc<float, 48, 48, DYNAMIC, DYNAMIC>;
  using Half = Any<half, kCol, kRowBox>;
  Half h(40, 35);
  Any<bfloat16_t, kRow, kNone, 64, 64, TileType::Vec> b(40, 35);
  Any<float, kRow, kNone, 64, 64, TileType::Vec> v(40, 35);
  const auto same = [&](int r, int c) { return at(acc, r, c); };
  const auto relu = [&](int r, int c) { return std::max(0., at(acc, r, c)); };
  TMOV(h, acc);
  expect_all(h, 40, 35, same);
  TMOV<Half, Acc, kRelu>(h, acc);
  expect_all(h, 40, 35, relu);
  TMOV(b, acc);
  expect_all(b, 40, 35, same);
  TMOV<STPhase::Final>(v, acc);
  expect_all(v, 40, 35, same);
  TMOV<STPhase::Partial, decltype(v), Acc, AccToVecMode::SingleModeVec1, kRelu>(v, acc);
  expect_all(v, 40, 35, relu);
  TMOV<decltype(v), Acc, kSplitM>(v, acc);
  expect_all(v, 40, 35, same);
  v.SetValidShape(20, 35);
  TMOV<decltype(v), Acc, kSplitM, kRelu>(v, acc);
  expect_all(v, 20, 35, relu);
  TEXTRACT<decltype(v), Acc, kSplitN>(v, acc, 3, 5);
  expect_all(v, 20, 35, [&](int r, int c) { return at(acc, r + 3, c + 5); });
  TEXTRACT<Half, Acc, kRelu>(h, acc, 2, 1);
  expect_all(h, 40, 35, [&](int r, int c) { return std::max(0., at(acc, r + 2, c + 1)); });
  TINSERT<Half, Acc, kRelu>(h, acc, 16, 16);
  expect_all(h, 16, 16, [&](int r, int c) { return std::max(0., at(acc, r + 2, c + 1)); });
  EXPECT_EQ(at(h, 20, 21), relu(4, 5));
  TINSERT<decltype(v), Acc, AccToVecMode::SingleModeVec0>(v, acc, 2, 4);
  EXPECT_EQ(at(v, 2, 4), same(0, 0));
}

TEST(Move, two_numbers_are_row_and_column_whatever_their_type) {
  const auto acc = accumulator<float>(40, 35);
  Any<float, kRow, kNone, 64, 64, TileType::Vec> d(40, 35);
  TEXTRACT(d, acc, size_t(2), int64_t(1));
  expect_all(d, 30, 30, [&](int r, int c) { return at(acc, r + 2, c + 1); });
  TINSERT(d, acc, uint64_t(8), uint64_t(9));
  EXPECT_EQ(at(d, 8, 9), at(acc, 0, 0));
}

template <class To, class From>
void check_quantised() {
  const auto acc = accumulator<From>(40, 35);
  using Acc = TileAcc<From, 48, 48, DYNAMIC, DYNAMIC>;
  using Vec = Any<To, kRow, kNone, 64, 64, TileType::Vec>;
  Vec d(40, 35);
  const int offset = kIsFloat<To> ? 0 : 3;
  const uint64_t one = entry(0.25f, offset, kIsSigned<To>);
  const auto want = [&](int r, int c) { return quantised<To>(at(acc, r, c), 0.25f, offset); };
  TMOV(d, acc, one);
  expect_all(d, 40, 35, want);
  TEXTRACT(d, acc, one, 2, 1);
  expect_all(d, 40, 35, [&](int r, int c) { return want(r + 2, c + 1); });
  TEXTRACT<Vec, Acc, kSplitN, kRelu>(d, acc, one, 2, 1);
  expect_all(d, 40, 35, [&](int r, int c) { return std::max(0., want(r + 2, c + 1)); });
  TINSERT(d, acc, one, 8, 8);
  EXPECT_EQ(at(d, 47, 42), want(39, 34));

  Tile<TileType::Scaling, uint64_t, 1, 48> fp;
  for (int c = 0; c < 48; ++c)
    fp.SetValue(c, entry(0.125f * float(c % 5), offset * c / 9, kIsSigned<To>));
  const auto each = [&](int r, int c) {
    return quantised<To>(at(acc, r, c), 0.125f * float(c % 5), offset * c / 9);
  };
  TMOV(d, acc, fp);
  expect_all(d, 40, 35, each);
  TMOV_FP(d, acc, fp);
  expect_all(d, 40, 35, each);
  TEXTRACT_FP(d, acc, fp, 2, 1);
  expect_all(d, 40, 35, [&](int r, int c) { return each(r + 2, c + 1); });
  TINSERT_FP(d, acc, fp, 8, 8);
  EXPECT_EQ(at(d, 47, 42), each(39, 34));
  if constexpr (kSame<To, int8_t> && kSame<From, float>) {
    using Fp = decltype(fp);
    TMOV<Vec, Acc, Fp, kRelu>(d, acc, fp);
    expect_all(d, 40, 35, [&](int r, int c) { return std::max(0., each(r, c)); });
    TMOV<Vec, Acc, Fp, AccToVecMode::SingleModeVec0>(d, acc, fp);
    expect_all(d, 40, 35, each);
    TEXTRACT<Vec, Acc, Fp, kSplitM, kRelu>(d, acc, fp, 1, 1);
    expect_all(d, 40, 35, [&](int r, int c) { return std::max(0., each(r + 1, c + 1)); });
    TEXTRACT<Vec, Acc, Fp, kRelu>(d, acc, fp, 1, 1);
    expect_all(d, 40, 35, [&](int r, int c) { return std::max(0., each(r + 1, c + 1)); });
    TINSERT<Vec, Acc, Fp, kSplitM>(d, acc, fp, 1, 2);
    EXPECT_EQ(at(d, 40, 36), each(39, 34));
    TINSERT<Vec, Acc, Fp, kRelu>(d, acc, fp, 1, 2);
    EXPECT_EQ(at(d, 40, 36), std::max(0., each(39, 34)));
  }
}

TEST(Move, accumulators_are_quantised_by_a_scalar_and_by_column) {
  check_quantised<int8_t, float>();
  check_quantised<uint8_t, int32_t>();
  check_quantised<half, int32_t>();
}

TEST(Move, biases_widen_and_scales_change_their_layout) {
  Tile<TileType::Mat, half, 1, 64> row;
  count_up(row, 5);
  Tile<TileType::Bias, float, 1, 64> bias;
  TMOV(bias, row);
  expect_all(bias, 1, 64, [&](int r, int c) { return at(row, r, c); });
  Any<uint8_t, kRow, kNone> scales(32, 6), tmp;
  count_up(scales, 1);
  TileLeftScale<uint8_t, 32, 6> left;
  TMOV<1>(left, scales, tmp);
  expect_all(left, 32, 6, [&](int r, int c) { return at(scales, r, c); });
  TMOV(left, scales, tmp);
  expect_all(left, 32, 6, [&](int r, int c) { return at(scales, r, c); });
}

}  // namespace pto::move_test
