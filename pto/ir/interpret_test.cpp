// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/interpret.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pto/base/number.hpp"
#include "pto/ir/parse.hpp"

namespace pto::interpret_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Array reals(DType dtype, std::vector<int64_t> shape, std::vector<double> values) {
  Array array(dtype, std::move(shape));
  array.reals = std::move(values);
  array.normalize();
  return array;
}

Array integers(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> values) {
  Array array(dtype, std::move(shape));
  array.integers = std::move(values);
  array.normalize();
  return array;
}

Array run(const char* text, const std::vector<Array>& inputs) {
  return interpret(parse(text), inputs)[0];
}

std::string what_of(const char* text, const std::vector<Array>& inputs) {
  try {
    interpret(parse(text), inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Runs one operation on two inputs of a type, which may be the type of the result.
Array binary(const char* op, DType dtype, Array a, Array b) {
  const std::string type = std::string(name(dtype)) + "[s0]";
  const std::string result = info(*parse_opcode(op)).family == Family::Compare ? "bool[s0]" : type;
  return run(("graph g(%a: " + type + ", %b: " + type + ") -> (" + result + ") {\n  %0 = " + op +
              "(%a, %b) : " + result + "\n  return %0 }")
                 .c_str(),
             {std::move(a), std::move(b)});
}

struct IntegerCase {
  const char* op;
  DType dtype;
  int64_t a, b, value;
};

class EachIntegerCase : public ::testing::TestWithParam<IntegerCase> {};

TEST_P(EachIntegerCase, has_the_value_of_the_table) {
  const auto& [op, dtype, a, b, value] = GetParam();
  EXPECT_EQ(binary(op, dtype, integers(dtype, {1}, {a}), integers(dtype, {1}, {b})).integers[0],
            value)
      << op;
}

INSTANTIATE_TEST_SUITE_P(
    Interpret, EachIntegerCase,
    ::testing::Values(
        IntegerCase{"div", DType::I32, -7, 2, -3}, IntegerCase{"div", DType::I32, 7, 0, 0},
        IntegerCase{"div", DType::I32, INT32_MIN, -1, INT32_MIN},
        IntegerCase{"div", DType::I64, INT64_MIN, -1, INT64_MIN},
        IntegerCase{"fmod", DType::I32, -7, 2, -1},
        IntegerCase{"fmod", DType::I64, INT64_MIN, -1, 0},
        IntegerCase{"remainder", DType::I32, -7, 2, 1},
        IntegerCase{"remainder", DType::I32, 7, -2, -1},
        IntegerCase{"remainder", DType::I32, 7, 0, 0}, IntegerCase{"pow", DType::I32, -2, 3, -8},
        IntegerCase{"pow", DType::I32, 2, -1, 0}, IntegerCase{"pow", DType::I32, -1, -3, -1},
        IntegerCase{"pow", DType::I32, 3, 40, wrap_to(DType::I32, -6289078614652622815)},
        IntegerCase{"add", DType::I64, INT64_MAX, 1, INT64_MIN},
        IntegerCase{"mul", DType::I32, 1 << 20, 1 << 20, 0},
        IntegerCase{"sub", DType::U8, 1, 2, 255}, IntegerCase{"maximum", DType::U64, -1, 1, -1},
        IntegerCase{"div", DType::U64, -1, 2, INT64_MAX}, IntegerCase{"lt", DType::U64, -1, 1, 0},
        IntegerCase{"lt", DType::I64, -1, 1, 1}, IntegerCase{"bitwise_xor", DType::I8, -1, 5, -6},
        IntegerCase{"logical_and", DType::Bool, 1, 0, 0}));

TEST(Interpret, rounds_every_float_operation_to_its_type) {
  const Array third =
      binary("div", DType::F16, reals(DType::F16, {1}, {1}), reals(DType::F16, {1}, {3}));
  EXPECT_EQ(third.reals[0], 0.333251953125);
  const Array big =
      binary("mul", DType::F16, reals(DType::F16, {1}, {300}), reals(DType::F16, {1}, {300}));
  EXPECT_EQ(big.reals[0], INFINITY);
}

TEST(Interpret, maximum_and_its_reduction_propagate_nan) {
  const Array x = reals(DType::F32, {3}, {1, NAN, 2}), y = reals(DType::F32, {3}, {NAN, 0, 3});
  const Array most = binary("maximum", DType::F32, x, y);
  EXPECT_TRUE(std::isnan(most.reals[0]) && std::isnan(most.reals[1]));
  EXPECT_EQ(most.reals[2], 3);
  EXPECT_TRUE(std::isnan(run("graph g(%x: f32[s0]) -> (f32[1]) {\n"
                             "  %0 = amin(%x) {axes=[0]} : f32[1]\n  return %0 }",
                             {x})
                             .reals[0]));
}

TEST(Interpret, reduces_several_axes_and_empty_ones) {
  const char* sums =
      "graph g(%x: f32[s0, s1, s2]) -> (f32[1, s1, 1]) {\n"
      "  %0 = sum(%x) {axes=[0, 2]} : f32[1, s1, 1]\n  return %0 }";
  EXPECT_THAT(run(sums, {reals(DType::F32, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}).reals,
              ElementsAre(1 + 2 + 5 + 6, 3 + 4 + 7 + 8));
  EXPECT_THAT(run(sums, {Array(DType::F32, {0, 3, 2})}).reals, ElementsAre(0, 0, 0));
  EXPECT_EQ(run("graph g(%x: i32[s0]) -> (i32[1]) {\n"
                "  %0 = amax(%x) {axes=[0]} : i32[1]\n  return %0 }",
                {Array(DType::I32, {0})})
                .integers[0],
            INT32_MIN);
}

TEST(Interpret, sums_in_double_and_rounds_once) {
  const char* sum =
      "graph g(%x: f32[s0]) -> (f32[1]) {\n"
      "  %0 = sum(%x) {axes=[0]} : f32[1]\n  return %0 }";
  EXPECT_EQ(run(sum, {reals(DType::F32, {3}, {16777216, 1, 1})}).reals[0], 16777218);
}

TEST(Interpret, moves_elements) {
  const Array x = reals(DType::F32, {2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_THAT(run("graph g(%x: f32[s0, s1]) -> (f32[s1, s0]) {\n"
                  "  %0 = transpose(%x) {axes=[1, 0]} : f32[s1, s0]\n  return %0 }",
                  {x})
                  .reals,
              ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(run("graph g(%x: f32[s0, s1]) -> (f32[2, 2]) {\n"
                  "  %0 = constant {value=0} : i64[]\n  %1 = constant {value=1} : i64[]\n"
                  "  %2 = view(%x, %0, %1) : f32[2, 2]\n  return %2 }",
                  {x})
                  .reals,
              ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(run("graph g(%x: f32[s0]) -> (f32[2, s0]) {\n"
                  "  %0 = broadcast(%x) : f32[2, s0]\n  return %0 }",
                  {reals(DType::F32, {2}, {7, 8})})
                  .reals,
              ElementsAre(7, 8, 7, 8));
}

TEST(Interpret, multiplies_batches_of_matrices) {
  const char* product =
      "graph g(%x: f32[s0, 2, 3], %y: f32[3, 2]) -> (f32[s0, 2, 2]) {\n"
      "  %0 = matmul(%x, %y) : f32[s0, 2, 2]\n  return %0 }";
  EXPECT_THAT(run(product, {reals(DType::F32, {2, 2, 3}, {1, 2, 3, 4, 5, 6, 1, 0, 0, 0, 1, 0}),
                            reals(DType::F32, {3, 2}, {1, 2, 3, 4, 5, 6})})
                  .reals,
              ElementsAre(22, 28, 49, 64, 1, 2, 3, 4));
}

TEST(Interpret, multiplies_batches_on_the_right) {
  const char* product =
      "graph g(%x: f32[1, 2], %y: f32[2, 2, 1]) -> (f32[2, 1, 1]) {\n"
      "  %0 = matmul(%x, %y) : f32[2, 1, 1]\n  return %0 }";
  EXPECT_THAT(
      run(product, {reals(DType::F32, {1, 2}, {1, 10}), reals(DType::F32, {2, 2, 1}, {1, 2, 3, 4})})
          .reals,
      ElementsAre(21, 43));
}

TEST(Interpret, ends_inside_of_an_operation_when_it_is_interrupted) {
  const Graph graph =
      parse("graph g(%x: f32[s0]) -> (f32[s0]) { %0 = exp(%x) : f32[s0] return %0 }");
  const std::vector<Array> inputs{Array(DType::F32, {(1 << 20) + 1})};
  InterpretLimits limits;
  limits.interrupted = [] { return true; };
  EXPECT_THROW(interpret(graph, inputs, limits), Error);
  limits.interrupted = [] { return false; };
  EXPECT_EQ(interpret(graph, inputs, limits)[0].reals.back(), 1);
}

constexpr const char* kFibonacci =
    "graph g(%n: i64[]) -> (i64[], i64[]) {\n"
    "  %0 = constant {value=0} : i64[]\n  %1 = constant {value=1} : i64[]\n"
    "  %2 = loop(%0, %n, %1, %0, %1) graph step(%i: i64[], %a: i64[], %b: i64[]) -> (i64[], i64[]) "
    "{\n"
    "    %0 = add(%a, %b) : i64[]\n    return %b, %0 } : i64[]\n"
    "  %3 = result(%2) {index=1} : i64[]\n  return %2, %3 }";

TEST(Interpret, runs_loops_with_carried_values) {
  const auto outputs = interpret(parse(kFibonacci), {integers(DType::I64, {}, {10})});
  EXPECT_EQ(outputs[0].integers[0], 55);
  EXPECT_EQ(outputs[1].integers[0], 89);
  EXPECT_EQ(interpret(parse(kFibonacci), {integers(DType::I64, {}, {-1})})[0].integers[0], 0);
}

TEST(Interpret, refuses_inputs_that_do_not_fit) {
  const char* add =
      "graph g(%x: f32[s0], %y: f32[s1]) -> (f32[s0]) {\n"
      "  %0 = broadcast(%y) : f32[s0]\n  %1 = add(%x, %0) : f32[s0]\n"
      "  guard s0 == s1 because \"add\" @ \"user.py\":3\n  return %1 }";
  const Array two(DType::F32, {2}), three(DType::F32, {3});
  EXPECT_THAT(what_of(add, {two}), HasSubstr("takes 2 inputs but got 1"));
  EXPECT_THAT(what_of(add, {two, three}), HasSubstr("user.py:3: add: s1 has size 3 but s0 is 2"));
  EXPECT_THAT(what_of(add, {two, Array(DType::F64, {2})}),
              HasSubstr("input \"y\" is f64[2] but the graph takes f32[s1]"));
  EXPECT_THAT(what_of("graph g(%x: f32[s0, s0]) -> (f32[s0, s0]) { return %x }",
                      {Array(DType::F32, {2, 3})}),
              HasSubstr("input \"x\", axis 1 has size 3 but s0 is 2"));
  EXPECT_THAT(what_of("graph g(%x: f32[s0], %i: i64[]) -> (f32[2]) {\n"
                      "  %0 = view(%x, %i) : f32[2]\n  return %0 }",
                      {three, integers(DType::I64, {}, {2})}),
              HasSubstr("view: axis 0, offset 2 and size 2 of 3"));
  EXPECT_THAT(
      what_of("graph g(%n: i64[]) -> (i64[]) {\n"
              "  %0 = loop(%n, %n, %n, %n) graph b(%i: i64[], %c: i64[]) -> (i64[]) { return %c }"
              " : i64[]\n  return %0 }",
              {integers(DType::I64, {}, {0})}),
      HasSubstr("loop: the step is 0"));
}

Bounded bounded(const char* text, const std::vector<Array>& inputs) {
  return interpret_with_bounds(parse(text), inputs)[0];
}

TEST(Bounds, are_zero_where_compiled_code_has_no_choice) {
  const Bounded sum = bounded(
      "graph g(%x: f32[s0], %y: f32[s0]) -> (f32[s0]) {\n"
      "  %0 = add(%x, %y) : f32[s0]\n  return %0 }",
      {reals(DType::F32, {2}, {0.1, 1e30}), reals(DType::F32, {2}, {0.2, 1})});
  EXPECT_THAT(sum.bounds, ElementsAre(0, 0));
}

TEST(Bounds, cover_functions_and_grow_along_chains) {
  const std::vector<Array> x{reals(DType::F32, {1}, {1})};
  const Bounded once = bounded(
      "graph g(%x: f32[1]) -> (f32[1]) {\n"
      "  %0 = exp(%x) : f32[1]\n  return %0 }",
      x);
  const Bounded twice = bounded(
      "graph g(%x: f32[1]) -> (f32[1]) {\n"
      "  %0 = exp(%x) : f32[1]\n  %1 = exp(%0) : f32[1]\n  return %1 }",
      x);
  const double ulp = 0x1p-22;
  EXPECT_EQ(once.bounds[0], 3 * ulp);
  EXPECT_GT(twice.bounds[0], std::exp(std::exp(1.0)) * once.bounds[0]);
  EXPECT_LT(twice.bounds[0], 2 * std::exp(std::exp(1.0)) * once.bounds[0]);
}

TEST(Bounds, allow_anything_where_a_choice_hangs_on_rounding) {
  const char* compare =
      "graph g(%x: f32[1], %y: f32[1]) -> (bool[1]) {\n"
      "  %0 = exp(%x) : f32[1]\n  %1 = lt(%0, %y) : bool[1]\n  return %1 }";
  const Array one = reals(DType::F32, {1}, {1});
  EXPECT_EQ(bounded(compare, {one, reals(DType::F32, {1}, {std::exp(1.0)})}).bounds[0], INFINITY);
  EXPECT_EQ(bounded(compare, {one, reals(DType::F32, {1}, {3})}).bounds[0], 0);
}

TEST(Bounds, name_the_first_element_outside) {
  const Bounded want{reals(DType::F32, {3}, {1, NAN, 2}), {0.1, 0, INFINITY}};
  EXPECT_EQ(difference(want, reals(DType::F32, {3}, {1.05, NAN, 77})), "");
  EXPECT_THAT(difference(want, reals(DType::F32, {3}, {1.25, NAN, 77})),
              HasSubstr("element 0 of f32[3] {...}: expected 1 within 0.1 but got 1.25"));
  EXPECT_THAT(difference(want, reals(DType::F32, {3}, {1, 0, 2})), HasSubstr("element 1"));
  EXPECT_THAT(difference(want, reals(DType::F32, {2}, {1, 0})), HasSubstr("but got f32[2]"));
}

}  // namespace pto::interpret_test
