// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/move_transpose_late.hpp"

#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/passes/remove_dead_nodes.hpp"

namespace pto::move_transpose_late_test {

// Turns two pictures %x and %y, [s0, s1, s2, 8] with their channels last, to [s0, 8, s1, s2].
const std::string kTurned =
    "  %0 = transpose(%x) {axes=[0, 3, 1, 2]} : f32[s0, 8, s1, s2]\n"
    "  %1 = transpose(%y) {axes=[0, 3, 1, 2]} : f32[s0, 8, s1, s2]\n";

// Lists what a graph of these lines computes behind the pass, which changes no bit.
std::string late(const std::string& lines, const std::string& returned) {
  const Graph before =
      parse("graph g(%x: f32[s0, s1, s2, 8], %y: f32[s0, s1, s2, 8], %i: i64[]) -> (" + returned +
            ") {\n" + kTurned + lines + "\n}");
  PassNotes notes;
  const Graph after = remove_dead_nodes(move_transpose_late(before, &notes));
  EXPECT_TRUE(notes.is_finished);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<Array> inputs = random_inputs(before, seed);
    EXPECT_TRUE(same_bits(interpret(before, inputs)[0], interpret(after, inputs)[0])) << lines;
  }
  std::string found;
  for (const Node& node : after.nodes())
    if (!node.is_parameter() && node.op != Opcode::constant)
      found += std::string(info(node.op).name) + " ";
  return found;
}

TEST(MoveTransposeLate, computes_on_tensors_as_they_lie) {
  const std::string four = "f32[s0, 8, s1, s2]";
  EXPECT_EQ(late("  %2 = relu(%0) : f32[s0, 8, s1, s2]\n"
                 "  %3 = add(%2, %1) : f32[s0, 8, s1, s2]\n  return %3",
                 four),
            "relu add transpose ");
  EXPECT_EQ(late("  %2 = concat(%0, %1) {axes=[1]} : f32[s0, 16, s1, s2]\n  return %2",
                 "f32[s0, 16, s1, s2]"),
            "concat transpose ");
  EXPECT_EQ(late("  %2 = cumsum(%0) {axes=[1]} : f32[s0, 8, s1, s2]\n  return %2", four),
            "cumsum transpose ");
  EXPECT_EQ(late("  %2 = relu(%0) : f32[s0, 8, s1, s2]\n"
                 "  %3 = transpose(%2) {axes=[0, 2, 3, 1]} : f32[s0, s1, s2, 8]\n  return %3",
                 "f32[s0, s1, s2, 8]"),
            "relu ");
}

TEST(MoveTransposeLate, sums_terms_in_their_order) {
  const std::string of = " {axes=[2, 3]} : f32[s0, 8, 1, 1]\n  return %2",
                    small = "f32[s0, 8, 1, 1]";
  EXPECT_EQ(late("  %2 = sum(%0)" + of, small), "sum transpose ");
  EXPECT_EQ(
      late("  %2 = amax(%0) {axes=[1]} : f32[s0, 1, s1, s2]\n  return %2", "f32[s0, 1, s1, s2]"),
      "amax transpose ");
  EXPECT_EQ(
      late("  %2 = sum(%0) {axes=[1, 2]} : f32[s0, 1, 1, s2]\n  return %2", "f32[s0, 1, 1, s2]"),
      "transpose sum ");  // the channels would come last
  EXPECT_EQ(
      late("  %2 = amax(%0) {axes=[1, 2]} : f32[s0, 1, 1, s2]\n  return %2", "f32[s0, 1, 1, s2]"),
      "transpose amax ");  // so would zeros of the other sign
}

TEST(MoveTransposeLate, repeats_what_is_repeated_in_the_other_order) {
  const std::string gate =
      "  %2 = sum(%0) {axes=[2, 3]} : f32[s0, 8, 1, 1]\n"
      "  %3 = broadcast(%2) : f32[s0, 8, s1, s2]\n  %4 = mul(%0, %3) : f32[s0, 8, s1, s2]\n"
      "  return %4";
  EXPECT_EQ(late(gate, "f32[s0, 8, s1, s2]"), "sum broadcast mul transpose ");
  EXPECT_EQ(late("  %2 = constant {value=2} : f32[]\n  %3 = broadcast(%2) : f32[s0, 8, s1, s2]\n"
                 "  %4 = mul(%3, %1) : f32[s0, 8, s1, s2]\n  return %4",
                 "f32[s0, 8, s1, s2]"),
            "broadcast mul transpose ");
}

TEST(MoveTransposeLate, reads_and_writes_parts_in_the_other_order) {
  EXPECT_EQ(late("  %2 = constant {value=0} : i64[]\n"
                 "  %3 = view(%0, %2, %2, %2, %2) : f32[s0, 4, s1, s2]\n  return %3",
                 "f32[s0, 4, s1, s2]"),
            "view transpose ");
  EXPECT_EQ(late("  %2 = constant {value=0} : i64[]\n"
                 "  %3 = update(%0, %1, %2, %2, %2, %2) : f32[s0, 8, s1, s2]\n  return %3",
                 "f32[s0, 8, s1, s2]"),
            "update transpose ");
}

TEST(MoveTransposeLate, reshapes_axes_that_stay_together) {
  EXPECT_EQ(late("  %2 = reshape(%0) : f32[s0, 2, 4, s1*s2]\n  return %2", "f32[s0, 2, 4, s1*s2]"),
            "reshape transpose ");
  EXPECT_EQ(late("  %2 = reshape(%0) : f32[s0, 8*s1, s2]\n  return %2", "f32[s0, 8*s1, s2]"),
            "transpose reshape ");  // channels and rows lie apart
  EXPECT_EQ(late("  %2 = sum(%0) {axes=[2, 3]} : f32[s0, 8, 1, 1]\n"
                 "  %3 = reshape(%2) : f32[s0, 8]\n  return %3",
                 "f32[s0, 8]"),
            "sum reshape ");
}

TEST(MoveTransposeLate, leaves_tensors_that_lie_otherwise) {
  EXPECT_EQ(late("  %2 = transpose(%y) {axes=[0, 3, 2, 1]} : f32[s0, 8, s2, s1]\n"
                 "  %3 = exp(%x) : f32[s0, s1, s2, 8]\n  %4 = reshape(%3) : f32[s0, 8, s1, s2]\n"
                 "  %5 = add(%4, %0) : f32[s0, 8, s1, s2]\n  return %5",
                 "f32[s0, 8, s1, s2]"),
            "transpose exp reshape add ");
}

}  // namespace pto::move_transpose_late_test
