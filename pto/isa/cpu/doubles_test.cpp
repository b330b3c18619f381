// SPDX-License-Identifier: Apache-2.0
// Functions of double against the C library in long double, which has eleven bits more.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "pto/isa/cpu/erf.hpp"
#include "pto/isa/cpu/power.hpp"
#include "pto/isa/cpu/trigonometry.hpp"

namespace pto::doubles_test {
using namespace isa;

constexpr int N = kLanes<double>;
using V = Vec<double, N>;

struct Function {
  const char* name;
  long double (*exact)(long double);
  double ulp_max;  // stated in the header of the function
  double most;     // beyond it, the function is constant, overflows or repeats itself
  V (*lanes)(V);
  Vec<double, 1> (*one)(Vec<double, 1>);  // the same function on other lengths
  Vec<double, 2> (*two)(Vec<double, 2>);
  Vec<double, 4> (*four)(Vec<double, 4>);
  Vec<double, 16> (*sixteen)(Vec<double, 16>);
};

long double sigmoid(long double x) {
  const long double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}

#define LANES(name)                                                                      \
  +[](V v) { return lanes::name(v); }, +[](Vec<double, 1> v) { return lanes::name(v); }, \
      +[](Vec<double, 2> v) { return lanes::name(v); },                                  \
      +[](Vec<double, 4> v) { return lanes::name(v); },                                  \
      +[](Vec<double, 16> v) { return lanes::name(v); }
const Function kFunctions[] = {
    {"exp", std::exp, 1, 750, LANES(exp)},   {"log", std::log, 1, 4, LANES(log)},
    {"tanh", std::tanh, 2, 22, LANES(tanh)}, {"sigmoid", sigmoid, 1.5, 750, LANES(sigmoid)},
    {"erf", std::erf, 1.5, 7, LANES(erf)},   {"sin", std::sin, 1, 40, LANES(sin)},
    {"cos", std::cos, 1, 40, LANES(cos)},
};
#undef LANES

bool is_deep() {
  const char* deep = std::getenv("PTO_DEEP");
  return deep && *deep == '1';
}

// Returns the distance in units of the exact value's spacing.
double ulp_distance(double value, long double exact) {
  if (std::isnan(exact) || std::isnan(value))
    return std::isnan(exact) == std::isnan(value) ? 0 : 1e9;
  const double nearest = static_cast<double>(exact), most = std::numeric_limits<double>::max();
  if (std::isinf(nearest) || std::isinf(value)) {
    // Beyond the largest number, infinity and the largest number are one step apart.
    if (value == nearest) return 0;
    const bool is_last = std::fabs(exact) >= most && std::fabs(value) >= most;
    return is_last && (value > 0) == (exact > 0) ? 0.5 : 1e9;
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  const long double spacing = std::ldexp(1.0L, std::max(exponent - 53, -1074));
  return static_cast<double>(std::fabs(value - exact) / spacing);
}

// Draws any double, one of any usual size, or one where the function changes.
struct Draw {
  std::mt19937_64 random{11};

  double bits() {
    const uint64_t all = random();
    double x;
    std::memcpy(&x, &all, sizeof(x));
    return x;
  }
  double within(double most) { return most * (static_cast<double>(random() >> 11) * 0x1p-52 - 1); }
  double operator()(double most) {
    const int size = static_cast<int>(random() % 64);
    switch (random() % 5) {
      case 0:
        return bits();
      case 1:
        return std::ldexp(within(1), 30 - size);
      case 2:
        return 1 + std::ldexp(within(1), -size);
      default:
        return within(most);
    }
  }
};

class Doubles : public testing::TestWithParam<Function> {};

TEST_P(Doubles, are_within_the_stated_error) {
  const Function& f = GetParam();
  Draw draw;
  double worst = 0, where = 0;
  for (int round = 0, rounds = (is_deep() ? 5'000'000 : 200'000) / N; round < rounds; ++round) {
    double x[N], y[N];
    for (double& each : x) each = draw(f.most);
    lanes::store<N>(y, f.lanes(lanes::load<N>(x)));
    for (int i = 0; i < N; ++i) {
      const double error = ulp_distance(y[i], f.exact(x[i]));
      if (error > worst) worst = error, where = x[i];
    }
  }
  EXPECT_LE(worst, f.ulp_max) << f.name << "(" << where << ")";
  RecordProperty("worst_ulp", std::to_string(worst));
}

// The special values, where something overflows, and where one way of computing ends: each with its
// neighbours.
TEST_P(Doubles, are_right_at_special_values_and_next_to_them) {
  const Function& f = GetParam();
  const double inf = INFINITY, most = std::numeric_limits<double>::max();
  for (const double at : {0.0,
                          inf,
                          double(NAN),
                          0x1p-1074,
                          0x1p-1022,
                          0x1p-54,
                          0x1p-28,
                          0.25,
                          0.34657359027997264,
                          0.5,
                          0.75,
                          1.0,
                          1.4142135623730951,
                          1.5,
                          2.0,
                          6.0,
                          18.715,
                          20.0,
                          708.3964185322641,
                          709.782712893384,
                          710.0,
                          744.4400719213812,
                          745.1332191019411,
                          746.0,
                          0x1p20,
                          0x1p30,
                          0x1p31,
                          0x1p52,
                          0x1p53,
                          0x1p63,
                          most})
    for (double sign : {1.0, -1.0}) {
      double x = sign * at;
      for (int i = 0; i < 4; ++i) x = std::nextafter(x, -inf);
      for (int i = 0; i < 8; ++i, x = std::nextafter(x, inf)) {
        const double y = f.lanes(lanes::splat<V>(x))[0];
        const long double exact = f.exact(x);
        EXPECT_LE(ulp_distance(y, exact), f.ulp_max) << f.name << "(" << x << ") = " << y;
        if (y == 0 && exact == 0) {
          EXPECT_EQ(std::signbit(y), std::signbit(exact)) << f.name << "(" << x << ")";
        }
      }
    }
}

template <int Lanes, class F>
void expect_same_bits(const Function& f, F lanes_of, const double* x, const double* y) {
  Vec<double, Lanes> part;
  for (int first = 0; first < 16; first += Lanes) {
    std::memcpy(&part, x + first, sizeof(part));
    const Vec<double, Lanes> got = lanes_of(part);
    for (int i = 0; i < Lanes; ++i) {
      const double value = got[i], want = y[first + i];
      EXPECT_TRUE(std::memcmp(&value, &want, sizeof(value)) == 0 ||
                  (std::isnan(value) && std::isnan(want)))
          << f.name << "(" << x[first + i] << ") of " << Lanes << " lanes: " << value << ", not "
          << want;
    }
  }
}

// Otherwise a result would depend on the place where a block or a row happens to be cut.
TEST_P(Doubles, have_the_same_bits_in_vectors_of_every_length_beside_any_neighbours) {
  const Function& f = GetParam();
  const double neighbours[] = {0.0, -1.0, INFINITY, -INFINITY, double(NAN), 1e300, 0x1p-1074};
  Draw draw;
  for (int round = 0; round < 300; ++round) {
    double x[16], y[16];
    for (int i = 0; i < 16; ++i) {
      x[i] = draw(f.most);
      y[i] = f.lanes(lanes::splat<V>(x[i]))[0];
      V mixed = lanes::splat<V>(neighbours[(round + i) % 7]);
      mixed[i % N] = x[i];
      const double among = f.lanes(mixed)[i % N];
      EXPECT_TRUE(among == y[i] || (std::isnan(among) && std::isnan(y[i])))
          << f.name << "(" << x[i] << "): " << among << ", not " << y[i];
    }
    expect_same_bits<1>(f, f.one, x, y);
    expect_same_bits<2>(f, f.two, x, y);
    expect_same_bits<4>(f, f.four, x, y);
    expect_same_bits<16>(f, f.sixteen, x, y);
  }
}

INSTANTIATE_TEST_SUITE_P(Math, Doubles, testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

// Where a result is near 0, all of it comes from the last bits of the angle's reduction.
TEST(AnglesOfDoubles, next_to_whole_quarters_keep_the_stated_error) {
  Draw draw;
  double worst = 0, where = 0;
  for (int round = 0, rounds = is_deep() ? 300'000 : 3'000; round < rounds; ++round) {
    double x[N], s[N], c[N];
    for (double& each : x)  // beyond 2^30, too
      each = static_cast<double>(1.57079632679489661923L *
                                 static_cast<long double>(draw.random() >> (33 + round % 30)));
    lanes::store<N>(s, lanes::sin(lanes::load<N>(x)));
    lanes::store<N>(c, lanes::cos(lanes::load<N>(x)));
    for (int i = 0; i < N; ++i) {
      const double error = std::max(ulp_distance(s[i], std::sin(static_cast<long double>(x[i]))),
                                    ulp_distance(c[i], std::cos(static_cast<long double>(x[i]))));
      if (error > worst) worst = error, where = x[i];
    }
  }
  EXPECT_LE(worst, 1) << where;
}

TEST(PowerOfDoubles, is_within_its_error_wherever_it_is_finite) {
  Draw draw;
  double worst = 0, where[2] = {};
  for (int round = 0, rounds = is_deep() ? 1'000'000 : 10'000; round < rounds; ++round) {
    double a[N], b[N], y[N];
    for (int i = 0; i < N; ++i) {
      // Takes any base, and an exponent that keeps most results finite, whole in every fourth
      // round.
      a[i] = std::fabs(draw(4));
      if (!(a[i] > 0) || std::isinf(a[i])) a[i] = 2;
      b[i] = draw.within(std::min(1080 / (std::fabs(std::log2(a[i])) + 1e-300), 1e17));
      if (round % 4 == 0) b[i] = std::rint(b[i]), a[i] = i % 2 ? -a[i] : a[i];
    }
    lanes::store<N>(y, lanes::pow(lanes::load<N>(a), lanes::load<N>(b)));
    for (int i = 0; i < N; ++i) {
      const long double exact =
          std::pow(static_cast<long double>(a[i]), static_cast<long double>(b[i]));
      const double error = ulp_distance(y[i], exact);
      if (error > worst) worst = error, where[0] = a[i], where[1] = b[i];
    }
  }
  EXPECT_LE(worst, 1) << "pow(" << where[0] << ", " << where[1] << ")";
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(PowerOfDoubles, is_exact_where_a_double_holds_the_result) {
  for (double a = 2; a < 200; ++a) {
    double product = a;  // a^b
    for (double b = 1; product < 0x1p53; ++b, product *= a) {
      EXPECT_EQ(lanes::pow(lanes::splat<V>(a), lanes::splat<V>(b))[0], product) << a << " ^ " << b;
      if (product >= 0x1p26) continue;
      const V square = lanes::splat<V>(product * product);
      EXPECT_EQ(lanes::pow(square, lanes::splat<V>(0.5))[0], product);
    }
  }
}

TEST(PowerOfDoubles, has_the_special_values_of_the_c_library_on_one_lane_and_on_many) {
  const double inf = INFINITY, nan = NAN, most = std::numeric_limits<double>::max();
  const double numbers[] = {0.0,         -0.0,       1.0,         -1.0,  2.0,    -2.0,
                            3.0,         -3.0,       0.5,         -0.5,  inf,    -inf,
                            nan,         0x1p-1074,  -0x1p-1074,  most,  -most,  0x1p53,
                            0x1p53 + 2,  0x1p52 + 1, -0x1p52 - 1, 1e300, -1e300, 1 + 0x1p-52,
                            1 - 0x1p-53, 1e-300,     1024,        1074,  -1074,  -1075};
  for (double a : numbers)
    for (double b : numbers) {
      const double got = lanes::pow(lanes::splat<V>(a), lanes::splat<V>(b))[N - 1];
      const double alone = lanes::pow(Vec<double, 1>{a}, Vec<double, 1>{b})[0];
      EXPECT_EQ(std::memcmp(&got, &alone, sizeof(got)), 0) << a << " ^ " << b;
      const double want = std::pow(a, b);
      EXPECT_LE(ulp_distance(got, want), 1) << a << " ^ " << b << " = " << got;
      EXPECT_EQ(std::signbit(got), std::isnan(want) ? std::signbit(got) : std::signbit(want));
    }
}

TEST(PowerOfDoubles, does_not_depend_on_the_other_lanes) {
  Draw draw;
  int different = 0;
  for (int round = 0; round < 20'000; ++round) {
    const double a = draw(4), b = draw.within(9);
    V x = lanes::splat<V>(0.0), y = lanes::splat<V>(b);
    x[round % N] = a;
    const double among = lanes::pow(x, y)[round % N], alone = lanes::pow(lanes::splat<V>(a), y)[0];
    different += among != alone && !(std::isnan(among) && std::isnan(alone));
  }
  EXPECT_EQ(different, 0);
}

}  // namespace pto::doubles_test
