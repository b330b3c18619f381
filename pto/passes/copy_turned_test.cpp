// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/copy_turned.hpp"

#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/random_graph.hpp"

namespace pto::copy_turned_test {

// Lists what a graph of these lines computes behind the pass, which changes no bit.
std::string copied(const std::string& lines, const std::string& returned) {
  const Graph before = parse("graph g(%x: f32[3, 4], %y: f32[4, 3], %r: f32[3, 1]) -> (" +
                             returned + ") {\n" + lines + "\n}");
  const Graph after = copy_turned(before);
  const std::vector<Array> inputs = random_inputs(before, 1);
  EXPECT_TRUE(same_bits(interpret(before, inputs)[0], interpret(after, inputs)[0])) << lines;
  std::string found;
  for (const Node& node : after.nodes())
    if (!node.is_parameter()) found += std::string(info(node.op).name) + " ";
  return found;
}

const std::string kTurned = "  %0 = transpose(%x) {axes=[1, 0]} : f32[4, 3]\n";

TEST(CopyTurned, copies_what_a_kernel_reads_once) {
  EXPECT_EQ(copied(kTurned + "  %1 = add(%0, %y) : f32[4, 3]\n  return %1", "f32[4, 3]"),
            "transpose concat add ");
  EXPECT_EQ(copied(kTurned + "  %1 = add(%0, %y) : f32[4, 3]\n  %2 = mul(%0, %1) : f32[4, 3]\n"
                             "  return %2",
                   "f32[4, 3]"),
            "transpose concat add mul ");
  EXPECT_EQ(copied(kTurned + "  %1 = broadcast(%0) : f32[2, 4, 3]\n"
                             "  %2 = exp(%1) : f32[2, 4, 3]\n  return %2",
                   "f32[2, 4, 3]"),
            "transpose concat broadcast exp ");
}

TEST(CopyTurned, copies_what_a_reshape_regroups) {
  EXPECT_EQ(copied(kTurned + "  %1 = reshape(%0) : f32[12]\n  return %1", "f32[12]"),
            "transpose concat reshape ");
  EXPECT_EQ(copied("  %0 = broadcast(%x) : f32[2, 3, 4]\n"
                   "  %1 = reshape(%0) : f32[6, 4]\n  return %1",
                   "f32[6, 4]"),
            "broadcast concat reshape ");
  EXPECT_EQ(copied("  %0 = broadcast(%r) : f32[3, 4]\n"
                   "  %1 = reshape(%0) : f32[12]\n  return %1",
                   "f32[12]"),
            "broadcast reshape ");
  EXPECT_EQ(copied("  %0 = reshape(%x) : f32[12]\n  return %0", "f32[12]"), "reshape ");
}

TEST(CopyTurned, leaves_what_products_and_callers_take_and_what_keeps_its_order) {
  EXPECT_EQ(copied(kTurned + "  %1 = matmul(%0, %x) : f32[4, 4]\n  return %1", "f32[4, 4]"),
            "transpose matmul ");
  EXPECT_EQ(copied(kTurned + "  return %0", "f32[4, 3]"), "transpose ");
  EXPECT_EQ(copied(kTurned + "  %1 = broadcast(%0) : f32[2, 4, 3]\n  return %1", "f32[2, 4, 3]"),
            "transpose broadcast ");
  EXPECT_EQ(copied("  %0 = transpose(%r) {axes=[1, 0]} : f32[1, 3]\n"
                   "  %1 = exp(%0) : f32[1, 3]\n  return %1",
                   "f32[1, 3]"),
            "transpose exp ");
}

}  // namespace pto::copy_turned_test
