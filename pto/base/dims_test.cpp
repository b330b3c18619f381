// SPDX-License-Identifier: Apache-2.0
#include "pto/base/dims.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "pto/base/error.hpp"
#include "tests/deep.hpp"
#include "tests/mutate.hpp"

namespace pto::dims_test {

using ::testing::HasSubstr;

const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1), s2 = Dim::symbol(2);

std::string what_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Case {
  Dim dim;
  const char* text;
};

class EachDim : public ::testing::TestWithParam<Case> {};

TEST_P(EachDim, prints_in_its_simplest_form_and_parses_back) {
  const auto& [dim, expected] = GetParam();
  EXPECT_EQ(text(dim), expected);
  EXPECT_EQ(parse_dim(expected), dim);
}

INSTANTIATE_TEST_SUITE_P(
    Dims, EachDim,
    ::testing::Values(
        Case{7, "7"}, Case{-7, "-7"}, Case{INT64_MIN, "-9223372036854775808"}, Case{s0, "s0"},
        Case{s0 * 2 + 1, "s0*2+1"}, Case{1 + 2 * s0, "s0*2+1"}, Case{s1 + s0, "s0+s1"},
        Case{(s0 + 1) + (s1 + 2), "s0+s1+3"}, Case{s0 * s1 * 3 * s2 * 2, "s0*s1*s2*6"},
        Case{s0 + 0, "s0"}, Case{s0 * 1, "s0"}, Case{s0 * 0, "0"}, Case{s0 - 1, "s0-1"},
        Case{s0 - 1 + 1, "s0"}, Case{s0 - s0, "0"}, Case{s0 - s1, "s0-s1"},
        Case{s0 - (s1 - s2), "s0-(s1-s2)"}, Case{(s0 - s1) - s2, "s0-s1-s2"},
        Case{(s0 + s1) * s2, "s2*(s0+s1)"}, Case{floordiv(s0, 1), "s0"}, Case{mod(s0, 1), "0"},
        Case{floordiv(s0 * s1, s2), "s0*s1//s2"}, Case{floordiv(s0, s1* s2), "s0//(s1*s2)"},
        Case{mod(floordiv(s0, 2), 3), "s0//2%3"}, Case{floordiv(-7, 2), "-4"},
        Case{mod(-7, 2), "1"}, Case{mod(7, -2), "-1"}, Case{min(s0, s0), "s0"},
        Case{max(s1, min(s0, 3)), "max(s1, min(s0, 3))"}, Case{max(max(s0, 2), 5), "max(s0, 5)"},
        Case{floordiv(7, 0), "7//0"}, Case{s0 + INT64_MIN, "s0+-9223372036854775808"}));

TEST(Dims, evaluate_by_the_values_of_the_symbols) {
  EXPECT_EQ(evaluate(s0 * 384, {4}), 1536);
  EXPECT_EQ(evaluate(floordiv(s0 - s1, 2) + mod(s0, 3), {4, 7}), -2 + 1);
  EXPECT_EQ(evaluate(max(s0, s1) - min(s0, s1), {4, 7}), 3);
}

TEST(Dims, tell_which_quotients_may_divide_by_zero) {
  const auto quotients = [](const Dim& dim) {
    std::string all;
    each_quotient(dim, [&](const Dim& one) { all += text(one) + " "; });
    return all;
  };
  EXPECT_EQ(quotients(floordiv(s0, s1) + mod(s2, s0 + s1)), "s0//s1 s2%(s0+s1) ");
  EXPECT_EQ(quotients(floordiv(s0, floordiv(s1, 2))), "s0//(s1//2) ");
  EXPECT_EQ(quotients(floordiv(s0, s1 - 1)), "s0//(s1-1) ");
  EXPECT_EQ(quotients(floordiv(s0, 4) + mod(s0, s1 + 1) + floordiv(s1, max(s0, 1) * 12)), "");
}

TEST(Dims, are_substituted_and_simplified_again) {
  EXPECT_EQ(substitute(s0 * s1 + s2, {2, 3}), s2 + 6);
  EXPECT_EQ(substitute(s0 - s1, {s1}), Dim(0));
}

TEST(Dims, multiply_to_the_number_of_elements) {
  EXPECT_EQ(product({}), Dim(1));
  EXPECT_EQ(product({s0, 2, s1, 3}), s0 * s1 * 6);
  EXPECT_EQ(text(Dims{s0, 384}), "[s0, 384]");
}

TEST(Dims, refuse_what_has_no_value) {
  EXPECT_THAT(what_of([] {
                evaluate(floordiv(s0, s1), {4, 0});
              }),
              HasSubstr("the size s0//s1 divides by zero: its operands are 4 and 0"));
  EXPECT_THAT(what_of([] {
                evaluate(s2, {4, 0});
              }),
              HasSubstr("size s2 has no value; the number of known symbols is 2"));
  EXPECT_THAT(what_of([] { evaluate(s0 * s0, {INT64_C(1) << 40}); }), HasSubstr("leaves 64 bits"));
  EXPECT_THAT(what_of([] { Dim(INT64_MAX) + 1; }),
              HasSubstr("the size 9223372036854775807+1 leaves 64 bits"));
  EXPECT_THAT(
      what_of([] { evaluate(s0 * 3, {INT64_MIN}); }),
      HasSubstr("the size s0*3 leaves 64 bits: its operands are -9223372036854775808 and 3"));
}

TEST(Dims, name_the_column_of_what_does_not_parse) {
  EXPECT_THAT(what_of([] { parse_dim("s0 + "); }), HasSubstr("unexpected text at column 6"));
  EXPECT_THAT(what_of([] { parse_dim("s0 )"); }), HasSubstr("at column 3"));
  EXPECT_THAT(what_of([] { parse_dim(""); }), HasSubstr("at column 1"));
  EXPECT_THAT(what_of([] { parse_dim("s-1"); }), HasSubstr("at column 2"));
  EXPECT_THAT(what_of([] { parse_dim("min(s0)"); }), HasSubstr("at column 7"));
  EXPECT_THAT(what_of([] { parse_dim(std::string(1000, '(')); }), HasSubstr("at column"));
}

TEST(Dim, broadcasts_sizes_that_may_be_1) {
  const Dim a = Dim::symbol(0), b = Dim::symbol(1);
  EXPECT_EQ(broadcast(a, 1), a);
  EXPECT_EQ(broadcast(a, a), a);
  EXPECT_EQ(broadcast(a, broadcast(b, a)), broadcast(a, b));
  EXPECT_EQ(text(broadcast(a, b) * 2), "broadcast(s0, s1)*2");
  EXPECT_EQ(parse_dim("broadcast(s0, s1)*2"), broadcast(a, b) * 2);
  EXPECT_EQ(evaluate(broadcast(a, b), {1, 5}), 5);
  EXPECT_EQ(evaluate(broadcast(a, b), {5, 1}), 5);
  EXPECT_EQ(evaluate(broadcast(a, b), {0, 1}), 0);
  EXPECT_THROW(evaluate(broadcast(a, b), {4, 5}), Error);
  EXPECT_THROW(broadcast(4, 5), Error);
}

constexpr DimOp kOps[] = {DimOp::Add, DimOp::Sub, DimOp::Mul, DimOp::FloorDiv,
                          DimOp::Mod, DimOp::Min, DimOp::Max, DimOp::Broadcast};

TEST(Dims, of_any_length_are_expressions_or_an_error_at_once) {
  for (const DimOp op : kOps) {
    const auto grown = [op](int parts, bool right) {
      Dim dim = s0;
      for (int i = 1; i < parts; ++i) {
        const Dim symbol = Dim::symbol(i * 7919 % 20011);
        dim = right ? Dim::make(op, symbol, dim) : Dim::make(op, dim, symbol);
      }
      return dim;
    };
    for (const bool right : {false, true}) {
      const Dim longest = grown(Dim::kMaxParts, right);
      EXPECT_EQ(parse_dim(text(longest)), longest) << static_cast<int>(op);
      EXPECT_THAT(what_of([&] { grown(20000, right); }),
                  HasSubstr("more than 1024 numbers and symbols"));
    }
    EXPECT_THAT(what_of([&] {
                  for (Dim dim = s0 * s1;;) dim = Dim::make(op, dim, dim + 1);
                }),
                ::testing::AnyOf(HasSubstr("more than 1024"), HasSubstr("64 bits")));
  }
}

TEST(Dims, do_not_depend_on_the_order_in_which_a_chain_grows) {
  std::mt19937 random(1);
  std::vector<Dim> parts;
  for (int i = 0; i < 12; ++i) parts.push_back(i % 4 == 3 ? Dim(i) : Dim::symbol(i % 7) - s2);
  for (const DimOp op : {DimOp::Add, DimOp::Mul, DimOp::Min, DimOp::Max}) {
    const auto chain = [&] {
      std::vector<Dim> left = parts;
      while (left.size() > 1) {  // any two become one
        std::shuffle(left.begin(), left.end(), random);
        const Dim one = Dim::make(op, left[left.size() - 1], left[left.size() - 2]);
        left.pop_back();
        left.back() = one;
      }
      return left[0];
    };
    const Dim first = chain();
    for (int round = 0; round < 50; ++round) EXPECT_EQ(chain(), first);
  }
}

TEST(Dims, of_a_mutated_text_are_read_or_refused_by_an_error) {
  Mutator mutator(1,
                  {"s0*2+1", "min(s0, max(s1, 3))//(s2-1)%7", "broadcast(s0, s1)*-4", "s0+s1+s2"});
  const std::vector<int64_t> values(1 << 10, 3);
  for (int round = rounds_of(3000, 300000); round > 0; --round) {
    const std::string foreign = mutator.next();
    try {
      const Dim dim = parse_dim(foreign);
      ASSERT_EQ(parse_dim(text(dim)), dim) << foreign;
      evaluate(dim, values);
      substitute(dim, {s1, s2 + 1, s0 * s0});
    } catch (const Error&) {
    }
  }
  for (const char* deep : {"(", "min(", "s0%(", "broadcast(1, "}) {
    std::string foreign;
    for (int i = 0; i < 1000000; ++i) foreign += deep;
    EXPECT_THROW(parse_dim(foreign), Error);
  }
}

TEST(SizeArithmetic, is_that_of_128_bits_or_says_why_not) {
  const int64_t values[] = {
      INT64_MIN,  INT64_MIN + 1, -4294967296,   -7,       -2, -1, 0, 1, 2, 3, 7,
      3037000500, 4294967296,    INT64_MAX - 1, INT64_MAX};
  const auto exact = [](DimOp op, __int128 a, __int128 b) -> __int128 {
    const auto floor = [&] { return a / b - (a % b != 0 && (a < 0) != (b < 0)); };
    switch (op) {
      case DimOp::Add:
        return a + b;
      case DimOp::Sub:
        return a - b;
      case DimOp::Mul:
        return a * b;
      case DimOp::FloorDiv:
        return floor();
      case DimOp::Mod:
        return a - floor() * b;
      case DimOp::Min:
        return std::min(a, b);
      case DimOp::Max:
        return std::max(a, b);
      default:
        return a == 1 ? b : a;
    }
  };
  for (const DimOp op : kOps)
    for (const int64_t a : values)
      for (const int64_t b : values) {
        int64_t got = 0;
        const SizeFault fault = calculate(op, a, b, &got);
        const bool divides = op == DimOp::FloorDiv || op == DimOp::Mod;
        const bool fits = a == b || a == 1 || b == 1;
        if (divides && b == 0) {
          EXPECT_EQ(fault, SizeFault::ZeroDivision);
        } else if (op == DimOp::Broadcast && !fits) {
          EXPECT_EQ(fault, SizeFault::Mismatch);
        } else {
          const __int128 want = exact(op, a, b);
          const bool holds = want >= INT64_MIN && want <= INT64_MAX;
          EXPECT_EQ(fault, holds ? SizeFault::None : SizeFault::Overflow) << a << " " << b;
          EXPECT_EQ(holds ? got : 0, holds ? static_cast<int64_t>(want) : 0) << a << " " << b;
        }
      }
}

}  // namespace pto::dims_test
