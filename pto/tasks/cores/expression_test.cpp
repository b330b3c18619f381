// SPDX-License-Identifier: Apache-2.0
// Compares random expressions with C++, and refuses steps that are no expression.
#include "pto/tasks/cores/expression.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/tasks/orchestration/symbol.h"
#include "tests/deep.hpp"

namespace pto::expression_test {

using testing::HasSubstr;
using Steps = std::vector<pto_step>;

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

template <class T>
T value_of(const Symbol<T>& symbol, const std::vector<uint64_t>& scalars) {
  check_steps(symbol.steps(), scalars);
  return std::bit_cast<T>(evaluate(symbol.steps(), scalars));
}

// A symbol and its value in C++, side by side.
template <class T>
struct Twin {
  Symbol<T> symbol;
  T value;
};

template <class T>
T plain(int operation, T a, T b) {
  constexpr bool kIsReal = std::is_same_v<T, double>;
  using U = std::conditional_t<kIsReal, double, uint64_t>;
  switch (operation) {
    case 0:
      return T(U(a) + U(b));
    case 1:
      return T(U(a) - U(b));
    case 2:
      return T(U(a) * U(b));
    case 3:
      return a / b;
    case 4:
      if constexpr (kIsReal)
        return std::fmod(a, b);
      else
        return a % b;
    case 5:
      return b < a ? b : a;
    default:
      return a < b ? b : a;
  }
}
template <class T>
Symbol<T> symbolic(int operation, const Symbol<T>& a, const Symbol<T>& b) {
  switch (operation) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return a / b;
    case 4:
      return a % b;
    case 5:
      return min(a, b);
    default:
      return max(a, b);
  }
}

template <class T>
Twin<T> random_twin(std::mt19937& random, const std::vector<uint64_t>& scalars, int depth) {
  if (depth == 0 || random() % 5 == 0) {
    const auto constant = T(int(random() % 19) - 9);
    if (random() % 2) return {Symbol<T>(constant), constant};
    const auto index = int32_t(random() % scalars.size());
    return {Symbol<T>::of_scalar(index), std::bit_cast<T>(scalars[size_t(index)])};
  }
  const auto a = random_twin<T>(random, scalars, depth - 1);
  const auto b = random_twin<T>(random, scalars, depth - 1);
  int operation = int(random() % 7);
  const bool divides = operation == 3 || operation == 4;
  if (divides && (b.value == 0 || b.value == T(-1))) operation = 1;
  return {symbolic(operation, a.symbol, b.symbol), plain(operation, a.value, b.value)};
}

TEST(Expressions, random_ones_are_what_they_are_in_cpp) {
  std::mt19937 random(7);
  for (int round = 0; round < (is_deep() ? 200000 : 5000); ++round) {
    std::vector<uint64_t> integers, reals;
    for (int i = 0; i < 3; ++i) {
      integers.push_back(uint64_t(int64_t(random() % 1000) - 500) << (random() % 50));
      reals.push_back(std::bit_cast<uint64_t>(double(random() % 1000) / 8 - 60));
    }
    const auto integer = random_twin<int64_t>(random, integers, 5);
    ASSERT_EQ(value_of(integer.symbol, integers), integer.value) << "round " << round;
    const auto real = random_twin<double>(random, reals, 5);
    if (!std::isnan(real.value)) {
      ASSERT_EQ(value_of(real.symbol, reals), real.value) << "round " << round;
    }
  }
}

TEST(Expressions, types_mix_towards_reals_and_integers_wrap) {
  const std::vector<uint64_t> scalars{7, std::bit_cast<uint64_t>(0.5)};
  const auto n = Symbol<int64_t>::of_scalar(0);
  const auto x = Symbol<double>::of_scalar(1);
  EXPECT_EQ(value_of(n * 2 + 1, scalars), 15);
  EXPECT_EQ(value_of(x * n + 1, scalars), 4.5);
  EXPECT_EQ(value_of(100 / n % 5, scalars), 4);
  EXPECT_EQ(value_of(max(0.25, x), scalars), 0.5);
  EXPECT_EQ(value_of(Symbol<int64_t>(INT64_MIN) / -1, scalars), INT64_MIN);
  EXPECT_EQ(value_of(Symbol<int64_t>(INT64_MIN) % -1, scalars), 0);
  EXPECT_EQ(value_of(Symbol<int64_t>(INT64_MAX) + 1, scalars), INT64_MIN);
  EXPECT_TRUE(std::isnan(value_of(min(x, Symbol<double>(NAN)), scalars)));
  EXPECT_TRUE(std::isnan(value_of(max(Symbol<double>(NAN), x), scalars)));
  EXPECT_EQ(value_of(x / 0.0, scalars), INFINITY);
}

TEST(Expressions, integers_serve_as_doubles_that_hold_them_and_doubles_as_no_integer) {
  const std::vector<uint64_t> bits = {7, std::bit_cast<uint64_t>(0.5), uint64_t(1) << 53 | 1};
  const std::vector<uint8_t> kinds = {PTO_NUMBER_SIGNED, PTO_NUMBER_REAL, PTO_NUMBER_SIGNED};
  const Numbers scalars(bits, kinds);
  const auto real = [&](int i) { return Symbol<double>::of_scalar(i) * 2; };
  EXPECT_EQ(check_steps(real(0).steps(), scalars), PTO_NUMBER_REAL);
  EXPECT_EQ(std::bit_cast<double>(evaluate(real(0).steps(), scalars)), 14.0);
  EXPECT_EQ(std::bit_cast<double>(evaluate(real(1).steps(), scalars)), 1.0);
  EXPECT_EQ(check_steps(Symbol<>::of_scalar(0).steps(), scalars), PTO_NUMBER_SIGNED);
  EXPECT_THAT(error_of([&] { check_steps(real(2).steps(), scalars); }),
              HasSubstr("symbol<double>() of scalar 2, which is 9007199254740993 (int64)"));
  EXPECT_THAT(error_of([&] { check_steps(Symbol<>::of_scalar(1).steps(), scalars); }),
              HasSubstr("symbol<int64_t>() of scalar 1, which is 0.5 (float64)"));
}

TEST(Expressions, what_is_none_is_refused) {
  const std::vector<uint64_t> two(2);
  const pto_step one{PTO_STEP_CONSTANT, 0, 1}, add{PTO_STEP_ADD, 0, 0};
  for (const Steps& steps :
       {Steps{}, Steps{one, one}, Steps{add}, Steps{one, add}, Steps{{PTO_STEP_TO_REAL, 1, 0}},
        Steps{{99, 0, 0}}, Steps{{-1, 0, 0}}, Steps{add, one, one},
        Steps{one, one, {PTO_STEP_ADD, 1, 0}}, Steps{one, {PTO_STEP_CONSTANT, 1, 0}, add}})
    EXPECT_THAT(error_of([&] { check_steps(steps, {}); }), HasSubstr("build it with pto::Symbol"));
  EXPECT_THAT(error_of([&] { check_steps(Symbol<>::of_scalar(2).steps(), two); }),
              HasSubstr("reads scalar 2, but the run has 2"));
  Symbol<> left = 1, right = 1;
  for (int i = 0; i < 70; ++i) left = left + 1, right = 1 + right;
  check_steps(left.steps(), {});
  EXPECT_THAT(error_of([&] { check_steps(right.steps(), {}); }),
              HasSubstr("open operands: 141 and 71"));
  for (int i = 0; i < 6; ++i) left = left + left;
  EXPECT_THAT(error_of([&] { check_steps(left.steps(), {}); }),
              HasSubstr("at most 4096 steps and 64"));
  for (const auto& symbol : {Symbol<>(3) / 0, Symbol<>(3) % 0})
    EXPECT_THAT(error_of([&] { evaluate(symbol.steps(), {}); }),
                HasSubstr("derived scalar divides by zero: 3"));
}

}  // namespace pto::expression_test
