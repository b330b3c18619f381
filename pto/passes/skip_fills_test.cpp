// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/skip_fills.hpp"

#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"

namespace pto::skip_fills_test {

const std::string kRow =
    "    %0 = constant {value=0} : i64[]\n"
    "    %1 = view(%x, %i, %0) : f32[1, 4]\n";
const std::string kWrite = "    %2 = update(%out, %1, %i, %0) : f32[3, 4]\n    return %2\n";

// A loop over %x that carries a tensor of ones; true: they are left out, which changes no bit.
bool skips(const std::string& body, const std::string& stop = "3", const std::string& step = "1",
           const std::string& start = "0") {
  const Graph before = parse(
      "graph g(%x: f32[3, 4]) -> (f32[3, 4]) {\n"
      "  %0 = constant {value=" +
      start +
      "} : i64[]\n"
      "  %1 = constant {value=" +
      stop +
      "} : i64[]\n"
      "  %2 = constant {value=" +
      step +
      "} : i64[]\n"
      "  %3 = constant {value=1} : f32[]\n"
      "  %4 = broadcast(%3) : f32[3, 4]\n"
      "  %5 = loop(%0, %1, %2, %4, %x) graph loop(%i: i64[], %out: f32[3, 4], %x: f32[3, 4]) -> "
      "(f32[3, 4]) {\n" +
      body +
      "  } : f32[3, 4]\n"
      "  %6 = result(%5) {index=0} : f32[3, 4]\n"
      "  return %6\n}\n");
  const Graph after = skip_fills(before);
  EXPECT_EQ(parse(print(after)), after);
  const std::vector<Array> inputs = random_inputs(before, 1);
  EXPECT_TRUE(same_bits(interpret(before, inputs)[0], interpret(after, inputs)[0])) << body;
  for (const Node& node : after.nodes())
    if (node.op == Opcode::empty) return true;
  return false;
}

TEST(SkipFills, OfWhichALoopWritesEachRow) { EXPECT_TRUE(skips(kRow + kWrite)); }

TEST(SkipFills, OfWhichALoopInALoopWritesEachRow) {
  const std::string inner =
      "    %0 = constant {value=0} : i64[]\n"
      "    %1 = constant {value=4} : i64[]\n"
      "    %2 = constant {value=1} : i64[]\n"
      "    %3 = constant {value=1} : f32[]\n"
      "    %4 = broadcast(%3) : f32[1, 4]\n"
      "    %5 = loop(%0, %1, %2, %4, %x) graph loop(%j: i64[], %row: f32[1, 4], %x: f32[3, 4]) -> "
      "(f32[1, 4]) {\n"
      "      %0 = constant {value=0} : i64[]\n"
      "      %1 = view(%x, %0, %j) : f32[1, 1]\n"
      "      %2 = update(%row, %1, %0, %j) : f32[1, 4]\n"
      "      return %2\n"
      "    } : f32[1, 4]\n"
      "    %6 = result(%5) {index=0} : f32[1, 4]\n"
      "    %7 = update(%out, %6, %i, %0) : f32[3, 4]\n"
      "    return %7\n";
  EXPECT_TRUE(skips(inner));
}

TEST(SkipFills, LeavesEmptyTensorsOfOthersApart) {
  const Graph graph = skip_fills(parse(
      "graph g(%x: f32[3, 4]) -> (f32[3, 4], f32[3, 4]) {\n"
      "  %0 = constant {value=0} : i64[]\n"
      "  %1 = constant {value=3} : i64[]\n"
      "  %2 = constant {value=1} : i64[]\n"
      "  %3 = constant {value=1} : f32[]\n"
      "  %4 = broadcast(%3) : f32[3, 4]\n"
      "  %5 = loop(%0, %1, %2, %4, %x) graph loop(%i: i64[], %out: f32[3, 4], %x: f32[3, 4]) -> "
      "(f32[3, 4]) {\n" +
      kRow + kWrite +
      "  } : f32[3, 4]\n"
      "  %6 = result(%5) {index=0} : f32[3, 4]\n"
      "  %7 = empty {index=6} : f32[3, 4]\n"
      "  %8 = update(%7, %x, %0, %0) : f32[3, 4]\n"
      "  return %6, %8\n}\n"));
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.op == Opcode::empty;
  EXPECT_EQ(count, 2);
}

TEST(SkipFills, NotWhereRowsStay) {
  EXPECT_FALSE(skips(kRow + kWrite, "2"));
  EXPECT_FALSE(skips(kRow + kWrite, "3", "2"));
  EXPECT_FALSE(skips(kRow + kWrite, "3", "1", "1"));
}

TEST(SkipFills, NotWhereADiagonalIsWritten) {
  const Graph graph = skip_fills(parse(
      "graph g(%x: f32[s0]) -> (f32[s0, s0]) {\n"
      "  %0 = constant {value=0} : i64[]\n"
      "  %1 = extent {size=s0} : i64[]\n"
      "  %2 = constant {value=1} : i64[]\n"
      "  %3 = constant {value=1} : f32[]\n"
      "  %4 = broadcast(%3) : f32[s0, s0]\n"
      "  %5 = loop(%0, %1, %2, %4, %x) graph loop(%i: i64[], %out: f32[s0, s0], %x: f32[s0]) -> "
      "(f32[s0, s0]) {\n"
      "    %0 = view(%x, %i) : f32[1]\n"
      "    %1 = reshape(%0) : f32[1, 1]\n"
      "    %2 = update(%out, %1, %i, %i) : f32[s0, s0]\n"
      "    return %2\n"
      "  } : f32[s0, s0]\n"
      "  %6 = result(%5) {index=0} : f32[s0, s0]\n"
      "  return %6\n}\n"));
  for (const Node& node : graph.nodes()) EXPECT_NE(node.op, Opcode::empty);
}

TEST(SkipFills, NotWhereAPartOfARowStays) {
  EXPECT_FALSE(
      skips("    %0 = constant {value=0} : i64[]\n"
            "    %1 = view(%x, %i, %0) : f32[1, 3]\n" +
            kWrite));
}

TEST(SkipFills, NotWhereTheBodyReadsThem) {
  EXPECT_FALSE(skips(kRow + "    %2 = view(%out, %i, %0) : f32[1, 4]\n"
                            "    %3 = add(%1, %2) : f32[1, 4]\n"
                            "    %4 = update(%out, %3, %i, %0) : f32[3, 4]\n    return %4\n"));
}

}  // namespace pto::skip_fills_test
