// SPDX-License-Identifier: Apache-2.0
// TCVT between all pairs, in every rounding mode, and the conversions of half and bfloat16 on all
// their values.
#include "pto/isa/element/int4.hpp"
#include "pto/isa/elementwise/convert_modes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/isa_oracle.hpp"

namespace pto::convert_test {
using namespace isa;

template <class T, int Count>
using Flat = Tile<TileType::Vec, T, 1, Count, BLayout::RowMajor, 1, DYNAMIC>;

const RoundMode kModes[] = {RoundMode::CAST_NONE,  RoundMode::CAST_RINT, RoundMode::CAST_ROUND,
                            RoundMode::CAST_FLOOR, RoundMode::CAST_CEIL, RoundMode::CAST_TRUNC,
                            RoundMode::CAST_ODD};
constexpr SaturationMode kOff = SaturationMode::OFF, kOn = SaturationMode::ON;

using Real = long double;  // holds every number of 64 bits

// Rounds x to a multiple of `unit`.
Real round_to_multiple(Real x, Real unit, RoundMode mode) {
  const Real q = x / unit, down = std::floor(q);
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return down * unit;
    case RoundMode::CAST_CEIL:
      return std::ceil(q) * unit;
    case RoundMode::CAST_ROUND:
      return std::round(q) * unit;
    case RoundMode::CAST_ODD:
      if (q - down == 0.5) return (std::fmod(down, 2) != 0 ? down : down + 1) * unit;
      return std::nearbyint(q) * unit;
    case RoundMode::CAST_TRUNC:
      return std::trunc(q) * unit;
    default:
      return std::nearbyint(q) * unit;
  }
}

// Return the bounds of an integer type.
template <class T>
Real least() {
  return std::is_same_v<T, int4b_t> ? -8 : Real(lowest<Compute<T>>());
}
template <class T>
Real most() {
  return std::is_same_v<T, int4b_t> ? 7 : Real(highest<Compute<T>>());
}

template <class T>
Real real(T x) {
  if constexpr (std::is_same_v<T, int4b_t>)
    return int(x);
  else if constexpr (std::is_class_v<T>)
    return float(x);
  else
    return x;
}

// Converts x to To; `is_known` is false where C leaves the result open.
template <class From, class To>
Real converted(Real x, RoundMode mode, SaturationMode sat, bool& is_known) {
  is_known = true;
  if constexpr (kIsFloat<To>) {
    if (std::isinf(x) && sat == kOn)
      return std::copysign(Real(std::min(largest<From>(), largest<To>())), x);
    if (x == 0 || !std::isfinite(x) || (kIsFloat<From> && sizeof(To) >= sizeof(From))) return x;
    int exponent = 0;
    std::frexp(x, &exponent);
    const int bits = sizeof(To) == 4 ? 24 : 53, last = sizeof(To) == 4 ? -149 : -1074;
    return round_to_multiple(x, std::ldexp(Real(1), std::max(exponent - bits, last)), mode);
  } else {
    const bool is_cut = mode == RoundMode::CAST_NONE;
    if (kAlwaysClamps<To>) sat = kOn;
    if (std::isnan(x)) return is_known = sat == kOn, 0;
    const Real whole = round_to_multiple(x, 1, is_cut ? RoundMode::CAST_TRUNC : mode);
    if (sat == kOn) return std::min(most<To>(), std::max(least<To>(), whole));
    if (whole >= least<To>() && whole <= most<To>()) return whole;
    // Integers wrap; floats do so where the way leads over 32 bits.
    is_known = !kIsFloat<From> || (sizeof(To) < 4 && std::fabs(whole) < 0x1p31);
    if (!is_known) return 0;
    const Int wrapped = Int(whole);
    return Real(Compute<To>(wrapped));
  }
}

template <class From>
std::vector<From> sources() {
  std::vector<From> found;
  std::mt19937_64 random(5);
  if constexpr (kIsFloat<From>) {
    for (double x : {0.0, -0.0, 0.5, 1.5, 2.5, 127.5, 128.0, 255.5, 256.0, 32767.5, 32768.0,
                     65535.0, 65504.0, 2147483520.0, 2147483648.0, 4e9, 1e18, 3e38, 1e-30})
      for (double y : {x, -x}) found.push_back(From(y));
    for (float x : {NAN, INFINITY, -INFINITY}) found.push_back(From(x));
    for (int i = 0; i < 400; ++i)
      found.push_back(
          From(std::ldexp(double(int(random() % 4096) - 2048), int(random() % 24) - 12)));
    for (int i = 0; std::is_same_v<From, double> && i < 400; ++i)
      found.push_back(From(std::ldexp(double(int64_t(random())), int(random() % 160) - 140)));
  } else {
    for (int shift = 0; shift < 64; ++shift)
      for (int64_t near : {-1, 0, 1})
        for (int64_t x :
             {int64_t(1) << shift, int64_t(3) << shift >> 1, int64_t(random() >> shift)}) {
          const Compute<From> value = Compute<From>(uint64_t(x) + uint64_t(near));
          found.push_back(From(value)), found.push_back(From(Compute<From>(-uint64_t(value))));
        }
  }
  return found;
}

template <class From, class To>
void check_pair() {
  constexpr int kColumns = 1280;
  static Flat<From, kColumns> s;
  static Flat<To, kColumns> d;
  const auto all = sources<From>();
  const int count = int(all.size());
  ASSERT_LT(count, kColumns);
  s.SetValidCol(count), d.SetValidCol(count);
  for (int i = 0; i < count; ++i) s.SetValue(i, all[size_t(i)]);
  fill(d, 5);
  const uint64_t padding = bits_of(d.GetValue(count));
  for (RoundMode mode : kModes)
    for (SaturationMode sat : {kOff, kOn}) {
      if (sat == kOn)
        TCVT(d, s, d, mode, sat);
      else
        TCVT(d, s, mode);
      for (int i = 0; i < count; ++i) {
        bool is_known;
        const Real x = real(s.GetValue(i));
        const Real want = converted<From, To>(x, mode, sat, is_known), got = real(d.GetValue(i));
        ASSERT_TRUE(!is_known || got == want || (std::isnan(got) && std::isnan(want)))
            << double(x) << " becomes " << double(got) << ", should be " << double(want)
            << "; mode " << int(mode) << " saturation " << int(sat) << "; size " << sizeof(From)
            << " to " << sizeof(To);
      }
      ASSERT_EQ(bits_of(d.GetValue(count)), padding);
    }
}

TEST(Convert, floats_become_integers_in_every_mode) {
  check_pair<float, int8_t>(), check_pair<float, uint8_t>();
  check_pair<float, int16_t>(), check_pair<float, int32_t>(), check_pair<float, int64_t>();
  check_pair<half, int32_t>(), check_pair<half, int16_t>(), check_pair<half, int8_t>();
  check_pair<half, uint8_t>(), check_pair<half, int4b_t>(), check_pair<bfloat16_t, int32_t>();
}

TEST(Convert, numbers_become_float_in_every_mode) {
  check_pair<float, float>(), check_pair<half, float>(), check_pair<bfloat16_t, float>();
  check_pair<int16_t, float>(), check_pair<int32_t, float>(), check_pair<int64_t, float>();
}

TEST(Convert, numbers_become_double_and_doubles_become_float_in_every_mode) {
  check_pair<int64_t, double>(), check_pair<float, double>(), check_pair<double, float>();
  check_pair<double, int64_t>(), check_pair<double, int32_t>();
}

TEST(Convert, integers_wrap_and_saturate) {
  check_pair<int16_t, uint8_t>(), check_pair<int16_t, uint32_t>(), check_pair<int16_t, int32_t>();
  check_pair<int32_t, int16_t>(), check_pair<int32_t, uint16_t>(), check_pair<int32_t, int64_t>();
  check_pair<int32_t, uint8_t>(), check_pair<int64_t, int32_t>(), check_pair<uint8_t, uint16_t>();
  check_pair<int8_t, int16_t>(), check_pair<int8_t, int32_t>(), check_pair<uint32_t, uint8_t>();
  check_pair<uint32_t, uint16_t>(), check_pair<uint32_t, int16_t>();
  check_pair<uint64_t, int64_t>(), check_pair<int64_t, uint64_t>();
}

TEST(Convert, doubles_too_large_for_float_overflow_as_the_mode_says) {
  Flat<double, 16> s(4);
  Flat<float, 16> d(4);
  const double x[4] = {1e39, -1e39, 3.4028235e38, -3.4028235e38};
  for (int i = 0; i < 4; ++i) s.SetValue(i, x[i]);
  const float big = 3.40282347e38f, inf = INFINITY;
  const struct {
    RoundMode mode;
    SaturationMode sat;
    float want[4];
  } cases[] = {{RoundMode::CAST_RINT, kOff, {inf, -inf, big, -big}},
               {RoundMode::CAST_FLOOR, kOff, {big, -inf, big, -inf}},
               {RoundMode::CAST_CEIL, kOff, {inf, -big, inf, -big}},
               {RoundMode::CAST_TRUNC, kOff, {big, -big, big, -big}},
               {RoundMode::CAST_RINT, kOn, {big, -big, big, -big}},
               {RoundMode::CAST_CEIL, kOn, {big, -big, big, -big}}};
  for (const auto& c : cases) {
    TCVT(d, s, c.mode, c.sat);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(d.GetValue(i), c.want[i]) << x[i] << " " << int(c.mode);
  }
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

TEST(Convert, rows_columns_and_both_forms_stay_in_the_valid_region) {
  using S = Tile<TileType::Vec, float, 5, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using D = Tile<TileType::Vec, int8_t, 5, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  for (int rows : {0, 3, 5})
    for (int columns : {0, 1, 17, 32}) {
      auto s = shaped<S>(5, 32);
      auto d = shaped<D>(rows, columns);
      for (int i = 0; i < S::Numel; ++i) s.SetValue(i, float(i % 90) + 0.5f);
      fill(d, 1);
      const auto before = d;
      const auto want = [](int r, int c) { return Int(std::ceil((r * 32 + c) % 90 + 0.5f)); };
      TCVT<false>(d, s, RoundMode::CAST_CEIL);
      EXPECT_EQ(differs(d, before, 0, want), "");
      TCVT<true>(d, s, s, RoundMode::CAST_CEIL);
      EXPECT_EQ(differs(d, before, 0, want), "");
    }
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

}  // namespace pto::convert_test
