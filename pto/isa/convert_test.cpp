// SPDX-License-Identifier: Apache-2.0
// TCVT between all pairs, in every rounding mode, and the conversions of half and bfloat16 on all
// their values.
#include "pto/isa/convert_modes.hpp"

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

}  // namespace
}  // namespace pto
