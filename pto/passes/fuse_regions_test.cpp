// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/fuse_regions.hpp"

#include <gtest/gtest.h>

#include <string>

#include "pto/ir/parse.hpp"
#include "pto/ir/verify.hpp"

namespace pto::fuse_regions_test {

// Prints each region as "outputs reductions", in order of execution.
std::string regions(const char* text) {
  const Graph fused = fuse_regions(parse(text));
  verify(fused);
  std::string all;
  for (const Node& node : fused.nodes()) {
    if (node.op != Opcode::fused) {
      EXPECT_TRUE(node.op == Opcode::input || node.op == Opcode::result);
      continue;
    }
    int reductions = 0;
    for (const Node& inner : node.body().nodes())
      reductions += info(inner.op).family == Family::Reduce;
    all += (all.empty() ? "" : ", ") + std::to_string(node.body().outputs().size()) + " " +
           std::to_string(reductions);
  }
  return all;
}

TEST(FuseRegions, softmax_is_one_region) {
  EXPECT_EQ(regions(R"(graph softmax(%x: f32[s0, s1]) -> (f32[s0, s1]) {
    %0 = amax(%x) {axes=[1]} : f32[s0, 1]
    %1 = broadcast(%0) : f32[s0, s1]
    %2 = sub(%x, %1) : f32[s0, s1]
    %3 = exp(%2) : f32[s0, s1]
    %4 = sum(%3) {axes=[1]} : f32[s0, 1]
    %5 = broadcast(%4) : f32[s0, s1]
    %6 = div(%3, %5) : f32[s0, s1]
    return %6
  })"),
            "1 2");
}

TEST(FuseRegions, a_long_chain_becomes_several_kernels_each_with_what_it_reads) {
  const auto chain = [](int length, const std::string& end) {
    std::string text = "graph long(%x: f32[s0, s1], %y: f32[s0, s1]) -> (f32[s0, s1]) {\n";
    for (int i = 0; i < length; ++i) {
      const std::string last = i == 0 ? "%x" : "%" + std::to_string(i - 1);
      const char* const other = i % 100 == 7 ? "%3" : "%y";
      text += "%" + std::to_string(i) + " = add(" + last + ", " + (i > 3 ? other : "%y") +
              ") : f32[s0, s1]\n";
    }
    return text + end;
  };
  EXPECT_EQ(regions((chain(250, "return %249\n}")).c_str()), "1 0");
  // The first one also stores %3, which the others read.
  EXPECT_EQ(regions((chain(1000, "return %999\n}")).c_str()), "2 0, 1 0, 1 0, 1 0");
  EXPECT_EQ(regions((chain(600,
                           "%600 = sum(%599) {axes=[1]} : f32[s0, 1]\n"
                           "%601 = broadcast(%600) : f32[s0, s1]\n"
                           "%602 = div(%599, %601) : f32[s0, s1]\nreturn %602\n}"))
                        .c_str()),
            "2 0, 1 0, 1 1");
}

TEST(FuseRegions, other_axes_make_another_region_and_only_the_reduction_crosses) {
  EXPECT_EQ(regions(R"(graph both(%x: f32[s0, s1]) -> (f32[s0, s1]) {
    %0 = exp(%x) : f32[s0, s1]
    %1 = sum(%0) {axes=[0]} : f32[1, s1]
    %2 = broadcast(%1) : f32[s0, s1]
    %3 = div(%0, %2) : f32[s0, s1]
    %4 = amax(%3) {axes=[1]} : f32[s0, 1]
    %5 = broadcast(%4) : f32[s0, s1]
    %6 = sub(%3, %5) : f32[s0, s1]
    return %6
  })"),
            "1 1, 1 1");
}

TEST(FuseRegions, a_reduction_read_along_another_axis_is_finished_before) {
  EXPECT_EQ(regions(R"(graph outer(%x: f32[s0, s0]) -> (f32[s0, s0]) {
    %0 = sum(%x) {axes=[1]} : f32[s0, 1]
    %1 = transpose(%0) {axes=[1, 0]} : f32[1, s0]
    %2 = broadcast(%1) : f32[s0, s0]
    %3 = add(%x, %2) : f32[s0, s0]
    return %3
  })"),
            "1 1, 1 0");
}

TEST(FuseRegions, outputs_of_one_loop_nest_share_a_region) {
  EXPECT_EQ(regions(R"(graph two(%x: f32[s0, s1]) -> (f32[s0, s1], f32[s0, s1], f32[s0, 1]) {
    %0 = exp(%x) : f32[s0, s1]
    %1 = sum(%0) {axes=[1]} : f32[s0, 1]
    %2 = broadcast(%1) : f32[s0, s1]
    %3 = div(%0, %2) : f32[s0, s1]
    %4 = sub(%x, %2) : f32[s0, s1]
    return %3, %4, %1
  })"),
            "3 1");
}

TEST(FuseRegions, checks_run_in_front_of_what_they_do_not_need) {
  const Graph found = fuse_regions(parse(R"(graph g(%x: f32[s0], %n: i64[s0]) -> (f32[s0]) {
    %0 = constant {value=0} : i64[]
    %1 = view(%x, %0) : f32[1]
    %2 = update(%x, %1, %0) : f32[s0]
    %3 = sum(%n) {axes=[0]} : i64[1]
    %4 = reshape(%3) : i64[]
    %5 = size(%4) {size=s1} : i64[]
    guard none s1 because "n is 0"
    return %2
  })"));
  size_t check = 0, write = 0;
  for (size_t v = 0; v < found.nodes().size(); ++v) {
    if (found.nodes()[v].op == Opcode::size) check = v;
    if (found.nodes()[v].op == Opcode::update) write = v;
  }
  EXPECT_GT(check, 0U);
  EXPECT_LT(check, write);
}

TEST(FuseRegions, sizes_that_a_guard_equates_are_one_loop_nest) {
  EXPECT_EQ(
      regions(R"(graph guarded(%x: f32[s0, s1], %y: f32[s2, s3]) -> (f32[s0, s1], f32[s2, s3]) {
    %0 = broadcast(%y) : f32[s0, s1]
    %1 = add(%x, %0) : f32[s0, s1]
    %2 = exp(%y) : f32[s2, s3]
    guard s2 == s0 because "add"
    guard s3 == s1 because "add"
    return %1, %2
  })"),
      "2 0");
}

TEST(FuseRegions, a_guard_equates_sizes_inside_expressions_too) {
  EXPECT_EQ(regions(R"(graph flat(%x: f32[s0, s1], %y: f32[s2, s0*3], %z: f32[s2, s2*3])
      -> (f32[s2, s0*3], f32[s2, s2*3]) {
    %0 = exp(%y) : f32[s2, s0*3]
    %1 = exp(%z) : f32[s2, s2*3]
    guard s2 == s0 because "add"
    return %0, %1
  })"),
            "2 0");
}

}  // namespace pto::fuse_regions_test
