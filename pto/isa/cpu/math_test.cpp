// SPDX-License-Identifier: Apache-2.0
// Every float as input (a sample in the quick run) against the C library in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "pto/isa/cpu/erf.hpp"
#include "pto/isa/cpu/power.hpp"
#include "pto/isa/cpu/remainder.hpp"
#include "pto/isa/cpu/trigonometry.hpp"

namespace pto::math_test {
using namespace isa;

constexpr int N = kLanes<float>;
using V = Vec<float, N>;

struct Function {
  const char* name;
  V (*lanes)(V);
  double (*exact)(double);
  double ulp_max;        // stated in math.hpp
  uint32_t deep_step;    // 1: the deep run takes every float
  bool flushes = false;  // subnormal results may be 0
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double reciprocal(double x) { return 1 / x; }
double half_to(double x) { return std::exp2(-std::fabs(x)); }
// A weight of attention, as its difference to the largest score has it: up to 0.
V weight(V x) { return lanes::exp2_to_one(lanes::negative_abs(x)); }

#define LANES(name) +[](V v) { return lanes::name(v); }
const Function kFunctions[] = {
    {"exp", LANES(exp), std::exp, 1.02, 1},
    {"exp2_to_one", weight, half_to, kVectorBytes == 64 ? 1.1 : 2.3, 1, true},
    {"log", LANES(log), std::log, 1.1, 1},
    {"tanh", LANES(tanh), std::tanh, 1.5, 1},
    {"sigmoid", LANES(sigmoid), sigmoid, 3.1, 1, true},
    {"erf", LANES(erf), std::erf, 1.5, 1},
    {"sin", LANES(sin), std::sin, 1.5, 1},
    {"cos", LANES(cos), std::cos, 1.5, 1},
    {"sqrt", LANES(sqrt), std::sqrt, 0.5, 61},
    {"rsqrt", LANES(rsqrt), rsqrt, 1.5, 1},
    {"reciprocal", LANES(reciprocal), reciprocal, 0.5, 61},
    {"floor", LANES(floor), std::floor, 0, 61},
    {"ceil", LANES(ceil), std::ceil, 0, 61},
    {"rint", LANES(rint), std::nearbyint, 0, 61},
    {"trunc", LANES(trunc), std::trunc, 0, 61},
};
#undef LANES

// Returns the distance of two floats that round to one another, in units of the exact value's
// spacing.
double ulp_distance(const Function& f, float value, double exact) {
  if (f.flushes && value == 0 && std::fabs(exact) < 0x1p-126) return 0;
  const float nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isnan(value))
    return std::isnan(exact) == std::isnan(value) ? 0 : 1e9;
  if (std::isinf(nearest) || std::isinf(value)) {
    // Beyond the largest float, infinity and the largest float are one step apart.
    if (value == nearest) return 0;
    return std::fabs(exact) >= 3.4028234e38 && std::fabs(value) >= 3.4028234e38f ? 0.5 : 1e9;
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  const double spacing = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(double(value) - exact) / spacing;
}

class EveryFloat : public testing::TestWithParam<Function> {};

TEST_P(EveryFloat, is_within_the_stated_error) {
  const Function& f = GetParam();
  const char* deep = std::getenv("PTO_DEEP");
  const uint64_t step = deep && *deep == '1' ? f.deep_step : 8191;
  double worst = 0;
  float where = 0;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32);) {
    float x[N], y[N];
    for (int i = 0; i < N; ++i, bits += step) {
      const uint32_t low = static_cast<uint32_t>(bits);
      std::memcpy(&x[i], &low, 4);
    }
    lanes::store<N>(y, f.lanes(lanes::load<N>(x)));
    for (int i = 0; i < N; ++i) {
      const double error = ulp_distance(f, y[i], f.exact(double(x[i])));
      if (error > worst) worst = error, where = x[i];
    }
  }
  EXPECT_LE(worst, f.ulp_max) << f.name << "(" << where << ")";
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST_P(EveryFloat, is_right_at_the_special_values) {
  const Function& f = GetParam();
  const float inf = INFINITY, least = 1e-45f, most = 3.4028235e38f;
  for (float x :
       {0.0f, -0.0f, inf, -inf, float(NAN), least, -least, 1.17549435e-38f, most, -most, 1.0f,
        -1.0f, 88.72283f, 88.72284f, -87.33655f, -103.97208f, -103.97209f, 0.6932f}) {
    const V y = f.lanes(lanes::splat<V>(x));
    const double exact = f.exact(double(x));
    EXPECT_LE(ulp_distance(f, y[0], exact), f.ulp_max) << f.name << "(" << x << ") = " << y[0];
    if (y[0] == 0 && exact == 0) {
      EXPECT_EQ(std::signbit(y[0]), std::signbit(exact)) << f.name << "(" << x << ")";
    }
  }
}

// Otherwise a result would depend on the place where a block or a row happens to be cut.
TEST_P(EveryFloat, does_not_depend_on_the_other_lanes) {
  const Function& f = GetParam();
  const float neighbours[] = {0.0f, -1.0f, INFINITY, -INFINITY, float(NAN), 1e30f, 1e-45f};
  uint32_t state = 7;
  for (int round = 0; round < 2000; ++round) {
    const uint32_t bits = state = state * 1664525u + 1013904223u;
    float x;
    std::memcpy(&x, &bits, 4);
    const float alone = f.lanes(lanes::splat<V>(x))[0];
    for (const float neighbour : neighbours) {
      V mixed = lanes::splat<V>(neighbour);
      mixed[round % N] = x;
      const float among = f.lanes(mixed)[round % N];
      EXPECT_TRUE(among == alone || (std::isnan(among) && std::isnan(alone)))
          << f.name << "(" << x << ") beside " << neighbour << ": " << among << ", not " << alone;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Math, EveryFloat, testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

// Where a result is near 0, all of it comes from the last bits of the angle's reduction.
TEST(Angles, next_to_every_whole_quarter_keep_the_stated_error) {
  const Function sine = {"sin", nullptr, std::sin, 1.5, 1};
  const Function cosine = {"cos", nullptr, std::cos, 1.5, 1};
  double worst = 0;
  for (int quarter = 1; quarter < 667000; quarter += N) {  // up to 2^20
    float x[N], s[N], c[N];
    for (int i = 0; i < N; ++i) x[i] = float((quarter + i) * 1.57079632679489662);
    lanes::store<N>(s, lanes::sin(lanes::load<N>(x)));
    lanes::store<N>(c, lanes::cos(lanes::load<N>(x)));
    for (int i = 0; i < N; ++i) {
      worst = std::max(worst, ulp_distance(sine, s[i], std::sin(double(x[i]))));
      worst = std::max(worst, ulp_distance(cosine, c[i], std::cos(double(x[i]))));
    }
  }
  EXPECT_LE(worst, 1.5);
}

double power(double a, double b) { return std::pow(a, b); }

TEST(Power, is_within_its_error_wherever_it_is_finite) {
  uint32_t state = 1;
  const auto next = [&state] { return state = state * 1664525u + 1013904223u; };
  const char* deep = std::getenv("PTO_DEEP");
  const int rounds = deep && *deep == '1' ? 3000000 : 20000;
  double worst = 0;
  float where[2] = {};
  for (int round = 0; round < rounds; ++round) {
    float a[N], b[N], y[N];
    for (int i = 0; i < N; ++i) {
      // Takes any base, and an exponent that keeps most results finite, whole in every fourth
      // round.
      const uint32_t bits = next() & 0x7fffffffu;
      std::memcpy(&a[i], &bits, 4);
      if (!(a[i] > 0) || std::isinf(a[i])) a[i] = 2;
      const double most = 150 / std::fabs(std::log2(double(a[i])) + 1e-9);
      b[i] = float((double(next()) / 2147483648.0 - 1) * std::min(most, 1e6));
      if (round % 4 == 0) b[i] = std::rint(b[i]), a[i] = i % 2 ? -a[i] : a[i];
    }
    lanes::store<N>(y, lanes::pow(lanes::load<N>(a), lanes::load<N>(b)));
    for (int i = 0; i < N; ++i) {
      const Function two = {"pow", nullptr, nullptr, 0.6, 1};
      const double error = ulp_distance(two, y[i], power(double(a[i]), double(b[i])));
      if (error > worst) worst = error, where[0] = a[i], where[1] = b[i];
    }
  }
  EXPECT_LE(worst, 0.6) << "pow(" << where[0] << ", " << where[1] << ")";
}

// The C library rounds otherwise in about one of a hundred, hence so many.
TEST(Power, does_not_depend_on_the_other_lanes) {
  uint32_t state = 3;
  const auto next = [&state] { return float(state = state * 1664525u + 1013904223u) / 4e9f; };
  int different = 0;
  for (int round = 0; round < 20000; ++round) {
    const float a = 0.01f + 9 * next(), b = 20 * next() - 10;
    V x = lanes::splat<V>(0.0f), y = lanes::splat<V>(b);
    x[round % N] = a;
    different += lanes::pow(x, y)[round % N] != lanes::pow(lanes::splat<V>(a), y)[0];
  }
  EXPECT_EQ(different, 0);
}

TEST(Power, has_the_special_values_of_the_c_library) {
  const float inf = INFINITY, nan = NAN;
  const float numbers[] = {0.0f,    -0.0f,   1.0f,     -1.0f,       2.0f, -2.0f, 3.0f,
                           -3.0f,   0.5f,    -0.5f,    inf,         -inf, nan,   1e-45f,
                           -1e-45f, 3.4e38f, -3.4e38f, 16777217.0f, 1e30f};
  for (float a : numbers)
    for (float b : numbers) {
      const float got = lanes::pow(lanes::splat<V>(a), lanes::splat<V>(b))[N - 1];
      const float want = float(std::pow(double(a), double(b)));
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << a << " ^ " << b << " = " << got;
      else
        EXPECT_EQ(got, want) << a << " ^ " << b;
      EXPECT_EQ(std::signbit(got), std::isnan(want) ? std::signbit(got) : std::signbit(want));
    }
}

TEST(Leaves, maximum_and_minimum_propagate_nan_from_either_side) {
  const V nan = lanes::splat<V>(NAN), one = lanes::splat<V>(1), two = lanes::splat<V>(2);
  EXPECT_TRUE(std::isnan(lanes::maximum(nan, one)[0]));
  EXPECT_TRUE(std::isnan(lanes::maximum(one, nan)[0]));
  EXPECT_TRUE(std::isnan(lanes::minimum(nan, one)[N - 1]));
  EXPECT_TRUE(std::isnan(lanes::minimum(one, nan)[N - 1]));
  EXPECT_TRUE(std::isnan(lanes::relu(nan)[0]));
  EXPECT_EQ(lanes::maximum(one, two)[0], 2);
  EXPECT_EQ(lanes::minimum(one, two)[0], 1);
}

TEST(Leaves, integer_division_never_traps) {
  using I = Vec<int32_t, N>;
  const I least = lanes::splat<I>(INT32_MIN), minus_one = lanes::splat<I>(-1);
  EXPECT_EQ(lanes::divide(least, minus_one)[0], INT32_MIN);
  EXPECT_EQ(lanes::divide(least, I{})[0], 0);
  EXPECT_EQ(lanes::fmod(least, minus_one)[0], 0);
  EXPECT_EQ(lanes::remainder(least, I{})[0], 0);
  EXPECT_EQ(lanes::remainder(lanes::splat<I>(-7), lanes::splat<I>(3))[0], 2);
}

// Numbers whose quotients are small, whole, huge, just below a whole number, or none.
template <class E>
std::vector<E> dividends() {
  using Limits = std::numeric_limits<E>;
  std::vector<E> all{0,
                     -0.0f,
                     1,
                     2,
                     3,
                     7.5f,
                     0.1f,
                     Limits::min(),
                     Limits::denorm_min(),
                     3 * Limits::denorm_min(),
                     Limits::max(),
                     Limits::infinity(),
                     Limits::quiet_NaN(),
                     E(0x1p22),
                     E(0x1p23),
                     E(0x1p24),
                     E(0x1p53),
                     E(1e30f)};
  for (const E x : {E(3), E(0.1f), E(1e30f)}) {
    all.push_back(std::nextafter(x, E(0)));
    all.push_back(std::nextafter(x * 1000, Limits::infinity()));
  }
  for (int i = 0, n = static_cast<int>(all.size()); i < n; ++i) all.push_back(-all[size_t(i)]);
  return all;
}

template <class E>
void expect_exact_remainders() {
  using W = Vec<E, kVectorBytes / sizeof(E)>;
  const std::vector<E> all = dividends<E>();
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < all.size(); ++j) {
      W a, b;  // neighbours have other quotients
      for (int lane = 0; lane < kCount<W>; ++lane) {
        a[lane] = all[(i + size_t(lane)) % all.size()];
        b[lane] = all[(j + 3 * size_t(lane)) % all.size()];
      }
      const W got = lanes::fmod(a, b), whole = lanes::remainder(a, b);
      for (int lane = 0; lane < kCount<W>; ++lane) {
        const E x = a[lane], y = b[lane], want = std::fmod(x, y), rest = got[lane];
        EXPECT_TRUE(std::isnan(want) ? std::isnan(rest)
                                     : rest == want && std::signbit(rest) == std::signbit(want))
            << x << " % " << y << " is " << want << ", not " << rest;
        const E floored = want != 0 && (want < 0) != (y < 0) ? want + y : want;
        EXPECT_TRUE(std::isnan(want) ? std::isnan(whole[lane]) : whole[lane] == floored);
      }
    }
}

TEST(Remainders, are_exact_and_of_one_lane_alone) {
  expect_exact_remainders<float>();
  expect_exact_remainders<double>();
}

TEST(Remainders, of_random_numbers_are_exact) {
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    V a, b;
    for (int lane = 0; lane < N; ++lane) {
      a[lane] = std::ldexp(static_cast<float>(random()) - 0x1p31f, int(random() % 60) - 60);
      b[lane] = std::ldexp(static_cast<float>(random()) - 0x1p31f, int(random() % 60) - 60);
    }
    const V got = lanes::fmod(a, b);
    for (int lane = 0; lane < N; ++lane)
      EXPECT_EQ(got[lane], std::fmod(float(a[lane]), float(b[lane]))) << a[lane] << " " << b[lane];
  }
}

}  // namespace pto::math_test
