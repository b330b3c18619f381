// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/tile_products.hpp"

#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/ir/verify.hpp"
#include "pto/passes/fuse_regions.hpp"

namespace pto::tile_products_test {

// Sizes in the place of ROWS, DEPTH and COLS: any, or such that there are several tiles.
using Sizes = std::vector<std::string>;
const std::vector<Sizes> kSizes = {{"s0", "s1", "s2"}, {"961", "2", "130"}, {"13", "3", "1300"}};

std::string with_sizes(std::string text, const Sizes& sizes) {
  const std::string names[] = {"ROWS", "DEPTH", "COLS"};
  for (size_t i = 0; i < sizes.size(); ++i)
    for (size_t at; (at = text.find(names[i])) != text.npos;)
      text.replace(at, names[i].size(), sizes[i]);
  return text;
}

// A product and what follows it.
std::string text_of(const std::string& after, const std::string& results = "f32[ROWS, COLS]") {
  return "graph g(%x: f32[ROWS, DEPTH], %w: f32[DEPTH, COLS], %bias: f32[COLS], "
         "%rest: f32[ROWS, COLS]) -> (" +
         results + ") {\n  %0 = matmul(%x, %w) : f32[ROWS, COLS]\n" + after + "}\n";
}

std::vector<const Node*> nodes_of(const Graph& graph, Opcode op) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes())
    if (node.op == op) found.push_back(&node);
  return found;
}

// Says along which axes the product of a loop over tiles is cut: "rows columns", "".
std::string cuts(const Graph& graph, const Dims& whole) {
  const auto loops = nodes_of(graph, Opcode::loop);
  if (loops.empty()) return "";
  EXPECT_TRUE(nodes_of(graph, Opcode::matmul).empty()) << print(graph);
  const auto products = nodes_of(loops[0]->body(), Opcode::matmul);
  if (products.size() != 1) return "no product in the loop";
  const Dims& tile = products[0]->type.shape;
  const bool cuts_rows = !std::equal(tile.begin(), tile.end() - 1, whole.begin());
  return std::string(cuts_rows ? "rows " : "") + (tile.back() == whole.back() ? "" : "columns ");
}

void check_one(const Graph& before, const std::string& wanted, bool is_known) {
  const Graph after = tile_products(before);
  ASSERT_NO_THROW(verify(after)) << print(after);
  EXPECT_EQ(parse(print(after)), after);
  EXPECT_EQ(cuts(after, nodes_of(before, Opcode::matmul)[0]->type.shape), wanted) << print(after);
  EXPECT_EQ(tile_products(after), after);
  for (uint64_t seed = 0; seed < (is_known ? 1u : 5u); ++seed) {
    const auto inputs = random_inputs(before, seed);
    const auto expected = interpret(before, inputs), made = interpret(after, inputs);
    ASSERT_EQ(expected.size(), made.size());
    for (size_t i = 0; i < made.size(); ++i)
      ASSERT_TRUE(same_bits(expected[i], made[i])) << "seed " << seed << "\n" << print(after);
  }
}

void check(const std::string& text, const std::string& wanted) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes[0] + " x " + sizes[2]);
    check_one(fuse_regions(parse(with_sizes(text, sizes))), wanted, sizes != kSizes[0]);
  }
}

constexpr const char* kBiased =
    "  %1 = broadcast(%bias) : f32[ROWS, COLS]\n"
    "  %2 = add(%0, %1) : f32[ROWS, COLS]\n";

TEST(TileProducts, FewColumnsAreKnownToKernels) {
  const std::string text =
      text_of(std::string(kBiased) + "  %3 = exp(%2) : f32[ROWS, COLS]\n  return %3\n");
  for (const auto& [columns, wanted] : {std::pair("16", "rows "), {"17", "rows columns "}})
    check_one(fuse_regions(parse(with_sizes(text, {"1300", "2", columns}))), wanted, true);
}

TEST(TileProducts, ElementsNeedOneTile) {
  check(text_of(std::string(kBiased) + "  %3 = exp(%2) : f32[ROWS, COLS]\n"
                                       "  %4 = add(%3, %rest) : f32[ROWS, COLS]\n"
                                       "  return %4\n"),
        "rows columns ");
}

TEST(TileProducts, PositionsBeginWhereTheTileDoes) {
  check(text_of("  %1 = iota {axes=[0]} : i64[ROWS, 1]\n"
                "  %2 = iota {axes=[1]} : i64[ROWS, COLS]\n"
                "  %3 = broadcast(%1) : i64[ROWS, COLS]\n"
                "  %4 = le(%2, %3) : bool[ROWS, COLS]\n"
                "  %5 = where(%4, %0, %rest) : f32[ROWS, COLS]\n"
                "  return %5\n"),
        "rows columns ");
}

// The number of tiles of a product of 100 rows and 700 columns with hints.
std::string tiles(const std::string& hints) {
  std::string text =
      with_sizes(text_of(std::string(kBiased) + "  return %2\n"), {"100", "2", "700"});
  const std::string type = "matmul(%x, %w) : f32[100, 700]";
  text.replace(text.find(type), type.size(), type + hints);
  const Graph after = tile_products(fuse_regions(parse(text)));
  const Node& loop = *nodes_of(after, Opcode::loop).at(0);
  return pto::text(after[loop.operands[1]].attributes.size);
}

TEST(TileProducts, TilesAreWholeUnitsOfTheHint) {
  const std::string cube = " !cube_k=[8] !cube_m=[16, 32] !cube_n=[100]";
  EXPECT_EQ(tiles(""), "2");
  EXPECT_EQ(tiles(" !cube_k=[8] !cube_m=[16, 32] !cube_n=[700]"), "1");
  EXPECT_EQ(tiles(cube), "2");
  EXPECT_EQ(tiles(cube + " !tiles_per_task=[3]"), "28");  // 4 by 7
  EXPECT_EQ(tiles(" !tiles_per_task=[3]"), "2");
}

TEST(TileProducts, ManyRowsByAPackedConstantAreCutByRowsAlone) {
  const auto made = [](const char* rows, const std::string& hint, const std::string& precision) {
    std::string text =
        with_sizes(text_of(std::string(kBiased) + "  return %2\n"), {rows, "2", "700"});
    const std::string weight = "%w: f32[2, 700]", product = "matmul(%x, %w)";
    text.replace(text.find(weight), weight.size(), weight + hint);
    text.replace(text.find(product), product.size(), product + precision);
    return tile_products(fuse_regions(parse(text)));
  };
  const auto tiles = [&](const char* rows, const std::string& hint) {
    const Graph after = made(rows, hint, "");
    return pto::text(after[nodes_of(after, Opcode::loop).at(0)->operands[1]].attributes.size);
  };
  EXPECT_EQ(tiles("512", ""), "6");                 // columns
  EXPECT_EQ(tiles("512", " !constant=[1]"), "15");  // rows
  EXPECT_EQ(tiles("30", " !constant=[1]"), tiles("30", ""));
  const Graph rounded = made("512", " !constant=[1]", " {precision=medium}");
  const auto loops = nodes_of(rounded, Opcode::loop);
  EXPECT_EQ(nodes_of(loops.at(0)->body(), Opcode::matmul).at(0)->attributes.name, "medium");
}

TEST(TileProducts, ATransposedResultIsWrittenAtItsTransposedTile) {
  check(text_of(std::string(kBiased) + "  %3 = transpose(%2) {axes=[1, 0]} : f32[COLS, ROWS]\n"
                                       "  %4 = exp(%3) : f32[COLS, ROWS]\n"
                                       "  return %4\n",
                "f32[COLS, ROWS]"),
        "rows columns ");
}

TEST(TileProducts, ANormNeedsWholeRows) {
  check(text_of("  %1 = sum(%0) {axes=[1]} : f32[ROWS, 1]\n"
                "  %2 = broadcast(%1) : f32[ROWS, COLS]\n"
                "  %3 = sub(%0, %2) : f32[ROWS, COLS]\n"
                "  return %3, %1\n",
                "f32[ROWS, COLS], f32[ROWS, 1]"),
        "rows ");
}

TEST(TileProducts, OneRowIsCutByColumns) {
  for (const char* depth : {"0", "3"}) {
    const std::string text =
        with_sizes(text_of(std::string(kBiased) + "  return %2\n"), {"1", depth, "16385"});
    check_one(fuse_regions(parse(text)), "columns ", true);
  }
}

TEST(TileProducts, RowsOfABatchAreCutByTheBatch) {
  const std::string text =
      "graph g(%x: f32[BATCH, DEPTH], %w: f32[DEPTH, COLS], %bias: f32[COLS]) -> "
      "(f32[BATCH, COLS]) {\n"
      "  %0 = matmul(%x, %w) : f32[BATCH, COLS]\n"
      "  %1 = broadcast(%bias) : f32[BATCH, COLS]\n"
      "  %2 = add(%0, %1) : f32[BATCH, COLS]\n"
      "  return %2\n}\n";
  for (const std::string batch : {"ROWS, 7", "1, ROWS", "ROWS, s3, 2"}) {
    std::string of = text;
    for (size_t at; (at = of.find("BATCH")) != of.npos;) of.replace(at, 5, batch);
    check(of, "rows columns ");
  }
}

TEST(TileProducts, WhatNeedsOtherRowsStaysWhole) {
  check(text_of("  %1 = sum(%0) {axes=[0]} : f32[1, COLS]\n  return %1\n", "f32[1, COLS]"), "");
  check(text_of("  %1 = exp(%0) : f32[ROWS, COLS]\n  return %1, %0\n",
                "f32[ROWS, COLS], f32[ROWS, COLS]"),
        "");
  check(
      "graph g(%x: f32[ROWS, DEPTH], %w: f32[DEPTH, ROWS]) -> (f32[ROWS, ROWS]) {\n"
      "  %0 = matmul(%x, %w) : f32[ROWS, ROWS]\n"
      "  %1 = transpose(%0) {axes=[1, 0]} : f32[ROWS, ROWS]\n"
      "  %2 = add(%0, %1) : f32[ROWS, ROWS]\n"
      "  return %2\n}\n",
      "");
}

TEST(TileProducts, AProductReadByAnotherStepStaysWhole) {
  check(text_of("  %1 = constant {value=0} : i64[]\n"
                "  %2 = view(%0, %1, %1) : f32[ROWS, COLS]\n"
                "  %3 = exp(%2) : f32[ROWS, COLS]\n"
                "  return %3\n"),
        "");
}

TEST(TileProducts, ALoopForEachProductOfAChain) {
  const Graph after = tile_products(
      fuse_regions(parse("graph g(%x: f32[s0, s1], %w: f32[s1, s2], %v: f32[s2, s3]) -> "
                         "(f32[s0, s3]) {\n"
                         "  %0 = matmul(%x, %w) : f32[s0, s2]\n"
                         "  %1 = relu(%0) : f32[s0, s2]\n"
                         "  %2 = matmul(%1, %v) : f32[s0, s3]\n"
                         "  %3 = exp(%2) : f32[s0, s3]\n"
                         "  return %3\n}\n")));
  verify(after);
  EXPECT_EQ(nodes_of(after, Opcode::loop).size(), 2u);
  EXPECT_TRUE(nodes_of(after, Opcode::matmul).empty());
}

TEST(TileProducts, ASmallProductOfKnownSizesStaysWhole) {
  const std::string text =
      "graph g(%x: f32[16, s1], %w: f32[s1, COLS]) -> (f32[16, COLS]) {\n"
      "  %0 = matmul(%x, %w) : f32[16, COLS]\n"
      "  %1 = relu(%0) : f32[16, COLS]\n"
      "  return %1\n}\n";
  const auto loops = [&](const std::string& cols) {
    const Graph graph = fuse_regions(parse(with_sizes(text, {"", "", cols})));
    return nodes_of(tile_products(graph), Opcode::loop).size();
  };
  EXPECT_EQ(loops("64"), 0u);
  EXPECT_EQ(loops("4096"), 1u);
}

}  // namespace pto::tile_products_test
