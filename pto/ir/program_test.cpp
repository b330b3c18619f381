// SPDX-License-Identifier: Apache-2.0
// Programs: views, updates, sizes that values say, and loops that carry what they write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/verify.hpp"

namespace pto::program_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// out[i] = sum(x[i, :lengths[i]]) for each row i.
constexpr const char* kRowSums =
    R"(graph sums(%x: f32[s0, s1], %lengths: i64[s0], %out: f32[s0]) -> (f32[s0]) {
  %0 = constant {value=0} : i64[]
  %1 = extent {size=s0} : i64[]
  %2 = constant {value=1} : i64[]
  %3 = loop(%0, %1, %2, %out, %x, %lengths) )"
    R"(graph row(%i: i64[], %o: f32[s0], %a: f32[s0, s1], %l: i64[s0]) -> (f32[s0]) {
    %0 = view(%l, %i) : i64[1]
    %1 = reshape(%0) : i64[]
    %2 = size(%1) {size=s2} : i64[] @ "rows.py":4
    %3 = constant {value=0} : i64[]
    %4 = view(%a, %i, %3) : f32[1, s2] @ "rows.py":5
    %5 = sum(%4) {axes=[1]} : f32[1, 1]
    %6 = reshape(%5) : f32[1]
    %7 = update(%o, %6, %i) : f32[s0]
    return %7
  } : f32[s0]
  return %3
}
)";

Array reals(std::vector<int64_t> shape, std::vector<double> values) {
  Array array(DType::F32, std::move(shape));
  array.reals = std::move(values);
  return array;
}

Array integers(std::vector<int64_t> shape, std::vector<int64_t> values) {
  Array array(DType::I64, std::move(shape));
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

std::vector<Array> rows(std::vector<int64_t> lengths) {
  return {reals({2, 3}, {1, 2, 3, 4, 5, 6}), integers({2}, std::move(lengths)), reals({2}, {9, 9})};
}

TEST(Program, reads_parts_whose_sizes_are_values_and_writes_into_what_it_carries) {
  const Graph graph = parse(kRowSums);
  EXPECT_EQ(print(graph), kRowSums);
  EXPECT_THAT(interpret(graph, rows({2, 3}))[0].reals, ElementsAre(3, 15));
  EXPECT_THAT(interpret(graph, rows({0, 1}))[0].reals, ElementsAre(0, 4));
}

TEST(Program, reads_and_writes_parts_whose_elements_are_steps_apart) {
  constexpr const char* kEvery = R"(graph every(%x: f32[s0, 3], %n: i64[]) -> (f32[s0, 3]) {
  %0 = constant {value=0} : i64[]
  %1 = view(%x, %n, %0) {steps=[1, 2]} : f32[1, 2]
  %2 = neg(%1) : f32[1, 2]
  %3 = update(%x, %2, %0, %0) {steps=[1, 2]} : f32[s0, 3]
  return %3
}
)";
  const Graph graph = parse(kEvery);
  EXPECT_EQ(print(graph), kEvery);
  const Array x = reals({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(interpret(graph, {x, integers({}, {1})})[0].reals, ElementsAre(-4, 2, -6, 4, 5, 6));
  EXPECT_THAT(what_of([&] {
                interpret(graph, {x, integers({}, {2})});
              }),
              HasSubstr("axis 0, offset 2 and size 1 of 2"));
}

// x[n] if x has this place, else 0.
constexpr const char* kElementOrZero =
    R"(graph element(%x: f32[s0], %n: i64[]) -> (f32[1], i64[]) {
  %0 = extent {size=s0} : i64[]
  %1 = lt(%n, %0) : bool[]
  %2 = branch(%1, %x, %n) graph then(%x: f32[s0], %n: i64[]) -> (f32[1], i64[]) {
    %0 = view(%x, %n) : f32[1]
    return %0, %n
  } graph otherwise(%a: f32[s0], %b: i64[]) -> (f32[1], i64[]) {
    %0 = constant {value=0} : f32[]
    %1 = broadcast(%0) : f32[1]
    %2 = constant {value=-1} : i64[]
    return %1, %2
  } : f32[1]
  %3 = result(%2) {index=1} : i64[]
  return %2, %3
}
)";

TEST(Program, runs_one_of_the_bodies_of_a_branch) {
  const Graph graph = parse(kElementOrZero);
  EXPECT_EQ(print(graph), kElementOrZero);
  const auto run = [&](int64_t n) {
    const auto out = interpret(graph, {reals({2}, {5, 6}), integers({}, {n})});
    return std::pair(out[0].reals[0], out[1].integers[0]);
  };
  EXPECT_EQ(run(1), std::pair(6.0, int64_t{1}));
  EXPECT_EQ(run(2), std::pair(0.0, int64_t{-1}));  // the other body would leave the tensor
}

// Halves n until it is odd, and counts how often.
constexpr const char* kHalvings =
    R"(graph halvings(%n: i64[]) -> (i64[], i64[]) {
  %0 = constant {value=0} : i64[]
  %1 = repeat(%n, %0) graph even(%n: i64[], %k: i64[]) -> (bool[]) {
    %0 = constant {value=2} : i64[]
    %1 = remainder(%n, %0) : i64[]
    %2 = constant {value=0} : i64[]
    %3 = eq(%1, %2) : bool[]
    return %3
  } graph halve(%n: i64[], %k: i64[]) -> (i64[], i64[]) {
    %0 = constant {value=2} : i64[]
    %1 = div(%n, %0) : i64[]
    %2 = constant {value=1} : i64[]
    %3 = add(%k, %2) : i64[]
    return %1, %3
  } : i64[]
  %2 = result(%1) {index=1} : i64[]
  return %1, %2
}
)";

TEST(Program, repeats_a_step_while_its_condition_holds) {
  const Graph graph = parse(kHalvings);
  EXPECT_EQ(print(graph), kHalvings);
  const auto out = interpret(graph, {integers({}, {40})});
  EXPECT_THAT(out[0].integers, ElementsAre(5));
  EXPECT_THAT(out[1].integers, ElementsAre(3));
  EXPECT_THAT(interpret(graph, {integers({}, {3})})[1].integers, ElementsAre(0));
}

TEST(Program, that_never_ends_is_an_error) {
  EXPECT_THAT(what_of([] { interpret(parse(kHalvings), {integers({}, {0})}, {.rounds = 1000}); }),
              HasSubstr("a loop has not ended after 1000 rounds"));
}

TEST(Program, allows_any_value_where_compiled_code_may_choose_the_other_body) {
  const Graph graph = parse(
      "graph g(%x: f32[]) -> (f32[]) {\n  %0 = exp(%x) : f32[]\n"
      "  %1 = constant {value=2.71828174591064453125} : f32[]\n  %2 = gt(%0, %1) : bool[]\n"
      "  %3 = branch(%2, %x) graph t(%x: f32[]) -> (f32[]) { return %x } "
      "graph o(%x: f32[]) -> (f32[]) { return %x } : f32[]\n  return %3 }");
  EXPECT_EQ(interpret_with_bounds(graph, {reals({}, {1})})[0].bounds[0], INFINITY);
  EXPECT_EQ(interpret_with_bounds(graph, {reals({}, {2})})[0].bounds[0], 0);
}

TEST(Program, that_leaves_its_tensor_fails_at_the_users_line) {
  const Graph graph = parse(kRowSums);
  EXPECT_THAT(what_of([&] {
                interpret(graph, rows({2, 4}));
              }),
              AllOf(HasSubstr("rows.py:5: view: axis 1, offset 0 and size 4 of 3"),
                    HasSubstr("fix: choose a size from 0 to 3")));
  EXPECT_THAT(what_of([&] {
                interpret(graph, rows({2, -1}));
              }),
              HasSubstr("rows.py:4: a size is -1"));
}

TEST(Program, keeps_the_nodes_that_define_sizes) {
  const Graph graph = parse(
      "graph g(%n: i64[]) -> (f32[s0]) {\n  %0 = constant {value=1} : f32[]\n"
      "  %1 = size(%n) {size=s0} : i64[]\n  %2 = broadcast(%0) : f32[s0]\n  return %2 }");
  EXPECT_THAT(needed_nodes(graph, graph.outputs()), ElementsAre(true, true, true, true));
  EXPECT_EQ(interpret(graph, {integers({}, {3})})[0].shape, (std::vector<int64_t>{3}));
}

constexpr const char* kChecked =
    R"(graph checked(%x: f32[2], %n: i64[]) -> (f32[2]) {
  %0 = constant {value=0} : i64[]
  %1 = constant {value=1} : i64[]
  %2 = loop(%0, %1, %1, %0, %n) graph body(%i: i64[], %idle: i64[], %m: i64[]) -> (i64[]) {
    %0 = size(%m) {size=s0} : i64[]
    guard none s0 because "m is 0" @ "user.py":3
    return %idle
  } : i64[]
  return %x
}
)";

TEST(Program, keeps_bodies_that_check_values_and_reads_checks_back) {
  const Graph graph = parse(kChecked);
  verify(graph);
  EXPECT_EQ(print(graph), kChecked);
  EXPECT_THAT(needed_nodes(graph, graph.outputs()), ElementsAre(true, true, true, true, true));
  EXPECT_THAT(interpret(graph, {reals({2}, {1, 2}), integers({}, {0})})[0].reals,
              ElementsAre(1, 2));
  EXPECT_THAT(what_of([&] {
                interpret(graph, {reals({2}, {1, 2}), integers({}, {3})});
              }),
              HasSubstr("user.py:3: check: not true of 3 elements: m is 0"));
}

TEST(Program, shows_the_sides_of_a_check_that_fails_and_reads_them_back) {
  const std::string text =
      "graph sides(%x: i32[2], %n: i64[], %y: f32[2]) -> (i32[2]) {\n"
      "  %0 = constant {value=2} : i32[]\n  %1 = constant {value=0.5} : f32[]\n"
      "  %2 = size(%n, %x, %0, %y, %1) {size=s0 of lt ge} : i64[]\n"
      "  guard none s0 because \"x is small\" @ \"user.py\":3\n  return %x\n}\n";
  const Graph graph = parse(text);
  verify(graph);
  EXPECT_EQ(print(graph), text);
  const auto error = [&](const Array& x, std::vector<double> y) {
    return what_of([&] { interpret(graph, {x, integers({}, {1}), reals({2}, std::move(y))}); });
  };
  Array small(DType::I32, {2}), large(DType::I32, {2});
  large.integers = {1, 2};
  EXPECT_THAT(error(large, {0, 0}), HasSubstr("not true: x is small: 2 < 2 is false at [1]"));
  EXPECT_THAT(error(small, {0.75, 0.25}), HasSubstr("small: 0.25 >= 0.5 is false at [1]"));
  EXPECT_THAT(error(small, {1, 1}), HasSubstr("not true: x is small\n")) << "no side is wrong";
}

TEST(Program, checks_guards_on_sizes_as_soon_as_they_are_known) {
  const Graph graph = parse(
      "graph g(%x: f32[s0], %n: i64[]) -> (f32[s0]) {\n  %0 = size(%n) {size=s1} : i64[]\n"
      "  %1 = constant {value=1} : f32[]\n  %2 = broadcast(%1) : f32[s1]\n"
      "  %3 = broadcast(%2) : f32[s0]\n  %4 = add(%x, %3) : f32[s0]\n"
      "  guard s0 == s1 because \"add\" @ \"user.py\":3\n  return %4 }");
  verify(graph);
  EXPECT_THAT(interpret(graph, {reals({2}, {1, 2}), integers({}, {2})})[0].reals,
              ElementsAre(2, 3));
  EXPECT_THAT(what_of([&] {
                interpret(graph, {reals({2}, {1, 2}), integers({}, {3})});
              }),
              AllOf(HasSubstr("user.py:3"), HasSubstr("add")));
}

TEST(Program, joins_parts_and_multiplies_into_a_wider_type) {
  const Graph graph = parse(
      "graph g(%a: i8[1, 2], %b: i8[2, 1]) -> (i32[1, 1], i8[1, 1], i8[1, 4]) {\n"
      "  %0 = matmul(%a, %b) : i32[1, 1]\n  %1 = matmul(%a, %b) : i8[1, 1]\n"
      "  %2 = concat(%a, %a) {axes=[1]} : i8[1, 4]\n  return %0, %1, %2 }");
  Array a(DType::I8, {1, 2}), b(DType::I8, {2, 1});
  a.integers = {100, 27}, b.integers = {100, 1};
  const auto out = interpret(graph, {a, b});
  EXPECT_THAT(out[0].integers, ElementsAre(10027));
  EXPECT_THAT(out[1].integers, ElementsAre(43));  // 10027 - 39 * 256
  EXPECT_THAT(out[2].integers, ElementsAre(100, 27, 100, 27));
}

TEST(Program, defines_a_size_once_and_before_its_uses) {
  EXPECT_THAT(what_of([] {
                verify(
                    parse("graph g(%n: i64[], %m: i64[]) -> (i64[]) {\n"
                          "  %0 = size(%n) {size=s0} : i64[]\n"
                          "  %1 = size(%m) {size=s0} : i64[]\n  return %1 }"));
              }),
              HasSubstr("a size is defined once"));
  EXPECT_THAT(what_of([] {
                verify(
                    parse("graph g(%n: i64[]) -> (i64[]) {\n"
                          "  %0 = extent {size=s0} : i64[]\n"
                          "  %1 = size(%n) {size=s0} : i64[]\n  return %0 }"));
              }),
              HasSubstr("a size stands before its uses"));
}

struct Mistake {
  const char* name;
  const char* line;  // in a graph of %x: f32[2, 3], %n: i64[], %m: i8[3, 3]
  const char* what;
};

class EachProgramMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(EachProgramMistake, says_what_why_and_a_fix) {
  const std::string text = "graph g(%x: f32[2, 3], %n: i64[], %m: i8[3, 3]) -> (i64[]) {\n  %0 = " +
                           std::string(GetParam().line) + "\n  return %n }";
  EXPECT_THAT(what_of([&] { parse(text); }),
              AllOf(HasSubstr(GetParam().what), HasSubstr("why: "), HasSubstr("fix: ")));
}

INSTANTIATE_TEST_SUITE_P(
    Program, EachProgramMistake,
    ::testing::Values(
        Mistake{"update_rank", "update(%x, %n, %n, %n) : f32[2, 3]", "update: left is f32"},
        Mistake{"update_offsets", "update(%x, %x, %n) : f32[2, 3]", "update: shape [2, 3], part"},
        Mistake{"update_steps", "update(%x, %x, %n, %n) {steps=[2, 1]} : f32[2, 3]",
                "update: axis 0 of shape [2, 3] cannot hold [2, 3]"},
        Mistake{"view_steps", "view(%x, %n, %n) {steps=[2]} : f32[1, 2]",
                "view: the steps 2 for shape [2, 3]"},
        Mistake{"view_step_0", "view(%x, %n, %n) {steps=[1, 0]} : f32[1, 2]",
                "view: the steps 1, 0 for shape [2, 3]"},
        Mistake{"update_operands", "update(%x) : f32[2, 3]", "update: has 1 operands"},
        Mistake{"concat_axis", "concat(%x) {axes=[2]} : f32[2, 3]", "concat: axis 2 of shape"},
        Mistake{"concat_types", "concat(%x, %m) {axes=[0]} : f32[5, 3]", "concat: left is f32"},
        Mistake{"concat_none", "concat {axes=[0]} : f32[5, 3]", "concat: has 0 operands"},
        Mistake{"size_of_tensor", "size(%x) {size=s0} : i64[]", "size: the number is f32[2, 3]"},
        Mistake{"size_sides", "size(%n, %n) {size=s0 of lt} : i64[]", "size: has 2 operands"},
        Mistake{"size_names", "size(%n, %n, %n) {size=s0 of add} : i64[]", "compares by \"add\""},
        Mistake{"size_is_symbol", "size(%n) {size=4} : i64[]", "size: defines 4"},
        Mistake{"branch_condition", "branch(%x) : f32[2, 3]", "branch: the condition is f32[2, 3]"},
        Mistake{"branch_bodies",
                "branch(%n, %n) graph t(%n: i64[]) -> (i64[]) { return %n } : i64[]",
                "branch: has 1 bodies"},
        Mistake{"branch_results",
                "branch(%n, %n, %x) graph t(%n: i64[], %x: f32[2, 3]) -> (i64[]) { return %n } "
                "graph o(%n: i64[], %x: f32[2, 3]) -> (f32[2, 3]) { return %x } : i64[]",
                "branch: the bodies give results of different types"},
        Mistake{"repeat_condition",
                "repeat(%n) graph c(%n: i64[]) -> (f32[]) { %0 = cast(%n) : f32[] return %0 } "
                "graph s(%n: i64[]) -> (i64[]) { return %n } : i64[]",
                "repeat: the first body gives f32[]"},
        Mistake{"repeat_step",
                "repeat(%n) graph c(%n: i64[]) -> (i64[]) { return %n } "
                "graph s(%n: i64[]) -> (f32[]) { %0 = cast(%n) : f32[] return %0 } : i64[]",
                "repeat: the step's results do not match"},
        Mistake{"result_of_none", "result(%x) {index=0} : f32[2, 3]", "result: index 0 of input"},
        Mistake{"matmul_result", "matmul(%m, %m) : f32[3, 3]",
                "matmul: the operands are i8 but the result is f32"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace pto::program_test
