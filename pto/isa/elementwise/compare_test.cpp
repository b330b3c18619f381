// SPDX-License-Identifier: Apache-2.0
// TCMP, TCMPS, TSEL and TSELS with every comparison and element type, with lane masks and packed
// ones.
#include <gtest/gtest.h>

#include <functional>

#include "tests/isa_oracle.hpp"

namespace pto::compare_test {
using namespace isa;

template <class T>
using Rows = Tile<TileType::Vec, T, 3, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;

template <class T>
using Boxed =
    Tile<TileType::Vec, T, 16, 32, BLayout::ColMajor, DYNAMIC, DYNAMIC, SLayout::RowMajor>;

// A mask of words, of a chosen number of valid bytes a row; TCMP must clear what it does not fill.
template <class Word>
using Mask = Tile<TileType::Vec, Word, 3, 32 / sizeof(Word), BLayout::RowMajor, 3, DYNAMIC>;
template <class Word>
bool bit(const Mask<Word>& mask, int row, int col) {
  constexpr int kBits = 8 * sizeof(Word);
  return (mask.GetElement(row, col / kBits) >> (col % kBits)) & 1;
}

using Holds = std::function<bool(int, int)>;

template <class Word, class D>
std::string check_packed(CmpMode mode, const D& a, const D& b, D& d, const Holds& holds) {
  using T = typename D::DType;
  const int rows = a.GetValidRow(), cols = a.GetValidCol();
  Mask<Word> mask(int(32 / sizeof(Word)));
  for (int i = 0; i < mask.Numel; ++i) mask.SetValue(i, Word(-1));
  TCMP(mask, a, b, mode);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 256; ++c)
      if (bit(mask, r, c) != (r < rows && c < cols && holds(r, c)))
        return "bit " + std::to_string(r) + ", " + std::to_string(c);
  D before = d;
  TSELS(d, mask, a, b, T(Compute<T>(7)));
  const auto or_seven = [&](int r, int c) {
    return holds(r, c) ? wide(a.GetElement(r, c)) : Wide<T>(7);
  };
  std::string wrong = differs(d, before, 0, or_seven);
  if (!wrong.empty()) return "TSELS " + wrong;
  // Lays the bits out as TSEL reads them: the valid bytes of the rows as one stream.
  Mask<Word> stream(2);
  for (int i = 0; i < stream.Numel; ++i) stream.SetValue(i, Word(0));
  const int row_bits = 2 * 8 * int(sizeof(Word));
  for (int i = 0; i < 3 * row_bits; ++i)
    if (i / row_bits < 3 && i < rows * cols && holds(i / cols, i % cols)) {
      const int row = i / row_bits, col = i % row_bits;
      const int word = col / (8 * int(sizeof(Word)));
      stream.SetElement(
          row, word, Word(stream.GetElement(row, word) | Word(1) << col % (8 * int(sizeof(Word)))));
    }
  before = d;
  TSEL(d, stream, a, b);
  const auto chosen = [&](int r, int c) {
    const bool in_mask = r * cols + c < 3 * row_bits;
    return wide((in_mask && holds(r, c) ? a : b).GetElement(r, c));
  };
  wrong = differs(d, before, 0, chosen);
  if (!wrong.empty()) return "TSEL " + wrong;
  TCMPS(mask, a, b, mode);
  TCMPS(mask, a, b.GetValue(0), mode);
  return bit(mask, 0, 0) == holds(0, 0) ? "" : "TCMPS";
}

template <class T>
bool compares(CmpMode mode, T a, T b) {
  switch (mode) {
#define PTO_COMPARE(name, op, value, numpy, types) \
  case CmpMode::name:                              \
    return scalar::name##_value::of(wide(a), wide(b));
#include "pto/isa/instructions.def"
  }
  return false;
}

template <class T>
void check_comparison(const char* name, CmpMode mode) {
  auto a = shaped<Rows<T>>(2, 19), b = a, d = a;
  fill(a, 1), fill(b, 2), fill(d, 3);
  for (int i = 0; i < a.Numel; i += 3) b.SetValue(i, a.GetValue(i));
  const auto before = d;
  auto mask = shaped<Rows<mask32>>(2, 19);
  TCMP(mask, a, b, mode);
  TSEL(d, mask, a, b);
  const Holds holds = [&](int r, int c) {
    return compares(mode, a.GetElement(r, c), b.GetElement(r, c));
  };
  const auto chosen = [&](int r, int c) { return wide((holds(r, c) ? a : b).GetElement(r, c)); };
  EXPECT_EQ(differs(d, before, 0, chosen), "") << name << " " << sizeof(T);
  for (const int cols : {19, 1, 8, 32, 31}) {
    a.SetValidCol(cols), b.SetValidCol(cols), d.SetValidCol(cols);
    EXPECT_EQ(check_packed<uint8_t>(mode, a, b, d, holds), "")
        << name << " " << sizeof(T) << " " << cols;
    EXPECT_EQ(check_packed<uint32_t>(mode, a, b, d, holds), "")
        << name << " " << sizeof(T) << " " << cols;
  }
  a.SetValidCol(19), b.SetValidCol(19);
  TSELS(d, mask, a, b, T(Compute<T>(7)));
  TCMPS(mask, a, b, mode);
  TCMPS(mask, a, b.GetValue(0), mode);
  EXPECT_EQ(bool(mask.GetElement(1, 3)), compares(mode, a.GetElement(1, 3), b.GetValue(0)));
}

TEST(Compare, rows_behind_a_packed_mask_take_the_scalar) {
  using Block = Tile<TileType::Vec, float, 3, 40, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  Block a(3, 37), d(3, 37), tmp;
  for (int i = 0; i < a.Numel; ++i) a.SetValue(i, float(i));
  Tile<TileType::Vec, uint8_t, 1, 32> mask;
  for (int i = 0; i < mask.Numel; ++i) mask.SetValue(i, 0xff);
  TSELS(d, mask, a, tmp, -1.0f);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 37; ++c)
      EXPECT_EQ(d.GetElement(r, c), r == 0 ? a.GetElement(r, c) : -1) << r << "," << c;
}

template <class T>
void check_modes() {
#define PTO_COMPARE(mode, op, value, numpy, types) check_comparison<T>(#mode, CmpMode::mode);
#include "pto/isa/instructions.def"
}

// Row r of a, of 32 columns, begins at bit 32 * r of the mask's valid bytes.
template <class T, class M>
void check_stream(M mask) {
  auto a = shaped<Rows<T>>(2, 19), d = a, b = a;
  fill(a, 1), fill(b, 2);
  for (int i = 0; i < mask.Numel; ++i) mask.SetValue(i, typename M::DType(-1));
  TCMPS(mask, a, a.GetElement(1, 3), CmpMode::GE);
  constexpr int kBits = 8 * sizeof(typename M::DType);
  const int valid = mask.GetValidCol() * kBits;
  for (int i = 0; i < M::Rows * M::Cols * kBits; ++i) {
    const int row = i / (M::Cols * kBits), col = i % (M::Cols * kBits), at = row * valid + col;
    const bool is_set = (mask.GetElement(row, col / kBits) >> col % kBits) & 1;
    const bool is_element = col < valid && at / 32 < 2 && at % 32 < 19;
    EXPECT_EQ(is_set, is_element &&
                          compares(CmpMode::GE, a.GetElement(at / 32, at % 32), a.GetElement(1, 3)))
        << row << ", " << col;
  }
  a.SetValidCol(32), d.SetValidCol(32), b.SetValidCol(32);
  TCMPS(mask, a, a.GetElement(1, 3), CmpMode::GE);
  TSEL(d, mask, a, b);
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(wide(d.GetElement(r, 19)),
              wide((compares(CmpMode::GE, a.GetElement(r, 19), a.GetElement(1, 3)) ? a : b)
                       .GetElement(r, 19)));
}
TEST(Compare, a_scalar_fills_a_wider_mask_as_one_stream) {
  using Bytes = Tile<TileType::Vec, uint8_t, 3, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  check_stream<float>(Bytes(3, 32)), check_stream<half>(Bytes(3, 5)),
      check_stream<int8_t>(Bytes(1, 8));
  check_stream<uint16_t>(Mask<uint32_t>(2)), check_stream<double>(Mask<uint32_t>(8));
}
TEST(Compare, floats_compare_as_their_values_do) {
  check_modes<float>(), check_modes<half>(), check_modes<bfloat16_t>(), check_modes<double>();
}
TEST(Compare, signed_integers_compare_as_their_values_do) {
  check_modes<int8_t>(), check_modes<int16_t>(), check_modes<int32_t>(), check_modes<int64_t>();
}
TEST(Compare, unsigned_integers_compare_as_their_values_do) {
  check_modes<uint8_t>(), check_modes<uint16_t>(), check_modes<uint32_t>(), check_modes<uint64_t>();
}

TEST(Compare, boxed_operands_give_the_same_mask) {
  Boxed<float> a(3, 21), b(3, 21), d(3, 21);
  fill(a, 1), fill(b, 2), fill(d, 3);
  const Holds less = [&](int r, int c) { return a.GetElement(r, c) < b.GetElement(r, c); };
  EXPECT_EQ(check_packed<uint8_t>(CmpMode::LT, a, b, d, less), "");
}

TEST(Compare, a_packed_mask_is_one_stream_of_its_valid_bytes) {
  Tile<TileType::Vec, float, 2, 16> a, b, d;
  TEXPANDS(a, 1.0f);
  TEXPANDS(b, 2.0f);
  Tile<TileType::Vec, uint8_t, 2, 32, BLayout::RowMajor, 2, 2> mask;
  const uint8_t bytes[4] = {0x01, 0x80, 0xff, 0x00};
  for (int i = 0; i < 4; ++i) mask.SetElement(i / 2, i % 2, bytes[i]);
  TSEL(d, mask, a, b);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(d.GetElement(i / 16, i % 16), (bytes[i / 8] >> (i % 8)) & 1 ? 1 : 2) << i;
}

TEST(Compare, masks_combine_bit_by_bit) {
  MicroTile<float, kLanes<float>> x, zero;
  TEXPANDS(zero, 0.0f);
  for (int i = 0; i < x.Numel; ++i) x.SetValue(i, float(i % 3 - 1));
  MicroTile<mask32, kLanes<float>> below, above, both;
  TCMP<CmpMode::LT>(below, x, zero);
  TCMP<CmpMode::GT>(above, x, zero);
  TOR(both, below, above);
  TNOT(above, both);
  TAND(below, below, both);
  TXOR(both, both, below);
  for (int i = 0; i < x.Numel; ++i) {
    EXPECT_EQ(bool(both.GetValue(i)), i % 3 == 2);
    EXPECT_EQ(bool(above.GetValue(i)), i % 3 == 1);
  }
}

}  // namespace pto::compare_test
