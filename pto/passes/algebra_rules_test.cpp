// SPDX-License-Identifier: Apache-2.0
// Shows of each rule of the algebra that it is used, and that it changes no bit.
#include "pto/passes/algebra_rules.hpp"

#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <set>
#include <string>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/passes/pattern.hpp"
#include "pto/passes/remove_dead_nodes.hpp"
#include "pto/passes/rewrite.hpp"

namespace pto {

void PrintTo(const AlgebraRule& rule, std::ostream* out) {
  *out << rule.pattern << " -> " << rule.replacement;
}

namespace algebra_rules_test {

class EachRule : public ::testing::TestWithParam<AlgebraRule> {
 protected:
  static Graph rewritten(const Graph& graph) {
    const AlgebraRule rule = GetParam();
    return remove_dead_nodes(
        rewrite(graph, [&](GraphBuilder& b, const Node& node) { return apply(rule, b, node); }));
  }

  static void expect_same_bits(const Graph& before, const Graph& after) {
    for (uint64_t seed = 0; seed < random_tests(10); ++seed) {
      const std::vector<Array> inputs = random_inputs(before, seed);
      ASSERT_TRUE(same_bits(interpret(before, inputs)[0], interpret(after, inputs)[0]))
          << "seed " << seed << "\n"
          << print(before) << print(after);
    }
  }
};

// Builds the graph of a pattern; nothing where its operations do not take the type.
std::optional<Graph> graph_of(const char* pattern, DType dtype, Opcode rounding, bool has_rounded) {
  GraphBuilder b("rule");
  Bindings bound;
  const Dims shape{Dim::symbol(0), Dim(3)};
  try {
    bound['x'] = b.input("x", dtype, shape);
    bound['y'] = b.input("y", dtype, shape);
    bound['c'] = b.input("c", DType::Bool, shape);
    if (has_rounded) bound['r'] = b.unary(rounding, bound['x']);
    const Value made = Pattern(pattern).build(b, bound);
    if (b.type(made) != Type{dtype, shape}) return std::nullopt;
    b.output(made);
  } catch (const Error&) {
    return std::nullopt;
  }
  return b.build();
}

// The other rules, whose patterns are words; each graph shows one.
const std::multimap<std::string, std::string> kExamples = {
    {"div_power_of_two",
     "graph g(%x: f32[s0, 3]) -> (f32[s0, 3]) { %0 = constant {value=4} : f32[] "
     "%1 = broadcast(%0) : f32[s0, 3] %2 = div(%x, %1) : f32[s0, 3] return %2 }"},
    {"div_power_of_two",
     "graph g(%x: bf16[s0]) -> (bf16[s0]) { %0 = constant {value=-0.125} : bf16[] "
     "%1 = broadcast(%0) : bf16[s0] %2 = div(%x, %1) : bf16[s0] return %2 }"},
    {"cast_to_own_type", "graph g(%x: i8[s0]) -> (i8[s0]) { %0 = cast(%x) : i8[s0] return %0 }"},
    {"cast_through_wider_type",
     "graph g(%x: f16[s0]) -> (bf16[s0]) { %0 = cast(%x) : f32[s0] %1 = cast(%0) : bf16[s0] "
     "return %1 }"},
    {"cast_through_wider_type",
     "graph g(%x: u8[s0]) -> (f16[s0]) { %0 = cast(%x) : i16[s0] %1 = cast(%0) : f16[s0] "
     "return %1 }"},
    {"broadcast_to_own_shape",
     "graph g(%x: f32[s0, 3]) -> (f32[s0, 3]) { %0 = broadcast(%x) : f32[s0, 3] return %0 }"},
    {"broadcast_twice",
     "graph g(%x: f32[s0, 1]) -> (f32[2, s0, 3]) { %0 = broadcast(%x) : f32[s0, 3] "
     "%1 = broadcast(%0) : f32[2, s0, 3] return %1 }"},
    {"reshape_to_own_shape",
     "graph g(%x: f32[s0, 3]) -> (f32[s0, 3]) { %0 = reshape(%x) : f32[s0, 3] return %0 }"},
    {"reshape_twice",
     "graph g(%x: f32[6]) -> (f32[2, 3]) { %0 = reshape(%x) : f32[3, 2] "
     "%1 = reshape(%0) : f32[2, 3] return %1 }"},
    {"transpose_in_order",
     "graph g(%x: f32[s0, 3]) -> (f32[s0, 3]) { %0 = transpose(%x) {axes=[0, 1]} : f32[s0, 3] "
     "return %0 }"},
    {"transpose_twice",
     "graph g(%x: f32[s0, 3, 2]) -> (f32[2, s0, 3]) { "
     "%0 = transpose(%x) {axes=[1, 2, 0]} : f32[3, 2, s0] "
     "%1 = transpose(%0) {axes=[1, 2, 0]} : f32[2, s0, 3] return %1 }"},
    {"sum_of_one",
     "graph g(%x: f32[s0, 1]) -> (f32[s0, 1]) { %0 = sum(%x) {axes=[1]} : f32[s0, 1] return %0 }"},
    {"reduce_one",
     "graph g(%x: i32[s0, 1]) -> (i32[s0, 1]) { %0 = sum(%x) {axes=[1]} : i32[s0, 1] return %0 }"},
    {"reduce_one",
     "graph g(%x: f32[s0, 1]) -> (f32[s0, 1]) { %0 = amax(%x) {axes=[1]} : f32[s0, 1] return %0 }"},
    {"reduce_fewer_axes",
     "graph g(%x: f32[4, 1]) -> (f32[1, 1]) { %0 = sum(%x) {axes=[0, 1]} : f32[1, 1] return %0 }"},
    {"gather_repeated",
     "graph g(%x: f32[3, s0, 4]) -> (f32[3, 6, 4]) { %0 = constant {value=0} : i64[] "
     "%1 = broadcast(%0) : i64[6, 1] %2 = broadcast(%1) : i64[3, 6, 4] "
     "%3 = gather(%x, %2) {axes=[1]} : f32[3, 6, 4] return %3 }"},
    {"scatter_repeated",
     "graph g(%x: f32[s0, 3], %y: f32[5, 3]) -> (f32[s0, 3]) { %0 = iota {axes=[0]} : i64[5, 1] "
     "%1 = constant {value=0} : i64[] %2 = broadcast(%1) : i64[5, 1] %3 = mul(%0, %2) : i64[5, 1] "
     "%4 = broadcast(%3) : i64[5, 3] %5 = scatter(%x, %4, %y) {axes=[0]} : f32[s0, 3] return %5 }"},
    {"scatter_add_repeated",
     "graph g(%x: f32[s0, 3], %y: f32[1, 3]) -> (f32[s0, 3]) { %0 = constant {value=0} : i64[] "
     "%1 = broadcast(%0) : i64[1, 3] "
     "%2 = scatter_add(%x, %1, %y) {axes=[0]} : f32[s0, 3] return %2 }"},
};

TEST_P(EachRule, is_used_and_changes_no_bit) {
  const AlgebraRule rule = GetParam();
  if (rule.compute != nullptr) {
    const auto [begin, end] = kExamples.equal_range(rule.name);
    ASSERT_NE(begin, end) << "kExamples has no graph for this rule";
    for (auto example = begin; example != end; ++example) {
      const Graph before = parse(example->second), after = rewritten(before);
      EXPECT_NE(after, before) << example->second;
      expect_same_bits(before, after);
    }
    return;
  }
  const bool has_rounded = std::string(rule.pattern).find("(r)") != std::string::npos;
  int used = 0;
  for (int i = 0; i < kDTypes; ++i) {
    for (const Opcode rounding : {Opcode::floor, Opcode::ceil, Opcode::round, Opcode::trunc}) {
      const auto before = graph_of(rule.pattern, static_cast<DType>(i), rounding, has_rounded);
      if (!before) continue;
      const Graph after = rewritten(*before);
      const auto wanted = graph_of(rule.replacement, static_cast<DType>(i), rounding, has_rounded);
      ASSERT_TRUE(wanted.has_value()) << print(*before);
      if (rule.applies == nullptr) {
        EXPECT_EQ(after, remove_dead_nodes(*wanted)) << print(*before);
      }
      used += after != *before;
      expect_same_bits(*before, after);
      if (!has_rounded) break;
    }
  }
  EXPECT_GT(used, 0);
}

INSTANTIATE_TEST_SUITE_P(Algebra, EachRule,
                         ::testing::ValuesIn(kAlgebraRules.begin(), kAlgebraRules.end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Algebra, an_integer_keeps_its_way_through_a_float_to_a_type_where_it_would_wrap) {
  const auto is_kept = [](const std::string& to) {
    const Graph graph =
        parse("graph g(%x: i32[s0]) -> (" + to + "[s0]) { %0 = cast(%x) : f64[s0] " +
              "%1 = cast(%0) : " + to + "[s0] return %1 }");
    return rewrite(graph, apply_first) == graph;
  };
  EXPECT_TRUE(is_kept("i8") && is_kept("u32"));
  EXPECT_FALSE(is_kept("i64") || is_kept("bool") || is_kept("f32"));
}

TEST(Algebra, rules_have_names_of_their_own) {
  std::set<std::string> names;
  for (const AlgebraRule& rule : kAlgebraRules)
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
}

}  // namespace algebra_rules_test
}  // namespace pto
