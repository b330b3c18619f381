// SPDX-License-Identifier: Apache-2.0
// Laws of the IR on random graphs. A failure prints the seed and a shrunk graph to paste.
#include "pto/ir/random_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/verify.hpp"

namespace pto::random_graph_test {

constexpr RandomGraphOptions kWithStructure{.structure = true};

TEST(RandomGraph, equals_itself_after_printing_and_parsing) {
  for (uint64_t seed = 0; seed < random_tests(); ++seed) {
    const Graph graph = random_graph(seed, kWithStructure);
    const std::string text = print(graph);
    ASSERT_EQ(parse(text), graph) << "seed " << seed << "\n" << text;
    ASSERT_EQ(print(parse(text)), text) << "seed " << seed;
  }
}

TEST(RandomGraph, obeys_the_rules) {
  for (uint64_t seed = 0; seed < random_tests(); ++seed) {
    const Graph graph = random_graph(seed, kWithStructure);
    ASSERT_NO_THROW(verify(graph)) << "seed " << seed << "\n" << print(graph);
  }
}

TEST(RandomGraph, lies_within_its_own_bounds) {
  for (uint64_t seed = 0; seed < random_tests(); ++seed) {
    const Graph graph = random_graph(seed, kWithStructure);
    const auto inputs = random_inputs(graph, seed);
    const auto values = interpret(graph, inputs);
    const auto bounded = interpret_with_bounds(graph, inputs);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(same_bits(bounded[i].array, values[i])) << "seed " << seed;
      ASSERT_EQ(difference(bounded[i], values[i]), "") << "seed " << seed;
      for (const double bound : bounded[i].bounds) ASSERT_GE(bound, 0) << "seed " << seed;
    }
  }
}

// The graph without casts from f32 or f64 to f16 or bf16 that are undone at once.
Graph without_roundings(const Graph& graph) {
  return rebuild(graph, graph.outputs(), [](GraphBuilder& b, const Node& node, Value) {
    if (node.op == Opcode::cast) {
      const Node& inner = b.node(node.operands[0]);
      const bool rounds =
          inner.op == Opcode::cast && bytes(inner.type.dtype) == 2 && is_float(inner.type.dtype);
      if (rounds && b.type(inner.operands[0]).dtype == node.type.dtype)
        return std::optional(inner.operands[0]);
    }
    return std::optional(b.copy(node, node.operands));
  });
}

TEST(RandomGraph, shows_a_rounding_that_is_left_out) {
  int shown = 0;
  for (uint64_t seed = 0; seed < random_tests(); ++seed) {
    const Graph graph = random_graph(seed);
    const auto inputs = random_inputs(graph, seed);
    const auto wanted = interpret_with_bounds(graph, inputs);
    const auto found = interpret(without_roundings(graph), inputs);
    bool differs = false;
    for (size_t i = 0; i < found.size(); ++i)
      differs = differs || !difference(wanted[i], found[i]).empty();
    shown += differs;
  }
  EXPECT_GE(shown, 10);
}

TEST(RandomGraph, of_exact_operations_has_no_slack) {
  for (uint64_t seed = 0; seed < random_tests(); ++seed) {
    const Graph graph = random_graph(seed, {.operations = 8, .exact_only = true});
    for (const Bounded& out :
         interpret_with_bounds(graph, random_inputs(graph, seed, {.specials = false})))
      for (const double bound : out.bounds) ASSERT_EQ(bound, 0) << seed << "\n" << print(graph);
  }
}

// Says in which group an operand has one value: "rows", "columns" or "the whole"; "" for elements.
std::string kind_of(const Graph& graph, Value v) {
  if (graph[v].op != Opcode::broadcast) return "";
  const Dims& shape = graph[graph[v].operands[0]].type.shape;
  const auto ones = std::count(shape.begin(), shape.end(), Dim(1));
  const auto rank = static_cast<long>(shape.size());
  if (rank < 2 || rank < static_cast<long>(graph[v].type.shape.size())) return "";
  if (ones == rank) return "the whole";
  const bool last = shape.back() == Dim(1);
  return last && ones == 1 ? "rows" : !last && ones == rank - 1 ? "columns" : "";
}

TEST(RandomGraph, combines_every_operation_with_values_of_rows_columns_and_the_whole) {
  std::set<std::string> missing;
  for (const char* kind : {" of rows", " of columns", " of the whole"}) {
#define PTO_BINARY(mnemonic, op, ...) missing.insert(#op + std::string(kind));
#define PTO_COMPARE(mode, op, ...) missing.insert(#op + std::string(kind));
#define PTO_SELECT(mnemonic, op, ...) missing.insert(#op + std::string(kind));
#include "pto/isa/instructions.def"
  }
  for (uint64_t seed = 0; seed < 6000 && !missing.empty(); ++seed) {
    const Graph graph = random_graph(seed);
    for (const Node& node : graph.nodes()) {
      for (const Value v : node.operands)
        missing.erase(std::string(info(node.op).name) + " of " + kind_of(graph, v));
    }
  }
  EXPECT_THAT(missing, testing::IsEmpty());
}

TEST(RandomGraph, shrinks_to_the_operation_that_fails) {
  const auto has_exp = [](const Graph& graph) {
    for (const Node& node : graph.nodes())
      if (node.op == Opcode::exp) return true;
    return false;
  };
  int shrunk = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph = random_graph(seed);
    if (!has_exp(graph)) continue;
    EXPECT_LE(shrink(graph, has_exp).nodes().size(), 2u) << "seed " << seed;
    ++shrunk;
  }
  EXPECT_GT(shrunk, 0);
}

TEST(RandomGraph, shrinks_into_the_body_of_a_loop_with_sizes_from_its_values) {
  const Graph graph = parse(R"(graph g(%x: f32[s0], %n: i64[]) -> (f32[s0]) {
    %0 = constant {value=0} : i64[]
    %1 = constant {value=1} : i64[]
    %2 = loop(%0, %n, %1, %x, %n) graph loop(%i: i64[], %c: f32[s0], %n: i64[]) -> (f32[s0]) {
      %0 = size(%n) {size=s1} : i64[]
      %1 = constant {value=0} : i64[]
      %2 = view(%c, %1) : f32[s1]
      %3 = exp(%2) : f32[s1]
      %4 = update(%c, %3, %1) : f32[s0]
      return %4
    } : f32[s0]
    return %2
  })");
  const std::function<bool(const Graph&)> has_exp = [&](const Graph& g) {
    for (const Node& node : g.nodes()) {
      if (node.op == Opcode::exp) return true;
      for (const auto& body : node.attributes.bodies)
        if (has_exp(*body)) return true;
    }
    return false;
  };
  const Graph small = shrink(graph, has_exp);
  EXPECT_LE(small.nodes().size(), 6u) << print(small);  // the size of the part stays
  EXPECT_EQ(small[small.outputs()[0]].op, Opcode::exp);
}

}  // namespace pto::random_graph_test
