// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/join_positions.hpp"

#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/random_graph.hpp"

namespace pto::join_positions_test {

// Lists what a graph of these lines computes behind the pass, which changes no bit.
std::string moved(const std::string& lines, const std::string& returned) {
  const Graph before =
      parse("graph g(%x: f32[2, 3, 4], %i: i64[2, 1], %y: f32[2, 4], %n: i64[2]) -> (" + returned +
            ") {\n" + lines + "\n}");
  const Graph after = join_positions(before);
  std::vector<Array> inputs = random_inputs(before, 1);
  inputs[1].integers = {4, 4};
  EXPECT_TRUE(same_bits(interpret(before, inputs)[0], interpret(after, inputs)[0])) << lines;
  std::string found;
  for (const Node& node : after.nodes())
    if (!node.is_parameter() && node.op != Opcode::constant)
      found += std::string(info(node.op).name) + std::to_string(node.attributes.axes.size()) + " ";
  return found;
}

const std::string kFlat = "  %0 = reshape(%x) : f32[6, 4]\n";
const std::string kScatter = "  %1 = scatter(%0, %i, %y) {axes=[0]} : f32[6, 4]\n";

TEST(JoinPositions, lets_rows_go_into_the_tensor_itself) {
  EXPECT_EQ(
      moved(kFlat + kScatter + "  %2 = reshape(%1) : f32[2, 3, 4]\n  return %2", "f32[2, 3, 4]"),
      "scatter2 ");
}

TEST(JoinPositions, lets_rows_come_from_the_tensor_itself) {
  EXPECT_EQ(moved(kFlat + "  %1 = gather(%0, %i) {axes=[0]} : f32[2, 4]\n  return %1, %0",
                  "f32[2, 4], f32[6, 4]"),
            "reshape0 gather2 ");
  EXPECT_EQ(moved("  %0 = reshape(%x) : f32[24]\n  %1 = reshape(%i) : i64[2]\n"
                  "  %2 = gather(%0, %1) {axes=[0]} : f32[2]\n  return %2",
                  "f32[2]"),
            "reshape0 gather3 ");
}

TEST(JoinPositions, leaves_what_others_read_and_other_shapes) {
  EXPECT_EQ(moved(kFlat + kScatter + "  %2 = reshape(%1) : f32[2, 3, 4]\n  return %2, %1",
                  "f32[2, 3, 4], f32[6, 4]"),
            "reshape0 scatter1 reshape0 ");
  EXPECT_EQ(
      moved(kFlat + kScatter + "  %2 = reshape(%1) : f32[3, 2, 4]\n  return %2", "f32[3, 2, 4]"),
      "reshape0 scatter1 reshape0 ");
  EXPECT_EQ(moved("  %0 = reshape(%x) : f32[2, 12]\n  %1 = reshape(%y) : f32[2, 4]\n"
                  "  %2 = concat(%1, %1, %1) {axes=[1]} : f32[2, 12]\n"
                  "  %3 = extent {size=0} : i64[]\n"
                  "  %4 = sub(%i, %i) : i64[2, 1]\n"
                  "  %5 = scatter(%0, %4, %2) {axes=[0]} : f32[2, 12]\n"
                  "  %6 = reshape(%5) : f32[2, 3, 4]\n  return %6",
                  "f32[2, 3, 4]"),
            "reshape0 reshape0 concat1 sub0 scatter1 reshape0 ");
}

}  // namespace pto::join_positions_test
