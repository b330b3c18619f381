// SPDX-License-Identifier: Apache-2.0
// TCVT between all pairs, in every rounding mode, and the conversions of half and bfloat16 on all
// their values; TCMP and TSEL on every comparison, with lane masks and packed ones.
#include "pto/isa/convert.hpp"

#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto {
namespace {

template <class T, int Count>
using Flat = Tile<TileType::Vec, T, 1, Count, BLayout::RowMajor, 1, DYNAMIC>;

// x rounded to a multiple of `unit`.
double round_to_multiple(double x, double unit, RoundMode mode) {
  const double q = x / unit, down = std::floor(q);
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return down * unit;
    case RoundMode::CAST_CEIL:
      return std::ceil(q) * unit;
    case RoundMode::CAST_ROUND:
      return std::round(q) * unit;
    case RoundMode::CAST_RINT:
      return std::nearbyint(q) * unit;
    case RoundMode::CAST_ODD:
      return (q - down == 0.5 ? (std::fmod(down, 2) != 0 ? down : down + 1) : std::nearbyint(q)) *
             unit;
    default:
      return std::trunc(q) * unit;
  }
}

const RoundMode kModes[] = {RoundMode::CAST_RINT, RoundMode::CAST_ROUND, RoundMode::CAST_FLOOR,
                            RoundMode::CAST_CEIL, RoundMode::CAST_TRUNC, RoundMode::CAST_ODD};

TEST(Convert, float_to_integer_rounds_as_asked) {
  Flat<float, 64> s(50);
  for (int i = 0; i < 64; ++i) s.SetValue(i, float(i - 25) / 4);
  for (RoundMode mode : kModes) {
    Flat<int32_t, 64> words(50);
    Flat<int8_t, 64> bytes(50);
    Flat<int64_t, 64> longs(50);
    TCVT(words, s, mode);
    TCVT(bytes, s, mode);
    TCVT(longs, s, mode);
    for (int i = 0; i < 50; ++i) {
      const double want = round_to_multiple(s.GetValue(i), 1, mode);
      EXPECT_EQ(words.GetValue(i), want) << s.GetValue(i) << " mode " << int(mode);
      EXPECT_EQ(bytes.GetValue(i), want) << s.GetValue(i) << " mode " << int(mode);
      EXPECT_EQ(longs.GetValue(i), want) << s.GetValue(i) << " mode " << int(mode);
    }
  }
}

template <class T>
void check_narrowing() {
  Flat<float, 64> s(64);
  for (int i = 0; i < 64; ++i)
    s.SetValue(i, std::ldexp(1.0f + float(i) / 4096 + (i > 32 ? 0x1p-9f : 0), i % 7 - 3) *
                      (i % 2 ? -1 : 1));
  for (RoundMode mode : kModes) {
    Flat<T, 64> d(64);
    TCVT(d, s, mode);
    for (int i = 0; i < 64; ++i) {
      const double x = s.GetValue(i);
      EXPECT_EQ(float(d.GetValue(i)), round_to_multiple(x, spacing<T>(x), mode))
          << x << " mode " << int(mode);
    }
  }
}

TEST(Convert, float_to_half_rounds_as_asked) {
  check_narrowing<half>();
  check_narrowing<bfloat16_t>();
}

// The vector conversion, the scalar class and arithmetic on the bits agree on all 65536 values.
template <class T>
void check_all_values() {
  for (uint32_t base = 0; base < 65536; base += 64) {
    Flat<T, 64> s(64), back(64);
    Flat<float, 64> f(64);
    for (uint32_t i = 0; i < 64; ++i) s.SetValue(int(i), T::FromRaw(uint16_t(base + i)));
    TCVT(f, s);
    TCVT(back, f, RoundMode::CAST_RINT);
    for (int i = 0; i < 64; ++i) {
      const uint16_t raw = s.GetValue(i).RawData();
      const float one = float(s.GetValue(i));
      if (std::isnan(one)) {
        EXPECT_TRUE(std::isnan(f.GetValue(i))) << raw;
        EXPECT_TRUE(std::isnan(float(back.GetValue(i)))) << raw;
        continue;
      }
      EXPECT_EQ(bits_of(f.GetValue(i)), bits_of(one)) << raw;
      EXPECT_EQ(back.GetValue(i).RawData(), raw);
      EXPECT_EQ(T(one).RawData(), raw);
    }
  }
}

TEST(Convert, every_half_and_bfloat16_survives_float) {
  check_all_values<half>();
  check_all_values<bfloat16_t>();
}

TEST(Convert, half_rounds_to_even_at_overflow_and_below_the_subnormals) {
  EXPECT_EQ(half(65519.996f).RawData(), 0x7bff);
  EXPECT_EQ(half(65520.0f).RawData(), 0x7c00);
  EXPECT_EQ(half(0x1p-25f).RawData(), 0x0000);
  EXPECT_EQ(half(0x1.8p-25f).RawData(), 0x0001);
  EXPECT_EQ(float(half::FromRaw(0x0001)), 0x1p-24f);
  EXPECT_TRUE(std::isnan(float(half(NAN))));
  EXPECT_EQ(bfloat16_t(3.4e38f).RawData(), 0x7f80);
}

TEST(Convert, saturation_clamps_and_makes_nan_zero) {
  Flat<float, 16> s(16);
  const float values[16] = {NAN,    INFINITY, -INFINITY, 1e20f, -1e20f, 127.4f, 127.6f, -128.6f,
                            255.5f, 256,      -1,        0,     -0.f,   3e9f,   -3e9f,  100};
  for (int i = 0; i < 16; ++i) s.SetValue(i, values[i]);
  Flat<int8_t, 16> bytes(16);
  Flat<int32_t, 16> words(16);
  TCVT(bytes, s, RoundMode::CAST_RINT, SaturationMode::ON);
  TCVT(words, s, RoundMode::CAST_RINT, SaturationMode::ON);
  for (int i = 0; i < 16; ++i) {
    const double x = std::isnan(values[i]) ? 0 : std::nearbyint(double(values[i]));
    EXPECT_EQ(bytes.GetValue(i), std::min(127.0, std::max(-128.0, x))) << values[i];
    EXPECT_EQ(words.GetValue(i), std::min(2147483647.0, std::max(-2147483648.0, x))) << values[i];
  }
  Flat<int64_t, 16> longs(16);
  for (int i = 0; i < 16; ++i) longs.SetValue(i, (i - 8) * 100);
  Flat<uint8_t, 16> unsigned_bytes(16);
  TCVT(unsigned_bytes, longs, RoundMode::CAST_NONE, SaturationMode::ON);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(unsigned_bytes.GetValue(i), std::min(255, std::max(0, (i - 8) * 100)));
}

template <class From, class To>
void check_pair() {
  Flat<From, 32> s(31);
  for (int i = 0; i < 32; ++i) s.SetValue(i, From(Compute<From>(i % 7 * 3)));
  Flat<To, 32> d(31);
  fill(d, 5);
  const auto before = d;
  TCVT(d, s, RoundMode::CAST_RINT);
  EXPECT_EQ(differs(d, before, 0, [&](int, int c) { return Wide<To>(c % 7 * 3); }), "")
      << sizeof(From) << " to " << sizeof(To);
}

template <class From>
void check_pairs() {
  check_pair<From, float>();
  check_pair<From, half>();
  check_pair<From, bfloat16_t>();
  check_pair<From, double>();
  check_pair<From, int32_t>();
  check_pair<From, int64_t>();
  check_pair<From, int16_t>();
  check_pair<From, uint8_t>();
  check_pair<From, int8_t>();
  check_pair<From, uint32_t>();
}

TEST(Convert, every_pair_of_types_keeps_what_both_hold) {
  check_pairs<float>();
  check_pairs<half>();
  check_pairs<bfloat16_t>();
  check_pairs<double>();
  check_pairs<int32_t>();
  check_pairs<int64_t>();
  check_pairs<int16_t>();
  check_pairs<uint8_t>();
}

TEST(Convert, masks_become_one_and_zero_and_numbers_become_masks) {
  Flat<float, 32> x(32), ones(32);
  Flat<mask32, 32> mask(32);
  Flat<uint8_t, 32> bytes(32);
  for (int i = 0; i < 32; ++i) x.SetValue(i, i % 3 == 0 ? 0 : i % 3 == 1 ? -2.5f : NAN);
  TCVT(mask, x);
  TCVT(ones, mask);
  TCVT(bytes, mask);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(mask.GetValue(i).raw, i % 3 ? -1 : 0);
    EXPECT_EQ(ones.GetValue(i), i % 3 ? 1 : 0);
    EXPECT_EQ(bytes.GetValue(i), i % 3 ? 1 : 0);
  }
}

template <class T>
using Rows = Tile<TileType::Vec, T, 3, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;

template <class T, class Scalar>
void check_comparison(const char* name, CmpMode mode) {
  auto a = shaped<Rows<T>>(2, 19), b = a, d = a;
  fill(a, 1), fill(b, 2), fill(d, 3);
  for (int i = 0; i < a.Numel; i += 3) b.SetValue(i, a.GetValue(i));
  const auto before = d;
  auto mask = shaped<Rows<mask32>>(2, 19);
  TCMP(mask, a, b, mode);
  TSEL(d, mask, a, b);
  const auto holds = [&](int r, int c) {
    return Scalar::of(wide(a.GetElement(r, c)), wide(b.GetElement(r, c)));
  };
  const auto chosen = [&](int r, int c) { return wide((holds(r, c) ? a : b).GetElement(r, c)); };
  EXPECT_EQ(differs(d, before, 0, chosen), "") << name << " " << sizeof(T);
  Tile<TileType::Vec, uint8_t, 3, 32> packed;
  TCMP(packed, a, b, mode);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 19; ++c)
      EXPECT_EQ((packed.GetElement(r, c / 8) >> (c % 8)) & 1, holds(r, c)) << name << r << "," << c;
  EXPECT_EQ(packed.GetElement(0, 2) >> 3, 0);
  EXPECT_EQ(packed.GetElement(2, 0), 0);
  TSELS(d, packed, a, b, T(Compute<T>(7)));
  EXPECT_EQ(
      differs(d, before, 0,
              [&](int r, int c) { return holds(r, c) ? wide(a.GetElement(r, c)) : Wide<T>(7); }),
      "")
      << name;
  TCMPS(mask, a, b.GetValue(0), mode);
  EXPECT_EQ(bool(mask.GetElement(1, 3)), Scalar::of(wide(a.GetElement(1, 3)), wide(b.GetValue(0))));
}

TEST(Compare, every_mode_holds_where_its_expression_does) {
#define PTO_COMPARE(mode, op, value, numpy, types)                       \
  check_comparison<float, scalar::mode##_value>(#mode, CmpMode::mode);   \
  check_comparison<half, scalar::mode##_value>(#mode, CmpMode::mode);    \
  check_comparison<double, scalar::mode##_value>(#mode, CmpMode::mode);  \
  check_comparison<int64_t, scalar::mode##_value>(#mode, CmpMode::mode); \
  check_comparison<int32_t, scalar::mode##_value>(#mode, CmpMode::mode); \
  check_comparison<uint8_t, scalar::mode##_value>(#mode, CmpMode::mode);
#include "pto/isa/instructions.def"
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

}  // namespace
}  // namespace pto
