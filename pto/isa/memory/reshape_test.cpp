// SPDX-License-Identifier: Apache-2.0
// TFILLPAD and its forms, TTRANS between layouts, and tiles that share storage.
#include "pto/isa/memory/reshape.hpp"

#include <gtest/gtest.h>

#include "pto/isa/element/hifloat8.hpp"
#include "pto/isa/element/int4.hpp"
#include "pto/isa/element/narrow_float.hpp"
#include "tests/isa_oracle.hpp"

namespace pto::reshape_test {
using namespace isa;

constexpr auto kRow = BLayout::RowMajor, kCol = BLayout::ColMajor;

template <class T, PadValue P, BLayout B = kRow, SLayout S = SLayout::NoneBox, int R = 48,
          int C = 64, TileType L = TileType::Vec>
using Padded = Tile<L, T, R, C, B, DYNAMIC, DYNAMIC, S, 512, P>;

template <class D>
void count_up(D& tile, int from) {
  for (int r = 0; r < D::Rows; ++r)
    for (int c = 0; c < D::Cols; ++c)
      tile.SetElement(r, c, typename D::DType(float((from + r * 37 + c * 3) % 101)));
}
template <class S>
double at(const S& s, int r, int c) {
  return double(wide(s.GetElement(r, c)));
}
template <class D, class S>
void expect_padded(const D& d, const S& s, int rows, int cols, double padding) {
  for (int r = 0; r < D::Rows; ++r)
    for (int c = 0; c < D::Cols; ++c)
      ASSERT_EQ(at(d, r, c), r < rows && c < cols ? at(s, r, c) : padding) << r << "," << c;
}

template <class T>
void check_fill() {
  using D = Padded<T, PadValue::Max>;
  const double most = kIsFloat<T> ? double(INFINITY) : double(Int(highest<Compute<T>>()));
  const double least = kIsFloat<T> ? double(-INFINITY) : double(Int(lowest<Compute<T>>()));
  for (int rows : {1, 17, 48})
    for (int cols : {1, 31, 64}) {
      Padded<T, PadValue::Null> s(rows, cols);
      count_up(s, 3);
      D d(48, 64);
      TFILLPAD(d, s);
      expect_padded(d, s, rows, cols, most);
      Padded<T, PadValue::Min, kCol, SLayout::RowMajor> nz(48, 64);
      TFILLPAD<TFillPadMode::Normal>(nz, s);
      expect_padded(nz, s, rows, cols, least);
      Padded<T, PadValue::Zero, kRow, SLayout::NoneBox, 64, 128> wide(64, 128);
      TFILLPAD_EXPAND(wide, s);
      expect_padded(wide, s, rows, cols, 0);
      D in_place(rows, cols);
      count_up(in_place, 3);
      TFILLPAD_INPLACE(in_place, in_place);
      expect_padded(in_place, s, rows, cols, most);
      Padded<T, PadValue::Null, kRow, SLayout::ColMajor, 64, 64, TileType::Mat> zn(rows, cols);
      count_up(zn, 3);
      TFILLPAD<decltype(zn), PadValue::Max>(zn, zn);
      expect_padded(zn, s, rows, cols, most);
    }
}
TEST(FillPad, surrounds_the_source_with_the_padding_value) {
  check_fill<float>();
  check_fill<half>();
  check_fill<bfloat16_t>();
  check_fill<int8_t>();
  check_fill<uint8_t>();
  check_fill<int16_t>();
  check_fill<uint16_t>();
  check_fill<int32_t>();
  check_fill<uint32_t>();
}
TEST(FillPad, an_empty_destination_stays_as_it_is) {
  Padded<float, PadValue::Max> s(4, 4), d(0, 64);
  count_up(s, 0), count_up(d, 1);
  TFILLPAD(d, s);
  EXPECT_EQ(d.GetElement(0, 0), 1);
  Padded<float, PadValueCustom(-1.5f)> custom(48, 64);
  TFILLPAD(custom, s);
  EXPECT_EQ(custom.GetElement(47, 63), -1.5f);
}

template <class D, class S>
void check_transpose(int rows, int cols) {
  S s(rows, cols);
  D d, before;
  count_up(s, 0), count_up(d, 50), count_up(before, 50);
  TTRANS(d, s, d);
  for (int r = 0; r < D::Rows; ++r)
    for (int c = 0; c < D::Cols; ++c)
      ASSERT_EQ(at(d, r, c), r < cols && c < rows ? at(s, c, r) : at(before, r, c))
          << r << "," << c << " of " << rows << "x" << cols;
}
template <class T, BLayout B, SLayout S, int R, int C>
using Plain = Tile<TileType::Vec, T, R, C, B, DYNAMIC, DYNAMIC, S>;

TEST(Transpose, swaps_rows_and_columns_of_every_shape) {
  constexpr auto kNone = SLayout::NoneBox;
  for (int rows : {0, 1, 3, 8, 15, 16, 17, 33, 64})
    for (int cols : {1, 2, 7, 16, 31, 48}) {
      check_transpose<Plain<half, kRow, kNone, 48, 64>, Plain<half, kRow, kNone, 64, 48>>(rows,
                                                                                          cols);
      check_transpose<Plain<float, kRow, kNone, 48, 64>, Plain<float, kRow, kNone, 64, 48>>(rows,
                                                                                            cols);
      check_transpose<Plain<uint8_t, kRow, kNone, 64, 64>, Plain<uint8_t, kRow, kNone, 64, 64>>(
          rows, cols);
      check_transpose<Plain<half, kCol, SLayout::RowMajor, 48, 64>,
                      Plain<half, kRow, kNone, 64, 48>>(rows, cols);
    }
  using Wide = Plain<uint8_t, kRow, kNone, 128, 128>;
  for (int rows : {63, 64, 100, 128})
    for (int cols : {64, 65, 127, 128}) check_transpose<Wide, Wide>(rows, cols);
}

// Types without arithmetic of their own travel as bits, whatever they mean.
template <class T>
void check_bits() {
  using View = GlobalTensor<T, Shape<1, 1, 1, 32, 64>, Stride<1, 1, 1, 64, 1>>;
  T memory[32 * 64], out[64 * 32];
  for (int i = 0; i < 32 * 64 * int(sizeof(T)); ++i)
    reinterpret_cast<unsigned char*>(memory)[i] = static_cast<unsigned char>(i * 37 + i / 256);
  Tile<TileType::Mat, T, 32, 64, kCol, 32, 64, SLayout::RowMajor> nz;
  Tile<TileType::Vec, T, 32, 64> nd;
  Tile<TileType::Vec, T, 64, 32> turned;
  TLOAD(nz, View(memory));
  TMOV(nd, nz);
  TTRANS(turned, nd, nd);
  TSTORE(GlobalTensor<T, Shape<1, 1, 1, 64, 32>, Stride<1, 1, 1, 32, 1>>(out), turned);
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 64; ++c)
      ASSERT_EQ(std::memcmp(out + c * 32 + r, memory + r * 64 + c, sizeof(T)), 0) << r << "," << c;
}
TEST(Bits, travel_unchanged_in_every_type) {
  check_bits<float8_e4m3_t>();
  check_bits<float8_e5m2_t>();
  check_bits<float8_e8m0_t>();
  check_bits<hifloat8_t>();
  check_bits<int4b_t>();
  check_bits<double>();
}

// Tiles and views of twins count numbers: rows of odd lengths start within a byte.
template <class T>
void check_halves() {
  const auto half_of = [](const T* p, int i) { return p[i / 2].RawData() >> (i % 2 * 4) & 15; };
  T memory[19 * 37 / 2 + 1], out[37 * 19 / 2 + 1];
  for (size_t i = 0; i < sizeof(memory); ++i) memory[i] = T::FromRaw(uint8_t(i * 37 + i / 16));
  std::memset(static_cast<void*>(out), 0xa5, sizeof(out));
  Tile<TileType::Mat, T, 32, 64, kCol, 19, 37, SLayout::RowMajor> nz, filled;
  Tile<TileType::Right, T, 32, 64, kRow, 19, 37, SLayout::ColMajor> zn;
  Tile<TileType::Vec, T, 32, 64, kRow, 19, 37> nd, part;
  Tile<TileType::Vec, T, 64, 32, kRow, 37, 19> turned;
  TLOAD(nz, GlobalTensor<T, Shape<1, 1, 1, 19, 37>, Stride<1, 1, 1, 37, 1>>(memory));
  TMOV(zn, nz);
  TMOV(nd, zn);
  TTRANS(turned, nd, nd);
  TSTORE(GlobalTensor<T, Shape<1, 1, 1, 37, 19>, Stride<1, 1, 1, 19, 1>>(out), turned);
  TFILLPAD<decltype(filled), PadValue::Max>(filled, nz);
  part.SetElement(2, 1, T::FromRaw(9));
  TINSERT(part, nd, 2, 3);
  for (int r = 0; r < 19; ++r)
    for (int c = 0; c < 37; ++c) {
      const int x = half_of(memory, r * 37 + c);
      ASSERT_EQ(nz.GetElement(r, c).RawData(), x) << r << "," << c;
      ASSERT_EQ(half_of(nd.data(), r * 64 + c), x) << r << "," << c;
      ASSERT_EQ(half_of(out, c * 19 + r), x) << r << "," << c;
      ASSERT_EQ(part.GetElement(r + 2, c + 3).RawData(), x) << r << "," << c;
    }
  EXPECT_EQ(out[37 * 19 / 2].RawData() >> 4, 0xa);
  EXPECT_EQ(part.GetElement(2, 1).RawData(), 9);
  EXPECT_EQ(nz.GetElement(19, 36).RawData() + nz.GetElement(18, 37).RawData(), 0);
  EXPECT_EQ(filled.GetElement(18, 37).RawData(), 7);
  EXPECT_EQ(filled.GetElement(31, 63).RawData(), 7);
}
TEST(Bits, halves_of_bytes_travel_alone) {
  check_halves<float4_e2m1x2_t>();
  check_halves<float4_e1m2x2_t>();
}

TEST(SharedStorage, a_view_is_a_window_of_its_source) {
  Tile<TileType::Vec, float, 32, 64> s;
  count_up(s, 0);
  Tile<TileType::Vec, float, 8, 64, kRow, 8, 16> window;
  TSUBVIEW(window, s, 16, 32);
  EXPECT_EQ(window.GetElement(3, 5), s.GetElement(19, 37));
  TADDS(window, window, 1000.0f);
  EXPECT_EQ(s.GetElement(19, 37), float((19 * 37 + 37 * 3) % 101 + 1000));
  EXPECT_EQ(s.GetElement(19, 48), float((19 * 37 + 48 * 3) % 101));
  TileNz<TileType::Mat, half, 64, 64> nz;
  count_up(nz, 0);
  TileNz<TileType::Mat, half, 64, 16> panel;
  TSUBVIEW(panel, nz, 0, 32);
  EXPECT_EQ(at(panel, 50, 7), at(nz, 50, 39));
}

TEST(SharedStorage, a_reshaped_tile_has_the_bytes_of_its_source) {
  Tile<TileType::Vec, float, 8, 64> s;
  Tile<TileType::Vec, float, 4, 128> d;
  Tile<TileType::Vec, half, 8, 128> halves;
  count_up(s, 0);
  TRESHAPE(d, s);
  EXPECT_EQ(d.GetElement(1, 70), s.GetElement(3, 6));
  TEXPANDS(d, 1.0f);
  TRESHAPE(halves, s);
  EXPECT_EQ(halves.GetElement(7, 127).RawData(), 0x3f80);
  Tile<TileType::Vec, uint32_t, 1, 512> words;
  TRESHAPE(words, s);
  EXPECT_EQ(words.GetElement(0, 511), 0x3f800000u);
  Tile<TileType::Vec, int16_t, 4, 32> a;
  Tile<TileType::Vec, uint32_t, 2, 32> b;
  TRESHAPE(b, a);
  TEXPANDS(b, 0x10002u);
  EXPECT_EQ(a.GetElement(3, 30), 2);
  EXPECT_EQ(a.GetElement(3, 31), 1);
}

TEST(SharedStorage, scales_share_the_storage_of_their_operand) {
  TileLeft<uint8_t, 32, 64> left;
  TileLeftScale<uint8_t, 32, 2> scale;
  TGET_SCALE_ADDR(scale, left);
  scale.SetValue(5, 77);
  EXPECT_EQ(left.GetValue(5), 77);
}

}  // namespace pto::reshape_test
