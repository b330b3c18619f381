// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/gather_in_kernels.hpp"

#include <gtest/gtest.h>

#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/verify.hpp"
#include "pto/passes/fuse_regions.hpp"

namespace pto::gather_in_kernels_test {
namespace {

// The nodes of the graph that stand between kernels, behind the pass.
std::string steps_of(const std::string& text) {
  const Graph after = fuse_regions(gather_in_kernels(parse("graph g(" + text + "\n}\n")));
  verify(after);
  std::string steps;
  for (const Node& node : after.nodes())
    if (!node.is_parameter() && node.op != Opcode::result)
      steps += (steps.empty() ? "" : " ") + std::string(info(node.op).name);
  return steps;
}

TEST(GatherInKernels, kernels_read_rows_where_they_lie) {
  EXPECT_EQ(steps_of("%x: f32[s0, 64], %i: i64[s1, 1]) -> (f32[s1, 64]) {\n"
                     "  %0 = gather(%x, %i) {axes=[0]} : f32[s1, 64]\n"
                     "  %1 = exp(%0) : f32[s1, 64]\n  return %1"),
            "fused");
}

TEST(GatherInKernels, rows_in_several_axes_are_those_of_one_index) {
  EXPECT_EQ(steps_of("%x: f32[s0, 64], %i: i64[s1, s2], %p: f32[s2, 64]) -> (f32[s1, s2, 64]) {\n"
                     "  %0 = reshape(%i) : i64[s1*s2, 1]\n"
                     "  %1 = gather(%x, %0) {axes=[0]} : f32[s1*s2, 64]\n"
                     "  %2 = reshape(%1) : f32[s1, s2, 64]\n"
                     "  %3 = broadcast(%p) : f32[s1, s2, 64]\n"
                     "  %4 = add(%2, %3) : f32[s1, s2, 64]\n  return %4"),
            "fused");
}

TEST(GatherInKernels, positions_are_computed_where_that_is_quick) {
  EXPECT_EQ(steps_of("%x: f32[s0, 64], %i: i64[s1, 1], %j: i64[s1, 1]) -> (f32[s1, 64]) {\n"
                     "  %0 = add(%i, %j) : i64[s1, 1]\n"
                     "  %1 = gather(%x, %0) {axes=[0]} : f32[s1, 64]\n"
                     "  %2 = exp(%1) : f32[s1, 64]\n  return %2"),
            "fused");
  EXPECT_EQ(steps_of("%x: f32[s0, 64], %i: i64[s1, 5]) -> (f32[s1, 64]) {\n"
                     "  %0 = sum(%i) {axes=[1]} : i64[s1, 1]\n"
                     "  %1 = gather(%x, %0) {axes=[0]} : f32[s1, 64]\n"
                     "  %2 = exp(%1) : f32[s1, 64]\n  return %2"),
            "fused gather fused");
}

TEST(GatherInKernels, kernels_copy_short_rows) {
  EXPECT_EQ(steps_of("%x: f32[s0, 4], %i: i64[s1, 1]) -> (f32[s1, 4]) {\n"
                     "  %0 = gather(%x, %i) {axes=[0]} : f32[s1, 4]\n"
                     "  %1 = exp(%0) : f32[s1, 4]\n  return %1"),
            "fused");
  EXPECT_EQ(steps_of("%x: f32[s0, 16], %i: i64[s1, 1]) -> (f32[s1, 16]) {\n"
                     "  %0 = gather(%x, %i) {axes=[0]} : f32[s1, 16]\n  return %0"),
            "fused");
}

TEST(GatherInKernels, other_reads_are_steps) {
  const std::string inputs = "%x: f32[s0, 64], %i: i64[s1, 1]) -> ";
  // Results of the graph.
  EXPECT_EQ(steps_of(inputs + "(f32[s1, 64]) {\n"
                              "  %0 = gather(%x, %i) {axes=[0]} : f32[s1, 64]\n  return %0"),
            "gather");
  // Elements along the last axis.
  EXPECT_EQ(steps_of("%x: f32[8, s0], %i: i64[1, s1]) -> (f32[8, s1]) {\n"
                     "  %0 = gather(%x, %i) {axes=[1]} : f32[8, s1]\n"
                     "  %1 = exp(%0) : f32[8, s1]\n  return %1"),
            "gather fused");
  // Rows of a few elements.
  EXPECT_EQ(steps_of("%x: f32[s0, 2], %i: i64[s1, 1]) -> (f32[s1, 2]) {\n"
                     "  %0 = gather(%x, %i) {axes=[0]} : f32[s1, 2]\n"
                     "  %1 = exp(%0) : f32[s1, 2]\n  return %1"),
            "gather fused");
  // Rows of what a kernel computes.
  EXPECT_EQ(steps_of(inputs + "(f32[s1, 64]) {\n"
                              "  %0 = exp(%x) : f32[s0, 64]\n"
                              "  %1 = gather(%0, %i) {axes=[0]} : f32[s1, 64]\n"
                              "  %2 = exp(%1) : f32[s1, 64]\n  return %2"),
            "fused gather fused");
  // Kernels that run along another axis.
  EXPECT_EQ(steps_of(inputs + "(f32[64, s1]) {\n"
                              "  %0 = gather(%x, %i) {axes=[0]} : f32[s1, 64]\n"
                              "  %1 = transpose(%0) {axes=[1, 0]} : f32[64, s1]\n"
                              "  %2 = exp(%1) : f32[64, s1]\n  return %2"),
            "gather fused");
}

}  // namespace
}  // namespace pto::gather_in_kernels_test
