// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/interchange_loops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/ir/verify.hpp"

namespace pto::interchange_loops_test {

using ::testing::HasSubstr;

// The parts of a program that a test changes.
struct Parts {
  std::string heads = "s2";                              // iterations of the outer loop
  std::string stop = "%1";                               // of the outer loop
  std::string trips = "%count";                          // of the inner loop
  std::string part = "%x, %j, %0, %h) : f32[1, s1, 1]";  // of x
  std::string x = "f32[s0, s1, HEADS]";
  std::string front = "";  // in front of the inner loop
};

std::string replaced(std::string text, const std::string& name, const std::string& by) {
  for (size_t at; (at = text.find(name)) != text.npos;) text.replace(at, name.size(), by);
  return text;
}

// For each head: a sum over pages, from a start and with a scale that are computed for the head.
Graph program(const Parts& parts = {}) {
  std::string text =
      R"(graph g(%x: XTYPE, %w: WTYPE, %pages: i64[], %out: WTYPE) -> (WTYPE) {
  %0 = constant {value=0} : i64[]
  %1 = extent {size=HEADS} : i64[]
  %2 = constant {value=1} : i64[]
  %3 = extent {size=s0} : i64[]
  %4 = maximum(%pages, %0) : i64[]
  %5 = minimum(%4, %3) : i64[]
  %6 = loop(%0, STOP, %2, %out, %x, %w, %5) graph headsHEAD_INPUTS {
    %0 = constant {value=0} : i64[]
    %1 = constant {value=1} : i64[]
    %2 = view(%w, %h, %0) : f32[1, s1]
    %3 = reshape(%2) : f32[s1]
    %4 = exp(%3) : f32[s1]
    FRONT
    %5 = loop(%0, TRIPS, %1, %3, %x, %h, %4) graph pagesPAGE_INPUTS {
      %0 = constant {value=0} : i64[]
      %1 = view(PART
      %2 = reshape(%1) : f32[s1]
      %3 = mul(%sum, %scale) : f32[s1]
      %4 = add(%3, %2) : f32[s1] !takes_product=[0]
      return %4
    } : f32[s1]
    %6 = result(%5) {index=0} : f32[s1]
    %7 = add(%6, %4) : f32[s1]
    %8 = reshape(%7) : f32[1, s1]
    %9 = update(%out, %8, %h, %0) : WTYPE
    return %9
  } : WTYPE
  %7 = result(%6) {index=0} : WTYPE
  return %7
}
)";
  text = replaced(text, "HEAD_INPUTS",
                  "(%h: i64[], %out: WTYPE, %x: XTYPE, %w: WTYPE, %count: i64[]) -> (WTYPE)");
  text = replaced(text, "PAGE_INPUTS",
                  "(%j: i64[], %sum: f32[s1], %x: XTYPE, %h: i64[], %scale: f32[s1]) -> (f32[s1])");
  text = replaced(replaced(text, "WTYPE", "f32[HEADS, s1]"), "XTYPE", parts.x);
  text = replaced(replaced(text, "FRONT\n", parts.front), "TRIPS", parts.trips);
  text = replaced(replaced(text, "PART", parts.part), "STOP", parts.stop);
  return parse(replaced(text, "HEADS", parts.heads));
}

// The hint of this name that a loop of the graph has, or "".
std::string hint_of(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes())
    if (const Hint* hint = find_hint(node, name)) return hint->text;
  return "";
}

// A graph whose loop over groups has another step.
Graph with_step(const Graph& graph, int64_t step) {
  const std::string text = print(graph), mark = " = maximum(%1, %2) : i64[]";
  const size_t at = text.find(mark);
  EXPECT_NE(at, text.npos) << text;
  return parse(text.substr(0, at) + " = constant {value=" + std::to_string(step) + "} : i64[]" +
               text.substr(at + mark.size()));
}

void expect_same(const Graph& before, const Graph& after, uint64_t seed) {
  const auto inputs = random_inputs(before, seed);
  const auto wanted = interpret(before, inputs), found = interpret(after, inputs);
  ASSERT_TRUE(same_bits(wanted[0], found[0])) << "seed " << seed << "\n" << print(after);
}

TEST(InterchangeLoops, changes_no_bit_for_any_number_of_heads_and_pages_and_any_step) {
  for (const std::string heads : {"s2", "1", "2", "7"}) {
    Parts parts;
    parts.heads = heads;
    const Graph before = program(parts), after = interchange_loops(before);
    ASSERT_NO_THROW(verify(after)) << print(after);
    EXPECT_EQ(parse(print(after)), after);
    EXPECT_NE(hint_of(after, "any_step"), "") << print(after);
    EXPECT_EQ(interchange_loops(after), after);
    for (uint64_t seed = 0; seed < random_tests(20); ++seed) {
      expect_same(before, after, seed);
      for (const int64_t step : {2, 3, 5}) expect_same(before, with_step(after, step), seed);
    }
  }
}

TEST(InterchangeLoops, leaves_loops_that_read_whole_rows) {
  Parts parts;
  parts.x = "f32[HEADS, s0, s1]";
  parts.part = "%x, %h, %j, %0) : f32[1, 1, s1]";
  const Graph graph = program(parts);
  EXPECT_EQ(print(interchange_loops(graph)), print(graph));
}

TEST(InterchangeLoops, leaves_loops_that_read_the_same_in_each_iteration) {
  Parts parts;
  parts.part = "%x, %0, %0, %h) : f32[1, s1, 1]";
  const Graph graph = program(parts);
  EXPECT_EQ(print(interchange_loops(graph)), print(graph));
}

TEST(InterchangeLoops, says_why_loops_keep_their_order) {
  const auto why = [](const Parts& parts) {
    const Graph before = program(parts), after = interchange_loops(before);
    EXPECT_EQ(before, after);
    return hint_of(after, "keeps_order");
  };
  Parts by_index, from_data, sized, beside;
  by_index.front = "%10 = minimum(%count, %h) : i64[]\n    ", by_index.trips = "%10";
  EXPECT_THAT(why(by_index), HasSubstr("the number of iterations of the inner loop depends on"));
  from_data.stop = "%5";
  EXPECT_THAT(why(from_data), HasSubstr("its number of iterations comes from data"));
  sized.front = "%10 = size(%count) {size=s3} : i64[]\n    ";
  EXPECT_THAT(why(sized), HasSubstr("its body takes a size from data"));
  beside.front =
      "%10 = loop(%0, %1, %1, %3) graph empty(%k: i64[], %y: f32[s1]) -> (f32[s1]) {\n"
      "      return %y\n    } : f32[s1]\n    ";
  EXPECT_THAT(why(beside), HasSubstr("other loops or branches beside it"));
}

}  // namespace pto::interchange_loops_test
