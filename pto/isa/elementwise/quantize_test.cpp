// SPDX-License-Identifier: Apache-2.0
// Quantisation against plain loops: integers with a scale a row, groups of 32 in both formats,
// both scale algorithms and along both axes, at the edges of valid regions, with NaN and infinity.
#include "pto/isa/elementwise/quantize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tests/isa_oracle.hpp"

namespace pto::quantize_test {
using namespace isa;

constexpr int kRows = 70, kColumns = 96;
template <class T>
using Block = Tile<TileType::Vec, T, kRows, kColumns, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
using Column = Tile<TileType::Vec, float, 72, 1, BLayout::ColMajor, DYNAMIC, 1>;

template <class T>
void fill_floats(T& tile, unsigned seed) {
  std::mt19937 random(seed);
  using E = typename T::DType;
  for (int i = 0; i < T::Numel; ++i) {
    const int kind = int(random() % 200);
    const float x = std::ldexp(float(int(random() % 4001) - 2000), int(i / 1500 % 12) * 2 - 18);
    tile.SetValue(i, E(kind == 0 ? NAN : kind == 1 ? -INFINITY : kind == 2 ? -0.f : x));
  }
}

TEST(Quantize, int8_is_the_rounded_product_of_its_row) {
  auto s = shaped<Block<float>>(33, 61);
  fill_floats(s, 1);
  Column scale(30), offset(30);
  for (int r = 0; r < 72; ++r) {
    scale.SetValue(r, 0.01f * float(r + 1));
    offset.SetValue(r, float(r) * 4.5f - 20);
  }
  auto d = shaped<Block<int8_t>>(33, 61), before = d;
  auto u = shaped<Block<uint8_t>>(33, 61), before_u = u;
  fill(d, 1), before = d, fill(u, 1), before_u = u;
  const auto limited = [](float x, int low, int high) {
    return Int(std::isnan(x) ? 0 : std::min(float(high), std::max(float(low), std::nearbyint(x))));
  };
  const auto product = [&](int r, int c) {
    volatile float x = s.GetElement(r, c) * scale.GetValue(std::min(r, 29));
    return float(x);
  };
  const auto signed_want = [&](int r, int c) { return limited(product(r, c), -128, 127); };
  const auto unsigned_want = [&](int r, int c) {
    return limited(product(r, c) + offset.GetValue(std::min(r, 29)), 0, 255);
  };
  TQUANT<QuantType::INT8_SYM>(d, s, scale);
  EXPECT_EQ(differs(d, before, 0, signed_want), "");
  d = before;
  TQUANT<QuantType::INT8_SYM>(d, s, scale, s);
  EXPECT_EQ(differs(d, before, 0, signed_want), "");
  TQUANT<QuantType::INT8_ASYM>(u, s, scale, &offset);
  EXPECT_EQ(differs(u, before_u, 0, unsigned_want), "");
  u = before_u;
  TQUANT<QuantType::INT8_ASYM>(u, s, scale, s, &offset);
  EXPECT_EQ(differs(u, before_u, 0, unsigned_want), "");
  d = before;
  TQUANT<QuantType::INT8_SYM>(d, s, scale, &scale);
  EXPECT_EQ(differs(d, before, 0, signed_want), "");
  auto part = shaped<Block<int8_t>>(20, 40);
  fill(part, 1);
  const auto before_part = part;
  TQUANT<QuantType::INT8_SYM>(part, s, scale);
  EXPECT_EQ(differs(part, before_part, 0, signed_want), "");
}

// True where every element of two tiles is the same, padding too.
template <class T>
bool all_equal(const T& a, const T& b) {
  return std::equal(a.data(), a.data() + T::Numel, b.data());
}

TEST(Quantize, without_parameters_the_destination_stays) {
  auto s = shaped<Block<float>>(5, 40);
  fill_floats(s, 2);
  Column some(5), none(0);
  for (int r = 0; r < 72; ++r) some.SetValue(r, 2.f), none.SetValue(r, 3.f);
  auto d = shaped<Block<int8_t>>(5, 40);
  fill(d, 1);
  const auto before = d;
  TQUANT<QuantType::INT8_SYM>(d, s, none);
  EXPECT_TRUE(all_equal(d, before));
  auto u = shaped<Block<uint8_t>>(5, 40);
  fill(u, 1);
  const auto before_u = u;
  TQUANT<QuantType::INT8_ASYM>(u, s, some, &none);
  EXPECT_TRUE(all_equal(u, before_u));
  auto f = shaped<Block<float>>(5, 40);
  fill(f, 1);
  const auto before_f = f;
  TDEQUANT(f, d, none, some);
  TDEQUANT(f, d, some, none);
  EXPECT_EQ(std::memcmp(f.data(), before_f.data(), Block<float>::Numel * sizeof(float)), 0);
}

struct Group {
  double most = 0;  // NaN where that counts
  int code = 0;
  float scaling = 0;
};

// Computes the exponent in which 2^code - 127 counts, by logarithms.
Group group_of(const std::vector<float>& x, bool is_fp8, bool is_nv) {
  Group g;
  bool has_nan = false;
  for (float v : x) {
    double size = std::fabs(v);
    if (!is_fp8 && !is_nv && std::isfinite(v) && v != 0) {  // as bfloat16, cut
      const double unit = std::ldexp(1, std::max(std::ilogb(size), -126) - 7);
      size = std::floor(size / unit) * unit;
    }
    has_nan |= std::isnan(v);
    if (size > g.most) g.most = size;
  }
  if (is_nv) {
    volatile float scale = float(g.most) * (is_fp8 ? 1.0f / 448 : 1.0f / 6);
    if (scale == 0)
      g.code = 0;
    else if (std::isinf(scale))
      g.code = 254;
    else
      g.code = std::max(0, std::min(254, int(std::ceil(std::log2(double(scale)))) + 127));
  } else if (g.most > 0) {
    const int exponent = std::isinf(g.most) ? 128 : std::ilogb(g.most);
    g.code = std::max(0, exponent + 127 - (is_fp8 ? 8 : 2));
  }
  if (has_nan && !is_fp8) g.most = NAN, g.code = 255;
  g.scaling = g.code == 255 ? NAN : float(std::ldexp(1.0, 127 - g.code));
  return g;
}

uint8_t code_of(float x, bool is_fp8) {
  if (is_fp8) return float8_e4m3_t(std::isnan(x) ? x : std::min(448.f, std::max(-448.f, x))).raw;
  return float4_e2m1x2_t(x).raw;
}

bool same(float a, double b) { return std::isnan(b) ? std::isnan(a) : double(a) == b; }

using Flat = Tile<TileType::Vec, float, 1, 7168>;
using Codes = Tile<TileType::Vec, uint8_t, 1, 7168>;

struct Results {
  Codes exponents, zz;
  Flat most, scaling;
};

// Checks the `codes` of a call (bytes, `pitch` per row) and its results.
template <class S>
void check_groups(const S& s, const uint8_t* codes, int pitch, const Results& got, int axis,
                  bool is_fp8, bool is_nv, bool interleaves) {
  const int rows = s.GetValidRow(), columns = s.GetValidCol();
  const int lines = axis == 1 ? rows : columns, length = axis == 1 ? columns : rows;
  for (int line = 0; line < lines; ++line)
    for (int at = 0; at < length; at += 32) {
      const auto element = [&](int i) {
        return float(axis == 1 ? s.GetElement(line, at + i) : s.GetElement(at + i, line));
      };
      std::vector<float> x;
      for (int i = 0; i < std::min(32, length - at); ++i) x.push_back(element(i));
      const Group want = group_of(x, is_fp8, is_nv);
      const int g = at / 32;
      const int index = axis == 1 ? line * ((columns + 31) / 32) + g : g * columns + line;
      const int stored = interleaves ? (g / 2 * columns + line) * 2 + g % 2 : index;
      ASSERT_EQ(int(got.exponents.GetValue(stored)), want.code) << line << " " << at;
      ASSERT_TRUE(same(got.most.GetValue(index), want.most)) << want.most;
      ASSERT_TRUE(same(got.scaling.GetValue(index), want.scaling)) << want.scaling;
      for (size_t i = 0; i < x.size(); ++i) {
        const int r = axis == 1 ? line : at + int(i), c = axis == 1 ? at + int(i) : line;
        const uint8_t byte = codes[r * pitch + (is_fp8 ? c : c / 2)];
        const uint8_t code = is_fp8 ? byte : c % 2 ? byte >> 4 : byte & 15;
        ASSERT_EQ(int(code), int(code_of(x[i] * want.scaling, is_fp8))) << x[i] << " " << r << c;
      }
    }
}

template <class S, class D, MxQuantAlg Alg>
void check_alg(const S& s, D& d, int pitch) {
  constexpr bool kIsFp8 = Alg == MxQuantAlg::OcpMxFp8E4M3 || Alg == MxQuantAlg::NvMxFp8E4M3;
  constexpr bool kIsNv = Alg == MxQuantAlg::NvMxFp8E4M3 || Alg == MxQuantAlg::NvMxFp4E2M1;
  static Results got;
  const auto* codes = reinterpret_cast<const uint8_t*>(d.data());
  TQUANT<0, Alg>(d, s, &got.exponents, &got.most, &got.scaling);
  check_groups(s, codes, pitch, got, 0, kIsFp8, kIsNv, false);
  TQUANT<0, Alg, true>(d, s, &got.exponents, &got.most, &got.scaling);
  check_groups(s, codes, pitch, got, 0, kIsFp8, kIsNv, true);
  TQUANT<1, Alg>(d, s, &got.exponents, &got.most, &got.scaling);
  check_groups(s, codes, pitch, got, 1, kIsFp8, kIsNv, false);
}

template <class T>
void check_formats() {
  static Block<T> s;
  static Block<int8_t> bytes;
  static Block<float8_e4m3_t> numbers;
  static Tile<TileType::Vec, float4_e2m1x2_t, kRows, kColumns / 2> pairs;
  for (int columns : {96, 64, 37, 1, 0})
    for (int rows : {70, 33}) {
      s.SetValidShape(rows, columns);
      fill_floats(s, unsigned(columns));
      if (columns > 40)
        for (int i = 0; i < 32; ++i) s.SetElement(0, i, T(0.f));
      check_alg<Block<T>, Block<int8_t>, MxQuantAlg::OcpMxFp8E4M3>(s, bytes, kColumns);
      check_alg<Block<T>, Block<float8_e4m3_t>, MxQuantAlg::NvMxFp8E4M3>(s, numbers, kColumns);
      check_alg<Block<T>, decltype(pairs), MxQuantAlg::OcpMxFp4E2M1>(s, pairs, kColumns / 2);
      check_alg<Block<T>, decltype(pairs), MxQuantAlg::NvMxFp4E2M1>(s, pairs, kColumns / 2);
    }
}

TEST(Quantize, groups_of_floats_share_an_exponent) { check_formats<float>(); }
TEST(Quantize, groups_of_halves_share_an_exponent) { check_formats<half>(); }
TEST(Quantize, groups_of_bfloat16_share_an_exponent) { check_formats<bfloat16_t>(); }

template <class T>
void check_older_forms() {
  static Tile<TileType::Vec, T, 32, 128> s;
  static Tile<TileType::Vec, int8_t, 32, 128> d;
  static Tile<TileType::Vec, float4_e2m1x2_t, 32, 64> pairs;
  static Results got;
  fill_floats(s, 9);
  const auto* codes = reinterpret_cast<const uint8_t*>(d.data());
  TQUANT<QuantType::MXFP8>(d, s, &got.exponents, &got.most, &got.scaling);
  check_groups(s, codes, 128, got, 1, true, false, false);
  TQUANT<QuantType::MXFP8, decltype(d), decltype(s), Codes, Flat, Flat, QuantScaleAlg::NV>(
      d, s, &got.exponents, &got.most, &got.scaling);
  check_groups(s, codes, 128, got, 1, true, true, false);
  TQUANT<QuantType::MXFP4_E2M1>(pairs, s, &got.exponents, &got.most, &got.scaling);
  check_groups(s, reinterpret_cast<const uint8_t*>(pairs.data()), 64, got, 1, false, false, false);
  Tile<TileType::Vec, uint16_t, 1, 16> indices;
  TQUANT<QuantType::MXFP8, VecStoreMode::NZ>(d, s, &got.exponents, &got.most, &got.scaling, &got.zz,
                                             &indices);
  check_groups(s, codes, 128, got, 1, true, false, false);
  int at = 0;
  for (int block_row = 0; block_row < 32; block_row += 16)
    for (int block = 0; block < 4; block += 2)
      for (int r = 0; r < 16; ++r)
        for (int c = 0; c < 2; ++c, ++at)
          EXPECT_EQ(got.zz.GetValue(at), got.exponents.GetValue((block_row + r) * 4 + block + c));
}

TEST(Quantize, older_forms_are_the_same_along_rows) {
  check_older_forms<float>();
  check_older_forms<half>();
  check_older_forms<bfloat16_t>();
}

// A tile of exponents with a row for each line of groups holds them by row and column.
TEST(Quantize, exponents_of_a_grid_lie_at_their_group) {
  Tile<TileType::Vec, float, 64, 96, BLayout::RowMajor, 50, 96> s;
  Tile<TileType::Vec, int8_t, 64, 96, BLayout::RowMajor, 50, 96> d;
  Tile<TileType::Vec, uint8_t, 64, 32, BLayout::RowMajor, 50, 3> by_row;
  Tile<TileType::Vec, uint8_t, 2, 128, BLayout::RowMajor, 2, 96> by_column;
  static Results flat, other;
  fill_floats(s, 4);
  TQUANT<1, MxQuantAlg::OcpMxFp8E4M3>(d, s, &flat.exponents, &flat.most, &flat.scaling);
  TQUANT<1, MxQuantAlg::OcpMxFp8E4M3>(d, s, &by_row, &other.most, &other.scaling);
  for (int r = 0; r < 50; ++r)
    for (int g = 0; g < 3; ++g)
      ASSERT_EQ(by_row.GetElement(r, g), flat.exponents.GetValue(r * 3 + g)) << r << " " << g;
  ASSERT_EQ(other.scaling.GetValue(149), flat.scaling.GetValue(149));
  TQUANT<0, MxQuantAlg::OcpMxFp8E4M3>(d, s, &flat.exponents, &flat.most, &flat.scaling);
  TQUANT<0, MxQuantAlg::OcpMxFp8E4M3>(d, s, &by_column, &other.most, &other.scaling);
  for (int g = 0; g < 2; ++g)
    for (int c = 0; c < 96; ++c)
      ASSERT_EQ(by_column.GetElement(g, c), flat.exponents.GetValue(g * 96 + c)) << g << " " << c;
}

TEST(Quantize, a_destination_of_fewer_rows_bounds_the_source) {
  Tile<TileType::Vec, float, 64, 32, BLayout::RowMajor, DYNAMIC, 32> s(64);
  Tile<TileType::Vec, int8_t, 16, 32> d;
  std::vector<int8_t> memory(64 * 32, 99);
  static Results got;
  d.bind(memory.data());
  TEXPANDS(s, 1.f);
  got.exponents.SetValue(16, 77);
  TQUANT<1, MxQuantAlg::OcpMxFp8E4M3>(d, s, &got.exponents, &got.most, &got.scaling);
  EXPECT_NE(memory[16 * 32 - 1], 99);
  for (size_t i = 16 * 32; i < memory.size(); ++i) ASSERT_EQ(memory[i], 99) << i;
  EXPECT_EQ(int(got.exponents.GetValue(16)), 77);
}

TEST(Quantize, exponents_at_the_ends_of_the_range) {
  Tile<TileType::Vec, float, 5, 32> s;
  Tile<TileType::Vec, int8_t, 5, 32> d;
  static Results got;
  TEXPANDS(s, 0.f);
  const float largest[5] = {0.f, INFINITY, 3.4e38f, 1e-45f, NAN};
  for (int r = 0; r < 5; ++r) s.SetElement(r, 3, largest[r]);
  TQUANT<1, MxQuantAlg::NvMxFp8E4M3>(d, s, &got.exponents, &got.most, &got.scaling);
  const int nv[5] = {0, 254, 247, 0, 0};
  for (int r = 0; r < 5; ++r) EXPECT_EQ(int(got.exponents.GetValue(r)), nv[r]) << r;
  EXPECT_EQ(got.scaling.GetValue(1), 0x1p-127f);
  TQUANT<1, MxQuantAlg::OcpMxFp8E4M3>(d, s, &got.exponents, &got.most, &got.scaling);
  const int ocp[5] = {0, 247, 246, 0, 0};
  for (int r = 0; r < 5; ++r) EXPECT_EQ(int(got.exponents.GetValue(r)), ocp[r]) << r;
  EXPECT_EQ(d.GetElement(1, 3), 0x7e);
  EXPECT_EQ(d.GetElement(4, 3) & 0x7f, 0x7f);
}

template <class T, class P>
void check_dequantize(int parameter_columns) {
  auto s = shaped<Block<T>>(20, 45);
  fill(s, 3);
  auto d = shaped<Block<float>>(20, 45);
  fill(d, 4);
  const auto before = d;
  auto scale = shaped<P>(20, parameter_columns), offset = scale;
  for (int i = 0; i < P::Numel; ++i) {
    scale.SetValue(i, 0.1f * float(i % 13 + 1));
    offset.SetValue(i, float(i % 31) - 11);
  }
  TDEQUANT(d, s, scale, offset);
  const auto want = [&](int r, int c) {
    const int p = std::min(c, parameter_columns - 1);
    return double((float(s.GetElement(r, c)) - offset.GetElement(r, p)) * scale.GetElement(r, p));
  };
  EXPECT_EQ(differs(d, before, 0, want), "") << parameter_columns;
}

TEST(Quantize, dequantisation_takes_parameters_of_the_row_and_column) {
  using Columns = Tile<TileType::Vec, float, 24, 8, BLayout::ColMajor, DYNAMIC, DYNAMIC>;
  for (int columns : {1, 2, 40, 45, 96}) {
    check_dequantize<int8_t, Block<float>>(columns);
    check_dequantize<int16_t, Block<float>>(columns);
  }
  check_dequantize<int8_t, Columns>(1);
  check_dequantize<int16_t, Columns>(5);
}

}  // namespace pto::quantize_test
