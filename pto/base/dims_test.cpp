// SPDX-License-Identifier: Apache-2.0
#include "pto/base/dims.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pto/base/error.hpp"

namespace pto {
namespace {

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
              HasSubstr("size s0//s1 divides 4 by zero"));
  EXPECT_THAT(what_of([] {
                evaluate(s2, {4, 0});
              }),
              HasSubstr("size s2 has no value: 2 symbols are known"));
  EXPECT_THAT(what_of([] { evaluate(s0 * s0, {INT64_C(1) << 40}); }),
              HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(what_of([] { Dim(INT64_MAX) + 1; }), HasSubstr("does not fit 64 bits"));
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

}  // namespace
}  // namespace pto
