// SPDX-License-Identifier: Apache-2.0
// Operations along an axis: gather, scatter, sort, scans, iota. Their values against NumPy stand in
// tests/test_axis_operations.py; here, what a graph alone shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/verify.hpp"

namespace pto::axis_operations_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kAll =
    R"(graph g(%x: f32[s0, s1], %rows: i32[s2]) -> (f32[s0, s1], f32[s2, s1], i64[s0, s1]) {
  %0 = iota {axes=[0]} : i64[s2, 1]
  %1 = reshape(%rows) : i32[s2, 1]
  %2 = gather(%x, %1) {axes=[0]} : f32[s2, s1]
  %3 = scatter(%x, %1, %2) {axes=[0]} : f32[s0, s1]
  %4 = scatter_add(%3, %0, %2) {axes=[0]} : f32[s0, s1]
  %5 = sort(%4) : f32[s0, s1]
  %6 = result(%5) {index=1} : i64[s0, s1]
  %7 = cumsum(%5) {axes=[1]} : f32[s0, s1]
  return %7, %2, %6
}
)";

Array reals(std::vector<int64_t> shape, std::vector<double> values) {
  Array array(DType::F32, std::move(shape));
  array.reals = std::move(values);
  return array;
}

Array integers(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> values) {
  Array array(dtype, std::move(shape));
  array.integers = std::move(values);
  return array;
}

std::string what_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(AxisOperations, print_and_parse_and_compute) {
  const Graph graph = parse(kAll);
  EXPECT_EQ(print(graph), kAll);
  verify(graph);
  const auto out = interpret(graph, {reals({2, 2}, {4, 3, 2, 1}), integers(DType::I32, {1}, {1})});
  EXPECT_THAT(out[0].reals, ElementsAre(4, 10, 1, 3));
  EXPECT_THAT(out[1].reals, ElementsAre(2, 1));
  EXPECT_THAT(out[2].integers, ElementsAre(1, 0, 1, 0));
}

TEST(AxisOperations, ask_for_guards_of_the_other_axes) {
  const std::string text =
      "graph g(%x: f32[s0, s1], %i: i64[s2, s3]) -> (f32[s2, s1]) {\n"
      "  %0 = gather(%x, %i) {axes=[0]} : f32[s2, s1]\n";
  EXPECT_THAT(what_of([&] { verify(parse(text + "return %0 }")); }),
              HasSubstr("sizes s3 and s1 are equal or have a guard"));
  EXPECT_EQ(what_of([&] { verify(parse(text + "guard s3 == s1 because \"gather\" return %0 }")); }),
            "no error");
  GraphBuilder b("g");
  const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1);
  const Value x = b.input("x", DType::F32, {s0, 4}), i = b.input("i", DType::I64, {3, s1});
  b.output(b.along(Opcode::gather, {x, i}, 0));
  EXPECT_EQ(b.build().guards()[0], (Guard{{s1, 4, "gather"}, {}}));
}

TEST(AxisOperations, name_the_position_that_does_not_exist) {
  const auto at = [](const char* line, int64_t position) {
    const std::string graph =
        "graph g(%x: f32[3], %i: i64[1], %y: f32[1]) -> (f32[3]) {\n  %0 = " + std::string(line) +
        " @ \"user.py\":7\n  %1 = sort(%x) : f32[3]\n" + "  return %1 }";
    return what_of([&] {
      interpret(parse(graph),
                {reals({3}, {0, 0, 0}), integers(DType::I64, {1}, {position}), reals({1}, {0})});
    });
  };
  const char* gather = "gather(%x, %i) {axes=[0]} : f32[1]";
  const char* scatter = "scatter(%x, %i, %y) {axes=[0]} : f32[3]";
  EXPECT_THAT(at(gather, 3), HasSubstr("user.py:7: gather: position 3 along axis 0, which has the "
                                       "size 3"));
  EXPECT_THAT(at(gather, -1), HasSubstr("gather: position -1 along axis 0"));
  EXPECT_EQ(at(scatter, -1), "no error");
  EXPECT_THAT(at(scatter, -2), HasSubstr("scatter: position -2 along axis 0"));
  EXPECT_THAT(at(scatter, 3), HasSubstr("scatter: position 3 along axis 0"));
}

TEST(AxisOperations, read_and_write_over_several_axes_as_over_one_of_a_reshape) {
  const Graph graph = parse(
      "graph g(%x: f32[2, 3, 2], %i: i64[2, 1], %y: f32[2, 2]) -> (f32[2, 3, 2], f32[2, 3, 2], "
      "f32[2, 2], f32[2, 2]) {"
      R"(
  %0 = reshape(%x) : f32[6, 2]
  %1 = scatter(%0, %i, %y) {axes=[0]} : f32[6, 2]
  %2 = reshape(%1) : f32[2, 3, 2]
  %3 = scatter(%x, %i, %y) {axes=[0, 1]} : f32[2, 3, 2]
  %4 = abs(%i) : i64[2, 1]
  %5 = gather(%0, %4) {axes=[0]} : f32[2, 2]
  %6 = gather(%x, %4) {axes=[0, 1]} : f32[2, 2]
  return %2, %3, %5, %6
})");
  EXPECT_EQ(print(parse(print(graph))), print(graph));
  for (const auto& at : std::vector<std::vector<int64_t>>{{4, 1}, {5, 5}, {-1, 0}}) {
    const auto found =
        interpret(graph, {reals({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
                          integers(DType::I64, {2, 1}, at), reals({2, 2}, {20, 21, 22, 23})});
    EXPECT_TRUE(same_bits(found[0], found[1]));
    EXPECT_TRUE(same_bits(found[2], found[3]));
  }
}

Bounded bounded(const char* text, const std::vector<Array>& inputs) {
  return interpret_with_bounds(parse(text), inputs)[0];
}

TEST(AxisOperations, have_bounds_that_grow_along_scans_and_stay_in_sorts) {
  const Array x = reals({3}, {3, 1, 2});
  const Bounded sums = bounded(
      "graph g(%x: f32[3]) -> (f32[3]) {\n  %0 = exp(%x) : f32[3]\n"
      "  %1 = cumsum(%0) {axes=[0]} : f32[3]\n  return %1 }",
      {x});
  EXPECT_LT(0, sums.bounds[0]);
  EXPECT_LT(sums.bounds[0], sums.bounds[1]);
  EXPECT_LT(sums.bounds[1], sums.bounds[2]);
  EXPECT_THAT(bounded("graph g(%x: f32[3]) -> (f32[3]) {\n"
                      "  %0 = cumsum(%x) {axes=[0]} : f32[3]\n  return %0 }",
                      {x})
                  .bounds,
              ElementsAre(0, 0, 0));
  const char* sorted =
      "graph g(%x: f32[3]) -> (f32[3], i64[3]) {\n  %0 = exp(%x) : f32[3]\n"
      "  %1 = sort(%0) : f32[3]\n  %2 = result(%1) {index=1} : i64[3]\n  return %1, %2 }";
  const auto out = interpret_with_bounds(parse(sorted), {x});
  EXPECT_EQ(out[0].bounds[0], out[0].bounds[2]);
  EXPECT_LT(out[0].bounds[0], 1e-4);
  EXPECT_THAT(out[1].bounds, ElementsAre(INFINITY, INFINITY, INFINITY));
}

struct Mistake {
  const char* name;
  const char* line;  // in a graph of %x: f32[2, 3], %i: i64[4, 1], %n: f32[], %b: bool[2, 3]
  const char* what;
};

class EachAxisMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(EachAxisMistake, says_what_why_and_a_fix) {
  const std::string text =
      "graph g(%x: f32[2, 3], %i: i64[4, 1], %n: f32[], %b: bool[2, 3]) -> (f32[]) {\n  %0 = " +
      std::string(GetParam().line) + "\n  return %n }";
  EXPECT_THAT(what_of([&] { parse(text); }),
              AllOf(HasSubstr(GetParam().what), HasSubstr("why: "), HasSubstr("fix: ")));
}

INSTANTIATE_TEST_SUITE_P(
    AxisOperations, EachAxisMistake,
    ::testing::Values(
        Mistake{"iota_axis", "iota {axes=[1]} : i64[3]", "iota: axes [1] of the shape [3]"},
        Mistake{"iota_type", "iota {axes=[0]} : f32[3]", "iota: the result is f32[3]"},
        Mistake{"gather_axes", "gather(%x, %i) {axes=[1, 0]} : f32[4, 3]", "gather: axes [1, 0]"},
        Mistake{"gather_index", "gather(%x, %x) {axes=[0]} : f32[2, 3]",
                "gather: the positions are f32[2, 3]"},
        Mistake{"gather_shape", "gather(%x, %i) {axes=[1]} : f32[2, 1]",
                "positions of shape [4, 1] along axis 1"},
        Mistake{"gather_scalar", "gather(%n, %i) {axes=[0]} : f32[]", "gather: axes [0] of the"},
        Mistake{"scatter_part", "scatter(%x, %i, %x) {axes=[0]} : f32[2, 3]",
                "scatter: a part of shape [2, 3] for positions of shape [4, 1]"},
        Mistake{"scatter_axes", "scatter(%x, %i, %x) {axes=[1, 0]} : f32[2, 3]",
                "scatter: axes [1, 0] of the shape [2, 3]"},
        Mistake{"scatter_more_axes", "scatter(%x, %i, %x) {axes=[0, 1, 2]} : f32[2, 3]",
                "scatter: axes [0, 1, 2] of the shape [2, 3]"},
        Mistake{"add_axes", "scatter_add(%x, %i, %x) {axes=[0, 1]} : f32[2, 3]",
                "scatter_add: axes [0, 1] of the shape [2, 3]"},
        Mistake{"scatter_type", "scatter(%x, %i, %b) {axes=[0]} : f32[2, 3]",
                "scatter: left is f32 but right is bool"},
        Mistake{"add_to_bool", "scatter_add(%b, %i, %b) {axes=[0]} : bool[2, 3]",
                "scatter_add: not defined on bool"},
        Mistake{"sort_scalar", "sort(%n) : f32[]", "sort: the operand is f32[]"},
        Mistake{"scan_of_bool", "cumsum(%b) {axes=[0]} : bool[2, 3]", "cumsum: not defined on"},
        Mistake{"scan_axis", "cummax(%x) {axes=[2]} : f32[2, 3]", "cummax: axes [2]"},
        Mistake{"result_of_scan", "result(%x) {index=0} : f32[]", "result: index 0 of input"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace pto::axis_operations_test
