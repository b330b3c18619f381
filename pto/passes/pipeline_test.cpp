// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/pipeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/ir/verify.hpp"
#include "pto/passes/fuse_regions.hpp"
#include "pto/passes/rewrite.hpp"

namespace pto::pipeline_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// True where the pass changes a single bit of a result on random inputs of the seed.
bool changes(const Pass& pass, const Graph& graph, uint64_t seed) {
  const auto inputs = random_inputs(graph, seed);
  const auto before = interpret(graph, inputs), after = interpret(pass.run(graph, nullptr), inputs);
  for (size_t i = 0; i < before.size(); ++i)
    if (!same_bits(before[i], after[i])) return true;
  return before.size() != after.size();
}

// fuse_regions takes no loops and no reshapes that regroup elements.
bool takes_structure(const Pass& pass) { return std::string(pass.name) != "fuse_regions"; }

class EachPass : public ::testing::TestWithParam<Pass> {};

TEST_P(EachPass, leaves_the_interpreters_result_bit_equal) {
  for (uint64_t seed = 0; seed < random_tests(); ++seed) {
    const Graph graph = random_graph(seed, {.structure = takes_structure(GetParam())});
    if (!changes(GetParam(), graph, seed)) continue;
    const Graph small = shrink(graph, [&](const Graph& g) { return changes(GetParam(), g, seed); });
    FAIL() << "seed " << seed << "\n" << print(small) << print(GetParam().run(small, nullptr));
  }
}

TEST_P(EachPass, gives_a_graph_that_obeys_the_rules) {
  for (uint64_t seed = 0; seed < random_tests(); ++seed) {
    const Graph graph = random_graph(seed, {.structure = takes_structure(GetParam())});
    const Graph after = GetParam().run(graph, nullptr);
    ASSERT_NO_THROW(verify(after)) << "seed " << seed << "\n" << print(graph) << print(after);
    ASSERT_EQ(parse(print(after)), after) << "seed " << seed;
    ASSERT_EQ(after.inputs().size(), graph.inputs().size());
    ASSERT_EQ(after.guards(), graph.guards()) << "seed " << seed;
  }
}

TEST_P(EachPass, keeps_locations) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Graph after =
        GetParam().run(random_graph(seed, {.structure = takes_structure(GetParam())}), nullptr);
    for (const Node& node : after.nodes()) {
      if (node.has_body() || node.op == Opcode::result) continue;
      ASSERT_FALSE(node.locations.empty()) << "seed " << seed << "\n" << print(after);
    }
  }
}

TEST_P(EachPass, reaches_its_end) {
  for (uint64_t seed = 0; seed < random_tests(); ++seed) {
    const Graph graph = random_graph(seed, {.structure = takes_structure(GetParam())});
    PassNotes notes;
    GetParam().run(graph, &notes);
    ASSERT_TRUE(notes.is_finished) << "seed " << seed << "\n" << print(graph);
  }
}

INSTANTIATE_TEST_SUITE_P(Pipeline, EachPass,
                         ::testing::ValuesIn(kPipeline.begin(), kPipeline.end()),
                         [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(OfShortChains, EachPass,
                         ::testing::Values(Pass{
                             "fuse_regions",
                             [](const Graph& graph, PassNotes*) { return fuse_regions(graph, 2); },
                             "values are stored in between"}));

TEST(Pipeline, runs_dumps_and_times_every_pass_in_order) {
  const Graph graph = random_graph(1);
  std::vector<std::string> names, dumped, timed;
  for (const Pass& pass : kPipeline) names.emplace_back(pass.name);
  run_pipeline(
      graph, {.dump = [&](const std::string& pass, const std::string&) { dumped.push_back(pass); },
              .timed = [&](std::string_view pass, double) { timed.emplace_back(pass); }});
  EXPECT_EQ(dumped, names);
  EXPECT_EQ(timed, names);
}

TEST(Pipeline, skips_disabled_passes) {
  std::vector<std::string> dumped;
  run_pipeline(random_graph(1), {.disabled = {"move_broadcast_late", "move_transpose_late",
                                              "simplify_algebra", "fuse_regions", "tile_products"},
                                 .dump = [&](const std::string& pass, const std::string&) {
                                   dumped.push_back(pass);
                                 }});
  EXPECT_THAT(dumped, ElementsAre("inline_tile_operations", "move_pads_late", "fold_constants",
                                  "remove_dead_nodes", "join_positions", "pair_products",
                                  "interchange_loops", "choose_layout", "copy_turned", "skip_fills",
                                  "gather_in_kernels"));
}

// Turns neg into abs and abs into neg, for ever.
Graph never_ends(const Graph& graph, PassNotes* notes) {
  const auto swap = [](GraphBuilder& b, const Node& node) -> std::optional<Value> {
    if (node.op == Opcode::neg) return b.unary(Opcode::abs, node.operands[0]);
    if (node.op == Opcode::abs) return b.unary(Opcode::neg, node.operands[0]);
    return std::nullopt;
  };
  return rewrite(graph, swap, notes);
}

TEST(Pipeline, says_when_a_pass_does_not_reach_its_end) {
  for (const char* body : {"", "in a loop"}) {
    GraphBuilder b("f");
    const Value x = b.input("x", DType::F32, {Dim(4)});
    GraphBuilder inner("body");
    inner.input("i", DType::I64, {});
    inner.output(inner.unary(Opcode::neg, inner.input("y", DType::F32, {Dim(4)})));
    const auto bound = [&b](int64_t n) { return b.constant(n, DType::I64); };
    b.output(*body == 0 ? b.unary(Opcode::neg, x)
                        : b.loop(bound(0), bound(2), bound(1), {x}, inner.build()));
    const Pass pass{"never_ends", never_ends, ""};
    std::vector<std::string> said;
    run_pipeline(b.build(),
                 {.unfinished = [&](const ErrorText& text) { said.push_back(text.what); },
                  .passes = {&pass, 1}});
    EXPECT_THAT(said, ElementsAre("the pass never_ends still changed \"f\" in walk 16")) << body;
  }
}

TEST(Pipeline, names_the_passes_when_one_is_unknown) {
  try {
    run_pipeline(random_graph(1), {.disabled = {"fuse"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no pass \"fuse\""));
    EXPECT_THAT(error.what(), HasSubstr("fold_constants, simplify_algebra"));
  }
}

}  // namespace pto::pipeline_test
