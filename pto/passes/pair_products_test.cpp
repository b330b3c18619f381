// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/pair_products.hpp"

#include <gtest/gtest.h>

#include "pto/ir/parse.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/passes/remove_dead_nodes.hpp"

namespace pto::pair_products_test {

// Lists the additions that take a product, with the number of the operand.
std::string pairs(const std::string& lines, const std::string& returned) {
  const Graph paired =
      pair_products(parse("graph g(%x: f32[s0, 8], %y: f32[s0, 8], %i: i32[s0, 8]) -> (" +
                          returned + ") {\n" + lines + "\n}"));
  std::string found;
  for (const Node& node : paired.nodes())
    if (const auto place = taken_product(node))
      found += std::string(info(node.op).name) + std::to_string(*place) + " ";
  return found;
}

TEST(PairProducts, additions_and_sums_take_products_that_only_they_read) {
  const std::string product = "  %0 = mul(%x, %y) : f32[s0, 8]\n", one = "f32[s0, 8]";
  EXPECT_EQ(pairs(product + "  %1 = add(%x, %0) : f32[s0, 8]\n  return %1", one), "add1 ");
  EXPECT_EQ(pairs(product + "  %1 = sub(%0, %x) : f32[s0, 8]\n  return %1", one), "sub0 ");
  EXPECT_EQ(pairs(product + "  %1 = sum(%0) {axes=[1]} : f32[s0, 1]\n  return %1", "f32[s0, 1]"),
            "sum0 ");
  EXPECT_EQ(pairs(product + "  %1 = add(%0, %x) : f32[s0, 8]\n  %2 = sub(%y, %0) : f32[s0, 8]\n"
                            "  return %1, %2",
                  one + ", " + one),
            "add0 sub1 ");
}

TEST(PairProducts, products_that_are_values_of_their_own_stay) {
  const std::string product = "  %0 = mul(%x, %y) : f32[s0, 8]\n", one = "f32[s0, 8]";
  EXPECT_EQ(pairs(product + "  %1 = add(%0, %x) : f32[s0, 8]\n  return %1, %0", one + ", " + one),
            "");
  EXPECT_EQ(pairs(product + "  %1 = add(%0, %0) : f32[s0, 8]\n  return %1", one), "");
  EXPECT_EQ(pairs(product + "  %1 = add(%0, %x) : f32[s0, 8]\n  %2 = exp(%0) : f32[s0, 8]\n"
                            "  return %1, %2",
                  one + ", " + one),
            "");
  EXPECT_EQ(pairs("  %0 = exp(%x) : f32[s0, 8]\n  %1 = mul(%0, %y) : f32[s0, 8]\n"
                  "  %2 = add(%1, %x) : f32[s0, 8]\n  return %2",
                  one),
            "");
  EXPECT_EQ(pairs("  %0 = mul(%i, %i) : i32[s0, 8]\n  %1 = add(%0, %i) : i32[s0, 8]\n  return %1",
                  "i32[s0, 8]"),
            "");
}

TEST(PairProducts, an_addition_takes_one_product_and_what_it_takes_is_a_product) {
  int pairs = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Graph graph = pair_products(remove_dead_nodes(random_graph(seed)));
    for (const Node& node : graph.nodes()) {
      const auto place = taken_product(node);
      if (!place) continue;
      ++pairs;
      ASSERT_LT(*place, node.operands.size()) << seed;
      EXPECT_EQ(graph[node.operands[*place]].op, Opcode::mul) << seed;
    }
  }
  EXPECT_GT(pairs, 0);
}

}  // namespace pto::pair_products_test
