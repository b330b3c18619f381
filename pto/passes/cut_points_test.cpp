// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/cut_points.hpp"

#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/verify.hpp"
#include "pto/passes/fuse_regions.hpp"
#include "pto/passes/pair_products.hpp"

namespace pto::cut_points_test {

int kernels(const Graph& fused) {
  int count = 0;
  for (const Node& node : fused.nodes()) count += node.op == Opcode::fused;
  return count;
}

Graph chain(const std::string& second) {
  return parse(
      "graph g(%x: f32[s0, 8]) -> (f32[s0, 8]) {\n  %0 = exp(%x) : f32[s0, 8]\n"
      "  %1 = neg(%0) : f32[s0, 8]" +
      second + "\n  return %1\n}");
}

TEST(CutPoints, hints_divide_a_graph_into_kernels) {
  EXPECT_EQ(kernels(fuse_regions(chain(""))), 1);
  EXPECT_EQ(kernels(fuse_regions(chain(" !cut=[1]"))), 2);
  EXPECT_EQ(kernels(fuse_regions(chain(" !leaf=\"a\" !leaf_call=[3]"))), 2);
  EXPECT_EQ(kernels(fuse_regions(with_hints(chain(""), {{"merge", {1}, ""}}))), 2);
  EXPECT_EQ(kernels(fuse_regions(with_hints(chain(""), {{"merge", {2}, ""}}))), 1);
}

// Independent operations of one loop nest are in two kernels, too.
TEST(CutPoints, parts_that_read_nothing_of_each_other_are_apart) {
  const Graph graph = parse(R"(graph g(%x: f32[s0]) -> (f32[s0], f32[s0]) {
  %0 = exp(%x) : f32[s0]
  %1 = neg(%x) : f32[s0] !cut=[1]
  return %0, %1
})");
  EXPECT_EQ(kernels(fuse_regions(graph)), 2);
}

// Counts the operations of all kernels.
int operations(const Graph& fused) {
  int count = 0;
  for (const Node& node : fused.nodes())
    if (node.op == Opcode::fused)
      for (const Node& inner : node.body().nodes()) count += is_elementwise(inner.op);
  return count;
}

// A kernel behind a step reads what that step has read, where computing it takes more.
TEST(CutPoints, a_value_that_a_step_reads_is_computed_once) {
  const auto layers = [](int count) {
    GraphBuilder b("g");
    const Dims square = {Dim::symbol(0), Dim::symbol(0)};
    Value x = b.input("x", DType::F32, square);
    const Value w = b.input("w", DType::F32, square);
    for (int i = 0; i < count; ++i) x = b.binary(Opcode::add, x, b.matmul(x, w));
    b.output(x);
    return b.build();
  };
  EXPECT_EQ(operations(fuse_regions(layers(1))), 1);
  EXPECT_EQ(operations(fuse_regions(layers(8))), 8);
  // So is one that only kernels read, from three values on.
  GraphBuilder b("g");
  const Dims square = {Dim::symbol(0), Dim::symbol(0)};
  Value x = b.input("x", DType::F32, square);
  const Value w = b.input("w", DType::F32, square);
  for (int i = 0; i < 8; ++i) x = b.binary(Opcode::add, x, b.matmul(b.unary(Opcode::exp, x), w));
  b.output(x);
  const int all = operations(fuse_regions(b.build()));
  EXPECT_GE(all, 16);
  EXPECT_LE(all, 24);
  const Graph cheap = parse(R"(graph g(%x: f32[s0, s0]) -> (f32[s0, s0]) {
  %0 = exp(%x) : f32[s0, s0]
  %1 = matmul(%0, %0) : f32[s0, s0]
  %2 = add(%0, %1) : f32[s0, s0]
  return %2
})");
  EXPECT_EQ(operations(fuse_regions(cheap)), 3) << "exp is computed from x again";
}

// Rounds that divide by sums along an axis; every second one along the other axis.
Graph rounds(int count, bool alternates) {
  GraphBuilder b("g");
  const Dims shape = {Dim::symbol(0), Dim::symbol(1)};
  Value y = b.input("x", DType::F32, shape);
  for (int i = 0; i < count; ++i) {
    const int64_t axis = alternates ? i % 2 : 1;
    y = b.binary(Opcode::div, y, b.broadcast(b.reduce(Opcode::sum, y, {axis}), shape));
  }
  b.output(y);
  return b.build();
}

// Each sum along the other axis is a kernel of its own, which would divide anew from the first on.
TEST(CutPoints, sums_along_other_axes_read_what_took_more_to_compute) {
  const int few = operations(fuse_regions(rounds(12, true)));
  EXPECT_EQ(operations(fuse_regions(rounds(24, true))) - few, few) << "in proportion to the rounds";
  EXPECT_LE(few, 12 * 4);
  const Graph one = fuse_regions(rounds(24, false));
  EXPECT_EQ(kernels(one), 1) << print(one);
  for (const int count : {3, 9}) {
    const Graph before = rounds(count, true), after = fuse_regions(before);
    const auto inputs = random_inputs(before, 1);
    EXPECT_TRUE(same_bits(interpret(before, inputs)[0], interpret(after, inputs)[0]));
  }
}

TEST(CutPoints, a_chain_that_cannot_be_cut_is_refused_where_it_is_too_long) {
  const auto fuse = [](int count) {
    GraphBuilder b("g");
    const Value x = b.input("x", DType::F32, {Dim::symbol(0), Dim::symbol(1)});
    const Value turned = b.transpose(x, {1, 0});
    Value v = turned;
    for (int i = 0; i < count; ++i) v = b.binary(i % 2 ? Opcode::sub : Opcode::maximum, v, turned);
    b.output(v);
    b.output(b.reduce(Opcode::sum, x, {0, 1}));
    fuse_regions(b.build());
  };
  EXPECT_NO_THROW(fuse(1000));
  EXPECT_THROW(fuse(100000), Error);
}

TEST(CutPoints, no_kernel_holds_operations_of_two_parts_and_no_bit_changes) {
  int cuts = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = pair_products(random_graph(seed));
    const Graph merged = with_hints(graph, {{"merge", {1}, ""}});
    const Graph one = fuse_regions(graph), many = fuse_regions(merged);
    ASSERT_NO_THROW(verify(many)) << print(merged);
    cuts += kernels(many) > kernels(one);
    EXPECT_GE(kernels(many), kernels(one)) << print(merged);
  }
  EXPECT_GT(cuts, 50);
}

}  // namespace pto::cut_points_test
