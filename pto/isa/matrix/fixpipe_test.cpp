// SPDX-License-Identifier: Apache-2.0
// Accumulators on their way out: every destination type against plain arithmetic on one element,
// with random entries, NaN and infinities.
#include "pto/isa/matrix/fixpipe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "pto/isa/cpu/access.hpp"

namespace pto::fixpipe_test {
using namespace isa;

constexpr int N = kLanes<float>;

struct Fields {
  float scale;
  int offset, is_signed, shift;  // the shift itself, 1 to 16
  bool is_column = true;

  uint64_t bits() const {
    uint32_t f;
    std::memcpy(&f, &scale, 4);
    return uint64_t(f) | uint64_t(shift - 1) << 32 | uint64_t(offset) << 37 |
           uint64_t(is_signed) << 46;
  }
  // A column's entry counts with its first 11 binary digits.
  float used_scale() const {
    if (!is_column) return scale;
    int exponent;
    const double fraction = std::frexp(double(scale), &exponent);
    return float(std::ldexp(std::trunc(std::ldexp(fraction, 11)), exponent - 11));
  }
};

template <class To, class From>
double expected(From acc, const Fields& f, bool relu) {
  double y;
  if (std::is_same_v<To, int16_t> && std::is_same_v<From, int32_t>) {
    y = std::floor(std::ldexp(double(acc), -f.shift));
    y = std::min(32767.0, std::max(-32768.0, y));
  } else {
    volatile float x = float(acc) * f.used_scale();
    if (std::is_integral_v<To>) {
      x = x + float(f.offset);
      const double low = sizeof(To) == 2 ? -32768 : f.is_signed ? -128 : 0;
      const double high = sizeof(To) == 2 ? 32767 : f.is_signed ? 127 : 255;
      y = std::isnan(x) ? 0 : std::min(high, std::max(low, std::nearbyint(double(x))));
    } else {
      y = x;
      if (std::is_same_v<To, half> && std::isfinite(y))
        y = std::min(65504.0, std::max(-65504.0, y));
    }
  }
  return relu && !(y > 0) ? 0 : y;
}

template <class From>
From number(std::mt19937& random) {
  const int kind = int(random() % 8);
  if constexpr (std::is_same_v<From, float>)
    if (kind < 3) return kind == 0 ? NAN : kind == 1 ? INFINITY : -INFINITY;
  if (kind == 3) return From(-2147483648.0);
  return From(int(random() % 4000) - 2000) / From(kind == 4 ? 2 : 1);
}

template <class To, ReluPreMode Relu, class From>
void check(const char* name) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Fields fields[N];
    uint64_t entries[N];
    From acc[N];
    for (int i = 0; i < N; ++i) {
      fields[i] = {float(random() % 1000 + 1) / float(random() % 3000 + 3), int(random() % 512),
                   int(std::is_same_v<To, int8_t>), int(random() % 16) + 1};
      if (round % 2) fields[i] = fields[0];
      fields[i].is_column = round % 2 == 0;
      entries[i] = fields[i].bits();
      acc[i] = number<From>(random);
    }
    const auto p = round % 2 ? fixpipe::same<N>(entries[0]) : fixpipe::each<N>(entries, N);
    const auto lanes_of_result = fixpipe::quantise<To, Relu>(lanes::load<N>(acc), p);
    for (int i = 0; i < N; ++i) {
      const double want = expected<To>(acc[i], fields[i], Relu == ReluPreMode::NormalRelu);
      const double got = double(lanes_of_result[i]);
      EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
          << name << ": " << double(acc[i]) << " becomes " << got << ", should be " << want;
    }
  }
}

template <class To, class From>
void check_relus(const char* name) {
  check<To, ReluPreMode::NoRelu, From>(name);
  check<To, ReluPreMode::NormalRelu, From>(name);
}

TEST(Fixpipe, each_destination_is_its_formula) {
  check_relus<int8_t, float>("f32 to i8");
  check_relus<int8_t, int32_t>("i32 to i8");
  check_relus<uint8_t, float>("f32 to u8");
  check_relus<int16_t, float>("f32 to i16");
  check_relus<int16_t, int32_t>("i32 to i16");
  check_relus<half, int32_t>("i32 to f16");
  check_relus<half, float>("f32 to f16");
  check_relus<bfloat16_t, float>("f32 to bf16");
  check_relus<float, float>("f32 to f32");
}

// A product just below -509.5 that rounds to it: with the offset 511 the sum is a tie, but not if
// product and sum were rounded at once.
TEST(Fixpipe, product_and_sum_are_rounded_one_by_one) {
  const float scale = 1 + 0x1p-10f;
  float x = -509.5f / scale - 0x1p-12f;
  while (float(double(x) * scale) != -509.5f || double(x) * scale >= -509.5) {
    x = std::nextafter(x, 0.f);
    ASSERT_LT(x, -500.f);
  }
  const auto p = fixpipe::same<N>(Fields{scale, 511, 1, 1}.bits());
  float acc[N];
  for (int i = 0; i < N; ++i) acc[i] = x;
  asm volatile("" : : "r"(acc) : "memory");  // so that the product is not a constant
  EXPECT_EQ(fixpipe::quantise<int8_t>(lanes::load<N>(acc), p)[0], 2);
}

TEST(Fixpipe, saturation_clamps_infinity_and_makes_nan_zero) {
  Vec<float, N> x = lanes::splat<Vec<float, N>>(-INFINITY);
  x[1] = NAN;
  const auto y =
      fixpipe::quantise<half>(x, fixpipe::same<N>(Fields{1, 0, 0, 1}.bits()), SaturationMode::ON);
  EXPECT_EQ(y[0], -65504.f);
  EXPECT_EQ(y[1], 0.f);
  const auto p = fixpipe::same<N>(Fields{1, 0, 0, 1}.bits());
  const auto z = fixpipe::quantise<bfloat16_t>(x, p, SaturationMode::ON);
  EXPECT_EQ(z[0], -0x1.fep127f);
  EXPECT_EQ(z[1], 0.f);
  EXPECT_EQ(fixpipe::quantise<bfloat16_t>(x, p)[0], -INFINITY);
}

TEST(Fixpipe, without_quantisation_only_relu_and_rounding_remain) {
  Vec<float, N> x = lanes::splat<Vec<float, N>>(-3.f);
  x[1] = 2.5f;
  x[2] = NAN;
  EXPECT_EQ(fixpipe::plain<half>(x)[0], -3.f);
  const auto y = fixpipe::plain<bfloat16_t, ReluPreMode::NormalRelu>(x);
  EXPECT_EQ(y[0], 0.f);
  EXPECT_EQ(y[1], 2.5f);
  EXPECT_EQ(y[2], 0.f);  // NaN is not above 0
  const auto whole = lanes::splat<Vec<int32_t, N>>(-7);
  EXPECT_EQ((fixpipe::plain<int32_t, ReluPreMode::NormalRelu>(whole)[0]), 0);
}

TEST(Fixpipe, columns_beyond_the_last_entry_are_zero) {
  const uint64_t entries[1] = {Fields{2, 3, 1, 1}.bits()};
  const auto p = fixpipe::each<N>(entries, 1);
  EXPECT_EQ(p.scale[0], 2.f);
  EXPECT_EQ(p.scale[1], 0.f);
}

static_assert(fixpipe::quant_of(F322BF16) == fixpipe::Quant::None, "");
static_assert(fixpipe::quant_of(REQ8) == fixpipe::Quant::Scalar, "");
static_assert(fixpipe::quant_of(VREQ8) == fixpipe::Quant::Columns, "");
static_assert(FixpipeParams<>::LayoutMode == LayoutMode_t::NZ2ND, "");

}  // namespace pto::fixpipe_test
