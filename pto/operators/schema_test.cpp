// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pto/base/error.hpp"
#include "pto/operators/type_rule.hpp"
#include "tests/deep.hpp"
#include "tests/mutate.hpp"

namespace pto::schema_test {

TEST(Schema, prints_what_it_parsed) {
  for (const std::string schema : {
           "gelu(Tensor x, *, str approximate='none') -> Tensor",
           "f(Tensor x, Tensor? y=None, int n=-3, float eps=1e-05, bool b=True) -> Tensor",
           "g(Tensor x, float a=1.0, *, bool c=False) -> (Tensor, Tensor)",
           "h(Tensor x) -> Tensor",
           "i(Tensor[] xs, int[] sizes=[1, 2], int[2] stride=[1, 1], SymInt k=3) -> Tensor[]",
           "j(Tensor(a!) x, Scalar s=1.0, int? n=None, float? f=0.5, bool? b=True) -> Tensor(a!)",
           "k(Tensor(a!) x, str? s=None, int[]? l=None) -> ()",
           "l(Tensor x) -> (Tensor[], Tensor)",
           "space::m(Tensor x) -> Tensor",
       }) {
    EXPECT_EQ(text(parse_schema(schema)), schema);
  }
}

TEST(Schema, says_what_each_argument_is) {
  const Schema schema =
      parse_schema("f(Tensor x,Tensor? m, *, float eps = 0.5, str s=\"a\")->Tensor");
  ASSERT_EQ(schema.arguments.size(), 4u);
  EXPECT_EQ(schema.name, "f");
  EXPECT_TRUE(is_tensor(schema.arguments[1]));
  EXPECT_FALSE(schema.arguments[1].is_keyword_only);
  EXPECT_TRUE(schema.arguments[2].is_keyword_only);
  EXPECT_EQ(std::get<double>(*schema.arguments[2].default_value), 0.5);
  EXPECT_EQ(std::get<std::string>(*schema.arguments[3].default_value), "a");
}

TEST(Schema, names_its_outputs) {
  const auto names = [](const std::string& schema) {
    std::string all;
    for (const Return& one : parse_schema(schema).returns) all += one.name + " ";
    return all;
  };
  EXPECT_EQ(names("f(Tensor x) -> Tensor"), "result ");
  EXPECT_EQ(names("f(Tensor x) -> (Tensor y)"), "y ");
  EXPECT_EQ(names("f(Tensor x) -> (Tensor y, Tensor)"), "y result1 ");
  EXPECT_EQ(names("f(Tensor result) -> Tensor"), "result_ ");
  EXPECT_EQ(names("f(Tensor(a!) x) -> (Tensor(a!), Tensor)"), "x result1 ");
}

TEST(Schema, makes_that_of_a_gradient_operator) {
  const Schema of = parse_schema(
      "f(Tensor x, Tensor? d_x, int needs, Tensor[] xs, float eps=0.5) -> (Tensor y, Tensor i)");
  const Schema made = gradient_schema(of, {0}, {1, 3, -1}, {0, 1, 3});
  EXPECT_EQ(text(made, true),
            "f_backward(Tensor d_y, Tensor? d_x, Tensor[] xs, Tensor y, *, int needs, "
            "float eps=0.5, int needs_=-1) -> (Tensor d_d_x, Tensor d_d_d_x, Tensor[] d_xs)");
  EXPECT_EQ(text(parse_schema(text(made, true)), true), text(made, true));
}

TEST(Schema, makes_that_of_an_operator_in_place) {
  const auto made = [](const char* of) { return text(inplace_schema(parse_schema(of))); };
  EXPECT_EQ(made("f(Tensor x, *, int n=1) -> Tensor"),
            "f_(Tensor(a!) x, *, int n=1) -> Tensor(a!)");
  EXPECT_EQ(made("a::f(Tensor x) -> (Tensor y)"), "a::f_(Tensor(a!) x) -> Tensor(a!)");
  try {
    made("f(Tensor[] xs) -> Tensor");
    FAIL() << "a list has no elements to replace";
  } catch (const Error& error) {
    EXPECT_THAT(error.text().what, testing::HasSubstr("f: its first argument is Tensor[] xs"));
  }
}

struct Bad {
  std::string schema, message;
};

class BadSchema : public testing::TestWithParam<Bad> {};

TEST_P(BadSchema, is_refused_with_the_column) {
  try {
    parse_schema(GetParam().schema);
    FAIL() << "parsed: " << GetParam().schema;
  } catch (const Error& error) {
    EXPECT_THAT(error.text().what, testing::HasSubstr(GetParam().message));
    EXPECT_FALSE(error.text().why.empty());
    EXPECT_FALSE(error.text().fix.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadSchema,
    testing::Values(Bad{"", "column 1: expected the operator's name"},
                    Bad{"f", "column 2: expected '('"},
                    Bad{"f(Complex x) -> Tensor", "column 3: expected one of Tensor, Tensor[]"},
                    Bad{"f(float[] x) -> Tensor", "column 3: expected one of Tensor, Tensor[]"},
                    Bad{"f(Tensor[]? x) -> Tensor", "column 3: expected one of Tensor, Tensor[]"},
                    Bad{"f(Tensor x, int[2] n=[1]) -> Tensor", "expected 2 numbers"},
                    Bad{"f(Tensor x, int[] n=1) -> Tensor", "expected a list as [1, 2]"},
                    Bad{"f(Tensor x) -> Tensor(a!)", "nothing is Tensor(a!) before"},
                    Bad{"f(Tensor x) -> (Tensor x)", "differ from each other and from the arg"},
                    Bad{"f(Tensor x, Tensor x) -> Tensor", "expected a name that is not taken yet"},
                    Bad{"f(Tensor x=1) -> Tensor", "expected no default: a tensor has none"},
                    Bad{"f(Tensor x, int n=a) -> Tensor", "expected a whole number, found \"a)"},
                    Bad{"f(Tensor x, float n=) -> Tensor", "expected a number"},
                    Bad{"f(Tensor x, str s='a) -> Tensor", "expected a string in quotes"},
                    Bad{"f(Tensor x", "column 11: expected ')'"},
                    Bad{"f(Tensor x) Tensor", "expected '->'"},
                    Bad{"f(Tensor x) -> int", "column 16: expected Tensor, Tensor[]"},
                    Bad{"f(Tensor x) -> Tensor y z", "expected the end, found \"z\""}));

TEST(Schema, of_a_mutated_text_is_read_or_refused_by_an_error) {
  Mutator mutator(1,
                  {"gelu(Tensor x, *, str approximate='none') -> Tensor",
                   "f(Tensor x, Tensor? y=None, int n=-3, float eps=1e-05, bool b=True) -> Tensor",
                   "i(Tensor[] xs, int[2] stride=[1, 1], SymInt k=3, int[]? l=None) -> Tensor[]",
                   "j(Tensor(a!) x, Scalar s=1.0) -> (Tensor(a!), Tensor y)"});
  Mutator rules(2, {"(T, T) -> T where T: f16 bf16 f32", "(T, i64) -> (T, bool) where T: number",
                    "T -> f32"});
  for (int round = rounds_of(5000, 500000); round > 0; --round) {
    const std::string foreign = mutator.next(), rule = rules.next();
    try {
      const Schema schema = parse_schema(foreign);
      const std::string printed = text(schema);
      ASSERT_EQ(text(parse_schema(printed)), printed) << foreign;
      parse_types(rule, schema);
    } catch (const Error&) {
    }
  }
}

TEST(Schema, has_lists_of_lengths_that_fit) {
  for (const char* length : {"0", "65", "4294967297", "-1", "18446744073709551617"})
    EXPECT_THROW(parse_schema(std::string("f(Tensor x, int[") + length + "] n) -> Tensor"), Error)
        << length;
}

}  // namespace pto::schema_test
