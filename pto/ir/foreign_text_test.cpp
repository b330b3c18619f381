// SPDX-License-Identifier: Apache-2.0
// Foreign text: whatever graph somebody sends, each stage succeeds or throws pto::Error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/ir/verify.hpp"
#include "tests/deep.hpp"
#include "tests/mutate.hpp"

namespace pto::foreign_text_test {

using ::testing::HasSubstr;

constexpr InterpretLimits kLimits{1 << 15, 1 << 14};

constexpr const char* kLoop =
    R"(graph g(%x: f32[s0, 3], %o: i64[], %n: scalar i64) -> (f32[s0, 3]) {
  %0 = constant {value=0} : i64[]
  %1 = constant {value=1} : i64[]
  %2 = loop(%0, %n, %1, %x) graph body(%i: i64[], %c: f32[s0, 3]) -> (f32[s0, 3]) {
    %0 = add(%c, %c) : f32[s0, 3]
    return %0
  } : f32[s0, 3]
  %3 = view(%2, %o, %0) : f32[s0, 3]
  return %3
}
)";
constexpr const char* kFused = R"(graph g(%x: f32[s0, s1], %y: i32[s2]) -> (f32[s1, s0], i32[1]) {
  %0 = fused(%x) graph b(%a: f32[s0, s1]) -> (f32[s0, s1]) {
    %0 = exp(%a) : f32[s0, s1]
    return %0
  } : f32[s0, s1]
  %1 = transpose(%0) {axes=[1, 0]} : f32[s1, s0]
  %2 = reshape(%y) : i32[s0*2]
  %3 = prod(%2) {axes=[0]} : i32[1]
  guard s2 == s0*2 because "reshape"
  return %1, %3
}
)";
constexpr const char* kMatmul = R"(graph g(%a: f32[s0, s1], %b: f32[s2, 4]) -> (f32[s0, 4]) {
  %0 = matmul(%a, %b) : f32[s0, 4]
  guard s1 == s2 because "matmul"
  return %0
}
)";

constexpr const char* kParts = R"(graph g(%x: f32[s0], %n: i64[], %o: f32[s0]) -> (f32[s0]) {
  %0 = constant {value=0} : i64[]
  %1 = extent {size=s0} : i64[]
  %2 = size(%n) {size=s1} : i64[]
  %3 = view(%x, %0) : f32[s1]
  %4 = concat(%3, %3) {axes=[0]} : f32[s1+s1]
  %5 = update(%o, %3, %0) : f32[s0]
  %6 = loop(%0, %1, %2, %5, %x) graph b(%i: i64[], %c: f32[s0], %k: f32[s0]) -> (f32[s0]) {
    %0 = add(%c, %k) : f32[s0]
    return %0
  } : f32[s0]
  return %6
}
)";

constexpr const char* kAxes =
    R"(graph g(%x: f32[s0, s1], %n: i64[s0]) -> (f32[s0, s1], i64[s0, 1]) {
  %0 = iota {axes=[0]} : i64[s0, 1]
  %1 = reshape(%n) : i64[s0, 1]
  %2 = gather(%x, %1) {axes=[0]} : f32[s0, s1]
  %3 = scatter_add(%x, %0, %2) {axes=[0]} : f32[s0, s1]
  %4 = scatter(%3, %1, %2) {axes=[0]} : f32[s0, s1]
  %5 = sort_descending(%4) : f32[s0, s1]
  %6 = result(%5) {index=1} : i64[s0, s1]
  %7 = gather(%5, %6) {axes=[1]} : f32[s0, s1]
  %8 = cumprod(%7) {axes=[1]} : f32[s0, s1]
  return %8, %0
}
)";

std::vector<std::string> seeds() {
  std::vector<std::string> texts{kLoop, kFused, kMatmul, kParts, kAxes};
  for (uint64_t seed = 0; seed < 40; ++seed)
    texts.push_back(print(random_graph(seed, {.operations = 8, .structure = seed % 2 == 0})));
  return texts;
}

// Makes small arrays for the inputs, as far as their types allow small ones.
std::vector<Array> small_inputs(const Graph& graph, Mutator& mutator) {
  const std::vector<int64_t> symbols{static_cast<int64_t>(mutator.below(4)), 3, 2, 6, 1, 0, 5, 2};
  std::vector<Array> inputs;
  for (const Value v : graph.inputs()) {
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (const Dim& dim : graph[v].type.shape) {
      const int64_t size = evaluate(dim, symbols);
      shape.push_back(size >= 0 && size <= 64 ? size : 1);
      count *= shape.back();
      if (count > 1 << 12) shape.back() = 1, count = 1;
    }
    Array& array = inputs.emplace_back(graph[v].type.dtype, shape);
    for (size_t i = 0; i < array.size(); ++i) {
      const auto k = static_cast<int64_t>(mutator.below(9)) - 2;
      array.set(i, {static_cast<double>(k) / 2, k});
    }
    array.normalize();
  }
  return inputs;
}

// Returns "" where a text is taken or refused as it should be, else the failure.
std::string taken(const std::string& text, Mutator& mutator) {
  try {
    const Graph graph = parse(text);
    const std::string printed = print(graph);
    if (!(parse(printed) == graph)) return "does not print as itself: " + printed;
    const std::vector<Array> inputs = small_inputs(graph, mutator);
    for (const Array& out : interpret(graph, inputs, kLimits)) pto::text(out);
    interpret_with_bounds(graph, inputs, kLimits);
    verify(graph);
  } catch (const Error&) {
  } catch (const std::exception& error) {
    return std::string("threw ") + error.what();
  }
  return "";
}

TEST(ForeignText, each_mutated_graph_is_taken_or_refused_by_an_error) {
  Mutator mutator(1, seeds());
  const int rounds = rounds_of(3000, 300000);
  for (int round = 0; round < rounds; ++round) {
    const std::string text = mutator.next();
    ASSERT_EQ(taken(text, mutator), "") << text;
  }
}

std::string what_of(const std::string& text, std::vector<Array> inputs) {
  try {
    interpret(parse(text), inputs, kLimits);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ForeignText, what_verify_refuses_is_not_interpreted) {
  const std::string text =
      "graph g(%x: f32[4], %o: i64[s0]) -> (f32[2]) {\n"
      "  %0 = reshape(%o) : i64[]\n  %1 = view(%x, %0) : f32[2]\n  return %1\n}";
  EXPECT_THAT(what_of(text, {Array(DType::F32, {4}), Array(DType::I64, {0})}),
              HasSubstr("a reshape keeps the number of elements"));
}

TEST(ForeignText, guards_of_bodies_hold_too) {
  const std::string text =
      "graph g(%x: f32[s0], %y: f32[s1]) -> (f32[s0]) {\n"
      "  %0 = fused(%x, %y) graph b(%a: f32[s0], %b: f32[s1]) -> (f32[s0]) {\n"
      "    %0 = broadcast(%b) : f32[s0]\n    guard s0 == s1 because \"add\"\n    return %0\n"
      "  } : f32[s0]\n  return %0\n}";
  EXPECT_THAT(what_of(text, {Array(DType::F32, {4}), Array(DType::F32, {2})}),
              HasSubstr("add: s1 has size 2 but s0 is 4"));
}

TEST(ForeignText, a_loop_carries_one_shape) {
  const std::string text =
      "graph g(%x: f32[s0], %y: f32[s1], %n: i64[]) -> (f32[s1]) {\n"
      "  %0 = loop(%n, %n, %n, %x, %y) graph b(%i: i64[], %a: f32[s0], %b: f32[s1])"
      " -> (f32[s1], f32[s0]) { return %b, %a } : f32[s1]\n  return %0\n}";
  EXPECT_THAT(
      what_of(text, {Array(DType::F32, {4}), Array(DType::F32, {2}), Array(DType::I64, {})}),
      HasSubstr("a loop carries values of the same shape"));
}

TEST(ForeignText, symbols_have_the_size_of_an_input) {
  EXPECT_THAT(what_of("graph g(%x: f32[s1]) -> (f32[s0, s1]) {\n"
                      "  %0 = broadcast(%x) : f32[s0, s1]\n  return %0\n}",
                      {Array(DType::F32, {4})}),
              HasSubstr("size s0 has no value"));
  EXPECT_THAT(what_of("graph g(%x: f32[s1]) -> (i64[]) {\n"
                      "  %0 = extent {size=s0} : i64[]\n  return %0\n}",
                      {Array(DType::F32, {4})}),
              HasSubstr("size s0 has no value"));
  EXPECT_THAT(what_of("graph g(%x: f32[s0*2, s1]) -> (f32[s0*2, s1]) { return %x }",
                      {Array(DType::F32, {4, 3})}),
              HasSubstr("size s0 has no value"));
}

TEST(ForeignText, a_size_from_data_serves_its_own_graph) {
  const auto extent_behind = [](const std::string& body) {
    return what_of(
        "graph g(%n: i64[], %x: f32[s2]) -> (i64[]) {\n  %0 = branch(%n, %n)\n" + body +
            "    graph b(%a: i64[]) -> (i64[]) { return %a } : i64[]\n"
            "  %1 = extent {size=s1} : i64[]\n  %2 = add(%0, %1) : i64[]\n  return %2\n}",
        {Array(DType::I64, {}), Array(DType::F32, {4})});
  };
  EXPECT_THAT(extent_behind("    graph a(%a: i64[]) -> (i64[]) {\n"
                            "      %0 = size(%a) {size=s1} : i64[]\n      return %0 }\n"),
              HasSubstr("a size stands before its uses"));
  EXPECT_THAT(extent_behind("    graph a(%a: i64[]) -> (i64[]) { return %a }\n"),
              HasSubstr("size s1 has no value"));
}

TEST(ForeignText, an_operation_has_no_attributes_of_others) {
  const auto reshaped = [](const std::string& attribute) {
    return what_of("graph g(%x: f32[4]) -> (f32[2, 2]) {\n  %0 = reshape(%x) " + attribute +
                       " : f32[2, 2]\n  return %0\n}",
                   {Array(DType::F32, {4})});
  };
  EXPECT_EQ(reshaped(""), "no error");
  EXPECT_THAT(reshaped("{axes=[0]}"), HasSubstr("line 2, column 21: reshape has axes"));
  EXPECT_THAT(reshaped("{index=1}"), HasSubstr("reshape has an index"));
  EXPECT_THAT(reshaped("{value=1}"), HasSubstr("reshape has a value"));
  EXPECT_THAT(reshaped("graph b(%a: f32[]) -> (f32[]) { return %a }"),
              HasSubstr("reshape has a body"));
}

TEST(ForeignText, sizes_and_work_are_limited) {
  const auto broadcast = [](const std::string& shape) {
    return what_of("graph g(%x: f32[]) -> (f32" + shape + ") { %0 = broadcast(%x) : f32" + shape +
                       " return %0 }",
                   {Array(DType::F32, {})});
  };
  EXPECT_THAT(broadcast("[1000000000000]"), HasSubstr("more than 16384 elements at one time"));
  EXPECT_THAT(broadcast("[4294967296, 4294967296]"), HasSubstr("signed 64-bit numbers"));
  EXPECT_THAT(broadcast("[0, 4294967296, 4294967296]"), HasSubstr("signed 64-bit numbers"));
  EXPECT_EQ(broadcast("[1000000000000, 0]"), "no error");
  EXPECT_THAT(broadcast("[-3]"), HasSubstr("sizes are not negative"));
  const std::string endless =
      "graph g(%n: i64[], %one: i64[]) -> (i64[]) {\n"
      "  %0 = constant {value=0} : i64[]\n"
      "  %1 = loop(%0, %n, %one, %n) graph b(%i: i64[], %c: i64[]) -> (i64[]) { return %c } "
      ": i64[]\n  return %1\n}";
  Array most(DType::I64, {}), one(DType::I64, {});
  most.integers[0] = INT64_MAX, one.integers[0] = 1;
  EXPECT_THAT(what_of(endless, {most, one}), HasSubstr("more than 32768 operations"));
  one.integers[0] = INT64_MAX;
  EXPECT_EQ(what_of(endless, {most, one}), "no error") << "the index would leave 64 bits";
}

}  // namespace pto::foreign_text_test
