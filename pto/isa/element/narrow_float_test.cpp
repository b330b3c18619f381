// SPDX-License-Identifier: Apache-2.0
// Conversions towards floats in every rounding mode. A formula lists each type's numbers, and a
// search among them gives the result of every source between two of them. Sources are all patterns
// of 8 and 16 bits, and the numbers, their midpoints and both neighbours of those; with PTO_DEEP=1
// all 2^32 floats to the nearest, and an eighth of them in each other mode.
#include "pto/isa/element/int4.hpp"
#include "pto/isa/elementwise/convert_modes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/deep.hpp"
#include "tests/isa_oracle.hpp"

namespace pto::narrow_float_test {
using namespace isa;

const RoundMode kModes[] = {RoundMode::CAST_NONE,  RoundMode::CAST_RINT, RoundMode::CAST_ROUND,
                            RoundMode::CAST_FLOOR, RoundMode::CAST_CEIL, RoundMode::CAST_TRUNC,
                            RoundMode::CAST_ODD};

// A type's numbers from 0 up, the next one beyond them, and the value that stands in its place.
struct Numbers {
  std::vector<double> values;
  double beyond, overflow;
};

Numbers minifloat(int exponent_bits, int mantissa_bits, int bias, int left_out, double overflow) {
  Numbers n;
  const int codes = 1 << (exponent_bits + mantissa_bits);
  for (int code = 0; code < codes; ++code) {
    const int field = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    const double fraction = std::ldexp(mantissa, -mantissa_bits);
    n.values.push_back(field ? std::ldexp(1 + fraction, field - bias)
                             : std::ldexp(fraction, 1 - bias));
  }
  n.beyond = n.values[size_t(codes - left_out) - (left_out == 0)];
  n.values.resize(size_t(codes - left_out));
  n.overflow = left_out == 0 ? n.values.back() : overflow;
  return n;
}

Numbers hifloat() {
  Numbers n;
  for (int e = -22; e < -15; ++e) n.values.push_back(std::ldexp(1, e));
  for (int e = -15; e <= 15; ++e) {
    const int size = e < 0 ? -e : e, width = size < 4 ? 3 : size < 8 ? 2 : 1;
    for (int m = 0; m < 1 << width; ++m)
      n.values.push_back(std::ldexp(1 + std::ldexp(m, -width), e));
  }
  n.values.insert(n.values.begin(), 0.0);
  n.beyond = n.values.back();
  n.values.pop_back();
  n.overflow = INFINITY;
  return n;
}

template <class T>
const Numbers& numbers() {
  static const Numbers found = [] {
    if (std::is_same_v<T, half>) return minifloat(5, 10, 15, 1024, INFINITY);
    if (std::is_same_v<T, bfloat16_t>) return minifloat(8, 7, 127, 128, INFINITY);
    if (std::is_same_v<T, float8_e4m3_t>) return minifloat(4, 3, 7, 1, NAN);
    if (std::is_same_v<T, float8_e5m2_t>) return minifloat(5, 2, 15, 4, INFINITY);
    if (std::is_same_v<T, float4_e2m1x2_t>) return minifloat(2, 1, 1, 0, 0);
    if (std::is_same_v<T, float4_e1m2x2_t>) return minifloat(1, 2, 1, 0, 0);
    return hifloat();
  }();
  return found;
}

bool points_to_zero(RoundMode mode, bool is_negative) {
  return mode == RoundMode::CAST_TRUNC ||
         mode == (is_negative ? RoundMode::CAST_CEIL : RoundMode::CAST_FLOOR);
}

// Rounds x; `hint` is where the last search ended.
double rounded_to(const Numbers& n, double x, RoundMode mode, bool saturates, size_t& hint) {
  const double size = std::fabs(x), most = n.values.back();
  if (std::isnan(x)) return n.overflow == most ? most : x;
  if (std::isinf(x)) return std::copysign(saturates ? most : n.overflow, x);
  size_t i = hint;
  if (n.values[i] > size || (i + 1 < n.values.size() && n.values[i + 1] <= size))
    i = size_t(std::upper_bound(n.values.begin(), n.values.end(), size) - n.values.begin()) - 1;
  hint = i;
  const double low = n.values[i];
  if (low == size) return x;
  const double high = i + 1 < n.values.size() ? n.values[i + 1] : n.beyond;
  bool up = size - low > high - size;
  if (size - low == high - size)
    up = mode == RoundMode::CAST_ROUND || (mode == RoundMode::CAST_ODD ? i % 2 == 0 : i % 2 == 1);
  if (points_to_zero(mode, std::signbit(x)))
    up = false;
  else if (mode == RoundMode::CAST_FLOOR || mode == RoundMode::CAST_CEIL)
    up = true;
  if (!up) return std::copysign(low, x);
  if (i + 1 < n.values.size()) return std::copysign(high, x);
  return std::copysign(saturates ? most : n.overflow, x);
}

constexpr int kColumns = 512;
template <class T>
using Flat = Tile<TileType::Vec, T, 1, kColumns, BLayout::RowMajor, 1, DYNAMIC>;

template <class T>
double value_of(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else if constexpr (std::is_class_v<T>)
    return double(float(x));
  else
    return double(x);
}

bool same(double a, double b) {
  return std::isnan(b) ? std::isnan(a) : a == b && (std::signbit(a) == std::signbit(b) || b == 0);
}

// Whether all of a tile has the bits of its first element, and that is `want`.
template <class T>
bool is_filled_with(const Flat<T>& d, int count, double want) {
  const T* const first = d.data();
  return same(value_of(*first), want) &&
         std::memcmp(first, first + 1, size_t(count - 1) * sizeof(T)) == 0;
}

constexpr int64_t kApart = -1;  // sources that are no run

// Checks up to kColumns sources at a time in every mode. Run number `run` of all floats has sources
// in order, and is checked to the nearest and in each eighth other mode: as rounding keeps order,
// all of a run become what its ends become, where these agree.
template <class From, class To>
void check_some(const std::vector<From>& sources, int64_t run = kApart) {
  const Numbers& n = numbers<To>();
  Flat<From> s;
  Flat<To> d;
  for (size_t at = 0; at < sources.size(); at += kColumns) {
    const int count = int(std::min(sources.size() - at, size_t(kColumns)));
    s.SetValidCol(count), d.SetValidCol(count);
    for (int i = 0; i < count; ++i) s.SetValue(i, sources[at + size_t(i)]);
    for (RoundMode mode : kModes)
      for (SaturationMode sat : {SaturationMode::OFF, SaturationMode::ON}) {
        const int64_t turn = int64_t(mode) * 2 + (sat == SaturationMode::ON);
        if (run != kApart && mode != RoundMode::CAST_RINT && (run + turn) % 8 != 0) continue;
        if (sat == SaturationMode::ON)
          TCVT(d, s, d, mode, sat);
        else
          TCVT(d, s, mode);
        size_t hint = 0;
        const bool saturates = sat == SaturationMode::ON;
        if (run != kApart) {
          const double last = rounded_to(n, value_of(s.GetValue(count - 1)), mode, saturates, hint);
          const double want = rounded_to(n, value_of(s.GetValue(0)), mode, saturates, hint);
          if (same(last, want) && is_filled_with(d, count, want)) continue;
        }
        for (int i = 0; i < count; ++i) {
          double x = value_of(s.GetValue(i));
          if (saturates && kIsFloat<From> && std::isinf(x) && sizeof(From) == 2)
            x = std::copysign(
                numbers<typename Choose<sizeof(From) == 2, From, half>::type>().values.back(), x);
          const double want = rounded_to(n, x, mode, saturates, hint);
          const double got = value_of(d.GetValue(i));
          ASSERT_TRUE(same(got, want)) << x << " becomes " << got << ", should be " << want
                                       << "; mode " << int(mode) << " saturation " << saturates;
        }
      }
  }
}

const size_t kSomeOf16Bits = is_deep() ? 7 : 29;

// Lists numbers of To, midpoints, and their neighbours among the floats, of both signs.
template <class To, class From = float>
std::vector<From> sources_for(size_t step) {
  std::vector<From> found = {From(0.f),      From(-0.f),      From(NAN),
                             From(INFINITY), From(-INFINITY), From(3.4e38f),
                             From(1e-45f),   From(-1e-45f),   From(-3.4e38f)};
  const Numbers& n = numbers<To>();
  for (size_t i = 0; i < n.values.size(); i += step) {
    const double low = n.values[i];
    const double high = i + 1 < n.values.size() ? n.values[i + 1] : n.beyond;
    for (double x : {low, (low + high) / 2, high})
      for (From y : {From(x), std::nextafter(From(x), From(INFINITY)),
                     std::nextafter(From(x), From(-INFINITY))}) {
        found.push_back(y);
        found.push_back(-y);
      }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    uint32_t bits = random();
    float x;
    std::memcpy(&x, &bits, 4);
    found.push_back(From(x));
  }
  return found;
}

template <class T>
std::vector<T> all_patterns() {
  std::vector<T> found;
  for (uint32_t i = 0; i < 1u << (8 * sizeof(T)); ++i) found.push_back(T::FromRaw(Raw<T>(i)));
  return found;
}

TEST(NarrowFloat, a_float_becomes_the_neighbour_that_the_mode_names) {
  check_some<float, float8_e4m3_t>(sources_for<float8_e4m3_t>(1));
  check_some<float, float8_e5m2_t>(sources_for<float8_e5m2_t>(1));
  check_some<float, hifloat8_t>(sources_for<hifloat8_t>(1));
  check_some<float, half>(sources_for<half>(kSomeOf16Bits));
  check_some<float, bfloat16_t>(sources_for<bfloat16_t>(kSomeOf16Bits));
}

TEST(NarrowFloat, every_pattern_of_16_bits_becomes_the_neighbour_that_the_mode_names) {
  check_some<half, hifloat8_t>(all_patterns<half>());
  check_some<bfloat16_t, half>(all_patterns<bfloat16_t>());
}

TEST(NarrowFloat, a_double_is_rounded_once) {
  check_some<double, half>(sources_for<half, double>(kSomeOf16Bits));
  check_some<double, bfloat16_t>(sources_for<bfloat16_t, double>(kSomeOf16Bits));
}

// Lists integers beside each number that has neighbours there, and beside their midpoints.
template <class From>
std::vector<From> integers_near_half() {
  std::vector<From> found;
  if constexpr (sizeof(From) == 1 && !std::is_class_v<From>)
    for (int i = 0; i < 256; ++i) found.push_back(From(i));
  else if constexpr (std::is_class_v<From>)
    for (int i = -8; i < 8; ++i) found.push_back(From(i));
  else
    for (int64_t x = 1; x < int64_t(1) << 31; x += x / 997 + 1)
      for (int64_t y : {x / 16 * 16, x, -x, -x / 32 * 32})
        if (sizeof(From) > 2 || std::abs(y) < 32768) found.push_back(From(y));
  return found;
}

TEST(NarrowFloat, an_integer_is_rounded_once) {
  check_some<int32_t, half>(integers_near_half<int32_t>());
  check_some<int32_t, bfloat16_t>(integers_near_half<int32_t>());
  check_some<int16_t, half>(integers_near_half<int16_t>());
  check_some<int8_t, half>(integers_near_half<int8_t>());
  check_some<uint8_t, half>(integers_near_half<uint8_t>());
  check_some<int4b_t, half>(integers_near_half<int4b_t>());
}

// Checks floats in runs of kColumns, a few runs of many; with PTO_DEEP=1 all of them.
template <class T>
void check_every_float() {
  const uint64_t stride = kColumns * (is_deep() ? 1 : 8191);
  std::vector<float> some(kColumns);
  for (uint64_t base = 0; base < uint64_t(1) << 32; base += stride) {
    for (uint32_t i = 0; i < kColumns; ++i) {
      const uint32_t bits = uint32_t(base) + i;
      std::memcpy(&some[i], &bits, 4);
    }
    check_some<float, T>(some, int64_t(base / kColumns));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(NarrowFloat, every_float_becomes_e4m3) { check_every_float<float8_e4m3_t>(); }
TEST(NarrowFloat, every_float_becomes_e5m2) { check_every_float<float8_e5m2_t>(); }
TEST(NarrowFloat, every_float_becomes_hif8) { check_every_float<hifloat8_t>(); }
TEST(NarrowFloat, every_float_becomes_half) { check_every_float<half>(); }
TEST(NarrowFloat, every_float_becomes_bfloat16) { check_every_float<bfloat16_t>(); }

template <class T>
void check_patterns() {
  Flat<T> s(256), back(256);
  Flat<float> wide(256);
  for (int i = 0; i < 256; ++i) s.SetValue(i, T::FromRaw(uint8_t(i)));
  TCVT(wide, s, back, RoundMode::CAST_RINT);
  TCVT(wide, s);
  TCVT(back, wide, RoundMode::CAST_RINT);
  const Numbers& n = numbers<T>();
  for (int i = 0; i < 256; ++i) {
    const float x = wide.GetValue(i);
    EXPECT_EQ(std::isnan(x), std::isnan(float(s.GetValue(i))));
    if (std::isnan(x)) continue;
    EXPECT_EQ(x, float(s.GetValue(i))) << i;
    EXPECT_TRUE(std::isinf(x) ||
                std::binary_search(n.values.begin(), n.values.end(), std::fabs(x)));
    EXPECT_EQ(back.GetValue(i).RawData(), i);
    EXPECT_EQ(T(x).RawData(), i);
  }
}

TEST(NarrowFloat, every_pattern_survives_float) {
  check_patterns<float8_e4m3_t>();
  check_patterns<float8_e5m2_t>();
  check_patterns<hifloat8_t>();
}

TEST(NarrowFloat, hifloat8_has_the_values_of_its_definition) {
  EXPECT_EQ(float(hifloat8_t::FromRaw(0x01)), 0x1p-22f);
  EXPECT_EQ(float(hifloat8_t::FromRaw(0x07)), 0x1p-16f);
  EXPECT_EQ(float(hifloat8_t::FromRaw(0x08)), 1.f);
  EXPECT_EQ(float(hifloat8_t::FromRaw(0x0f)), 1.875f);
  EXPECT_EQ(float(hifloat8_t::FromRaw(0x10)), 2.f);
  EXPECT_EQ(float(hifloat8_t::FromRaw(0x18)), 0.5f);
  EXPECT_EQ(float(hifloat8_t::FromRaw(0x6e)), 32768.f);
  EXPECT_EQ(float(hifloat8_t::FromRaw(0xef)), -INFINITY);
  EXPECT_TRUE(std::isnan(float(hifloat8_t::FromRaw(0x80))));
  EXPECT_EQ(hifloat8_t(-0.f).RawData(), 0);
  EXPECT_EQ(hifloat8_t(40960.f).RawData(), 0x6e);
  EXPECT_EQ(hifloat8_t(40961.f).RawData(), 0x6f);
}

TEST(NarrowFloat, e8m0_holds_powers_of_two) {
  for (int code = 0; code < 255; ++code) {
    const float x = float(std::ldexp(1.0, code - 127));
    EXPECT_EQ(float(float8_e8m0_t::FromRaw(uint8_t(code))), x);
    EXPECT_EQ(float8_e8m0_t(x).RawData(), code);
  }
  for (float x : {0.f, -1.f, INFINITY, NAN}) EXPECT_EQ(float8_e8m0_t(x).RawData(), 255) << x;
  Flat<float> s(4);
  Flat<float8_e8m0_t> d(4);
  const float values[4] = {5, 6, 1e-40f, 1e-42f};
  for (int i = 0; i < 4; ++i) s.SetValue(i, values[i]);
  const int want[3][4] = {{129, 130, 0, 0}, {129, 129, 0, 0}, {130, 130, 0, 0}};
  const RoundMode modes[3] = {RoundMode::CAST_RINT, RoundMode::CAST_FLOOR, RoundMode::CAST_CEIL};
  for (int m = 0; m < 3; ++m) {
    TCVT(d, s, modes[m]);
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(d.GetValue(i).RawData(), want[m][i]) << values[i] << " mode " << int(modes[m]);
  }
}

// Pairs lie side by side; a tile of pairs may count bytes or numbers.
template <class Pair, class Number, class PairTile>
void check_pair_tile() {
  using NumberTile = Tile<TileType::Vec, Number, 3, 64, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  const bool counts_numbers = PairTile::Cols == 64;
  const Numbers& n = numbers<Pair>();
  for (int columns : {64, 33, 2, 1, 0})
    for (RoundMode mode : kModes) {
      if (!counts_numbers && columns % 2) continue;
      auto s = shaped<NumberTile>(3, columns), back = s;
      auto d = shaped<PairTile>(3, counts_numbers ? columns : columns / 2);
      fill(s, unsigned(columns));
      std::memset(static_cast<void*>(d.data()), 0xa5, sizeof(Pair) * PairTile::Numel);
      TCVT(d, s, s, mode);
      TCVT(d, s, mode);
      TCVT(back, d, d, RoundMode::CAST_RINT);
      TCVT(back, d, RoundMode::CAST_RINT);
      const auto* bytes = reinterpret_cast<const uint8_t*>(d.data());
      for (int r = 0; r < 3; ++r) {
        size_t hint = 0;
        for (int c = 0; c < 64; ++c) {
          const uint8_t byte = bytes[r * 32 + c / 2];
          if (c >= columns) {
            EXPECT_EQ(c % 2 ? byte >> 4 : byte & 15, c % 2 ? 0xa : 0x5) << columns << " " << c;
            continue;
          }
          const float x = float(s.GetElement(r, c));
          const double want = rounded_to(n, x, mode, false, hint);
          const Pair both = Pair::FromRaw(byte);
          EXPECT_EQ(c % 2 ? both.second() : both.first(), want) << x << " mode " << int(mode);
          EXPECT_EQ(float(back.GetElement(r, c)), want);
        }
      }
    }
}

TEST(NarrowFloat, pairs_are_packed_and_unpacked) {
  using E2M1Bytes =
      Tile<TileType::Vec, float4_e2m1x2_t, 3, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using E1M2Numbers =
      Tile<TileType::Vec, float4_e1m2x2_t, 3, 64, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  check_pair_tile<float4_e2m1x2_t, bfloat16_t, E2M1Bytes>();
  check_pair_tile<float4_e1m2x2_t, bfloat16_t, E1M2Numbers>();
  const float4_e2m1x2_t two(1.5f, -6.f);
  EXPECT_EQ(two.RawData(), 0xf3);
  EXPECT_EQ(two.first(), 1.5f);
  EXPECT_EQ(two.second(), -6.f);
  static_assert(kIsTwin<float4_e1m2x2_t> && !kIsTwin<float8_e4m3_t>, "");
}

TEST(Int4, wraps_as_a_number_and_is_clamped_by_conversions) {
  Flat<half> s(40), back(40);
  Flat<int4b_t> d(40);
  for (int i = 0; i < 40; ++i) s.SetValue(i, half(float(i - 20) * 0.75f));
  for (RoundMode mode : {RoundMode::CAST_RINT, RoundMode::CAST_FLOOR})
    for (SaturationMode sat : {SaturationMode::OFF, SaturationMode::ON}) {
      TCVT(d, s, mode, sat);
      TCVT(back, d);
      for (int i = 0; i < 40; ++i) {
        const float x = float(s.GetValue(i));
        const int whole = int(mode == RoundMode::CAST_RINT ? std::nearbyint(x) : std::floor(x));
        const int want = std::min(7, std::max(-8, whole));
        EXPECT_EQ(int(d.GetValue(i)), want) << x;
        EXPECT_EQ(int8_t(d.GetValue(i).RawData()), want);
        EXPECT_EQ(float(back.GetValue(i)), float(want));
      }
    }
  EXPECT_EQ(int(int4b_t(9)), -7);
  EXPECT_EQ(int(int4b_t(2.5f)), 2);
  EXPECT_EQ(int(int4b_t::FromRaw(0x0f)), -1);
}

}  // namespace pto::narrow_float_test
