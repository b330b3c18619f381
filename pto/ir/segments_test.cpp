// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/segments.hpp"

#include <gtest/gtest.h>

#include "pto/ir/parallel_loop.hpp"
#include "pto/ir/parse.hpp"

namespace pto::segments_test {

const std::string kCounts =  // of the places where %x is e
    "  %2 = iota {axes=[0]} : i64[s1]\n"
    "  %3 = reshape(%x) : i64[s0, 1]\n"
    "  %4 = broadcast(%3) : i64[s0, s1]\n"
    "  %5 = broadcast(%2) : i64[s0, s1]\n"
    "  %6 = eq(%4, %5) : bool[s0, s1]\n"
    "  %7 = cast(%6) : i64[s0, s1]\n"
    "  %8 = sum(%7) {axes=[0]} : i64[1, s1]\n"
    "  %9 = reshape(%8) : i64[s1]\n"
    "  %10 = cumsum(%9) {axes=[0]} : i64[s1]\n";
const std::string kOrder =
    "  %11 = sort(%x) : i64[s0]\n"
    "  %12 = result(%11) {index=1} : i64[s0]\n";
const std::string kFirst =
    "    %0 = view(%counts, %i) : i64[1]\n"
    "    %1 = reshape(%0) : i64[]\n"
    "    %2 = view(%ends, %i) : i64[1]\n"
    "    %3 = reshape(%2) : i64[]\n"
    "    %4 = sub(%3, %1) : i64[]\n"
    "    %5 = size(%1) {size=s2} : i64[]\n";
const std::string kScatter =
    "    %6 = view(%order, %4) : i64[s2]\n"
    "    %7 = reshape(%6) : i64[s2, 1]\n"
    "    %8 = constant {value=1} : f32[]\n"
    "    %9 = broadcast(%8) : f32[s2, 8]\n"
    "    %10 = scatter(%out, %7, %9) {axes=[0]} : f32[s0, 8]\n"
    "    return %10\n";
const std::string kUpdate =
    "    %6 = constant {value=1} : f32[]\n"
    "    %7 = broadcast(%6) : f32[s2, 8]\n"
    "    %8 = constant {value=0} : i64[]\n"
    "    %9 = update(%out, %7, %4, %8) : f32[s0, 8]\n"
    "    return %9\n";

// A loop over the counts of %x that carries %out.
bool may_run_side_by_side(const std::string& counts, const std::string& order,
                          const std::string& first, const std::string& write,
                          LoopObstacle* obstacle = nullptr) {
  const Graph graph = parse(
      "graph g(%x: i64[s0], %given: i64[s1], %out: f32[s0, 8]) -> (f32[s0, 8]) {\n"
      "  %0 = constant {value=0} : i64[]\n"
      "  %1 = constant {value=1} : i64[]\n" +
      counts + order +
      "  %13 = extent {size=s1} : i64[]\n"
      "  %14 = loop(%0, %13, %1, %out, %9, %10, %12) graph loop(%i: i64[], %out: f32[s0, 8], "
      "%counts: i64[s1], %ends: i64[s1], %order: i64[s0]) -> (f32[s0, 8]) {\n" +
      first + write +
      "  } : f32[s0, 8]\n"
      "  %15 = result(%14) {index=0} : f32[s0, 8]\n"
      "  return %15\n}\n");
  for (Value v = 0; v < static_cast<Value>(graph.nodes().size()); ++v) {
    if (graph[v].op != Opcode::loop) continue;
    const bool are_apart = writes_apart(graph, v, obstacle);
    EXPECT_EQ(writes_segments(graph, v), are_apart);
    return are_apart;
  }
  return false;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Segments, OfAnOrderAreApart) {
  EXPECT_TRUE(may_run_side_by_side(kCounts, kOrder, kFirst, kScatter));
  const std::string down = with(kOrder, "sort", "sort_descending");
  EXPECT_TRUE(may_run_side_by_side(kCounts, down, kFirst, kScatter));
}

TEST(Segments, AreApartWhereRowsAreWritten) {
  EXPECT_TRUE(may_run_side_by_side(kCounts, kOrder, kFirst, kUpdate));
}

TEST(Segments, MayMeetWhereACountMayBeNegative) {
  const std::string counts = with(kCounts, "cast(%6)", "sub(%4, %5)");
  LoopObstacle obstacle;
  EXPECT_FALSE(may_run_side_by_side(counts, kOrder, kFirst, kScatter, &obstacle));
  EXPECT_NE(obstacle.why.find("comes from data"), std::string::npos) << obstacle.why;
  EXPECT_FALSE(obstacle.is_certain);
  EXPECT_FALSE(may_run_side_by_side(counts, kOrder, kFirst, kUpdate));
}

TEST(Segments, MayMeetWhereSumsOfCountsMayWrap) {
  const std::string constants = with(kCounts, "cast(%6)", "broadcast(%1)");
  EXPECT_FALSE(may_run_side_by_side(constants, kOrder, kFirst, kScatter));
}

TEST(Segments, MayMeetWhereTheOrderRepeatsPlaces) {
  const std::string sorted = with(kOrder, "index=1", "index=0");
  EXPECT_FALSE(may_run_side_by_side(kCounts, sorted, kFirst, kScatter));
}

TEST(Segments, MayMeetWhereEndsAreNotSumsOfTheCounts) {
  const std::string running = with(kCounts, "cumsum", "cummax");
  EXPECT_FALSE(may_run_side_by_side(running, kOrder, kFirst, kScatter));
  const std::string others = with(kCounts, "cumsum(%9)", "cumsum(%given)");
  EXPECT_FALSE(may_run_side_by_side(others, kOrder, kFirst, kScatter));
}

TEST(Segments, MayMeetWhereTheyAreThoseOfAnotherIndex) {
  const std::string another = with(kFirst, "view(%ends, %i)", "view(%ends, %1)");
  EXPECT_FALSE(may_run_side_by_side(kCounts, kOrder, another, kScatter));
}

TEST(Segments, MayMeetWhereEachIterationCountsAndSortsAnew) {
  const std::string counted =
      "    %0 = sub(%order, %order) : i64[s0]\n"
      "    %1 = constant {value=1} : bool[]\n"
      "    %2 = broadcast(%1) : bool[s1]\n"
      "    %3 = cast(%2) : i64[s1]\n"
      "    %4 = cumsum(%3) {axes=[0]} : i64[s1]\n"
      "    %5 = view(%3, %i) : i64[1]\n"
      "    %6 = reshape(%5) : i64[]\n"
      "    %7 = view(%4, %i) : i64[1]\n"
      "    %8 = reshape(%7) : i64[]\n"
      "    %9 = sub(%8, %6) : i64[]\n"
      "    %10 = size(%6) {size=s2} : i64[]\n"
      "    %11 = constant {value=1} : f32[]\n"
      "    %12 = broadcast(%11) : f32[s2, 8]\n"
      "    %13 = constant {value=0} : i64[]\n"
      "    %14 = update(%out, %12, %9, %13) : f32[s0, 8]\n"
      "    return %14\n";
  EXPECT_FALSE(may_run_side_by_side(kCounts, kOrder, counted, ""));
  const std::string sorted =
      "    %6 = add(%order, %order) : i64[s0]\n"
      "    %7 = sort(%6) : i64[s0]\n"
      "    %8 = result(%7) {index=1} : i64[s0]\n"
      "    %9 = view(%8, %4) : i64[s2]\n"
      "    %10 = reshape(%9) : i64[s2, 1]\n"
      "    %11 = constant {value=1} : f32[]\n"
      "    %12 = broadcast(%11) : f32[s2, 8]\n"
      "    %13 = scatter(%out, %10, %12) {axes=[0]} : f32[s0, 8]\n"
      "    return %13\n";
  EXPECT_FALSE(may_run_side_by_side(kCounts, kOrder, kFirst, sorted));
}

TEST(Segments, MayMeetWhereTheyAreLongerOrBeginElsewhere) {
  const std::string longer = with(kFirst, "size(%1)", "size(%3)");
  EXPECT_FALSE(may_run_side_by_side(kCounts, kOrder, longer, kScatter));
  const std::string moved = with(kFirst, "sub(%3, %1)", "add(%3, %1)");
  EXPECT_FALSE(may_run_side_by_side(kCounts, kOrder, moved, kScatter));
  const std::string turned = with(kFirst, "sub(%3, %1)", "sub(%1, %3)");
  EXPECT_FALSE(may_run_side_by_side(kCounts, kOrder, turned, kScatter));
}

}  // namespace pto::segments_test
