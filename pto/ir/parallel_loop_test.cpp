// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/parallel_loop.hpp"

#include <gtest/gtest.h>

#include "pto/ir/parse.hpp"

namespace pto::parallel_loop_test {

// A loop over rows of %x that carries %out, with this body.
bool may_run_side_by_side(const std::string& body, const std::string& step = "1",
                          LoopObstacle* obstacle = nullptr, const std::string& start = "0",
                          const std::string& end = "s0") {
  const Graph graph = parse(
      "graph g(%x: f32[s0, 8], %rows: i64[s0], %out: f32[s0, 8]) -> (f32[s0, 8]) {\n"
      "  %0 = constant {value=" +
      start +
      "} : i64[]\n"
      "  %1 = extent {size=" +
      end +
      "} : i64[]\n"
      "  %2 = constant {value=" +
      step +
      "} : i64[]\n"
      "  %3 = loop(%0, %1, %2, %out, %x, %rows) graph loop(%i: i64[], %out: f32[s0, 8], "
      "%x: f32[s0, 8], %rows: i64[s0]) -> (f32[s0, 8]) {\n"
      "    %0 = constant {value=0} : i64[]\n"
      "    %1 = constant {value=2} : i64[]\n" +
      body +
      "  } : f32[s0, 8]\n"
      "  %4 = result(%3) {index=0} : f32[s0, 8]\n"
      "  return %4\n}\n");
  for (Value v = 0; v < static_cast<Value>(graph.nodes().size()); ++v)
    if (graph[v].op == Opcode::loop) {
      EXPECT_FALSE(writes_segments(graph, v));
      return writes_apart(graph, v, obstacle);
    }
  return false;
}

const std::string kRow = "    %2 = view(%x, %i, %0) : f32[1, 8]\n";

TEST(ParallelLoop, WritesOfOneRowEachAreApart) {
  const std::string write = kRow +
                            "    %3 = update(%out, %2, %i, %0) : f32[s0, 8]\n"
                            "    return %3\n";
  EXPECT_TRUE(may_run_side_by_side(write));
  EXPECT_TRUE(may_run_side_by_side(write, "3"));
  EXPECT_FALSE(may_run_side_by_side(write, "-1"));
}

TEST(ParallelLoop, TwoRowsAtTwiceTheIndexAreApartAndAtTheIndexAreNot) {
  const std::string rows = "    %2 = view(%x, %0, %0) : f32[2, 8]\n";
  EXPECT_TRUE(may_run_side_by_side(rows + "    %3 = mul(%i, %1) : i64[]\n"
                                          "    %4 = update(%out, %2, %3, %0) : f32[s0, 8]\n"
                                          "    return %4\n"));
  EXPECT_FALSE(may_run_side_by_side(rows + "    %3 = update(%out, %2, %i, %0) : f32[s0, 8]\n"
                                           "    return %3\n"));
}

TEST(ParallelLoop, RowsSomeStepsApartTakeTheRoomBetweenThem) {
  const auto writes = [](const std::string& step, LoopObstacle* obstacle = nullptr) {
    const std::string body =
        "    %2 = view(%x, %0, %0) : f32[2, 8]\n"
        "    %3 = mul(%i, %1) : i64[]\n"
        "    %4 = update(%out, %2, %3, %0) {steps=[" +
        step + ", 1]} : f32[s0, 8]\n    return %4\n";
    return may_run_side_by_side(body, "1", obstacle);
  };
  LoopObstacle obstacle;
  EXPECT_TRUE(writes("1"));
  EXPECT_FALSE(writes("2"));
  EXPECT_FALSE(writes("3", &obstacle));
  EXPECT_FALSE(obstacle.is_certain);  // the rows of each lie between those of others
}

TEST(ParallelLoop, TilesByQuotientAndRemainderOfTheIndexAreApart) {
  const auto tiles = [](const std::string& rows, const std::string& cols, const std::string& size) {
    return "    %2 = extent {size=s0} : i64[]\n"
           "    %3 = div(%i, %2) : i64[]\n"
           "    %4 = remainder(%i, %2) : i64[]\n"
           "    %5 = mul(" +
           rows +
           ", %1) : i64[]\n"
           "    %6 = mul(%1, " +
           cols +
           ") : i64[]\n"
           "    %7 = view(%x, %0, %0) : f32[" +
           size +
           "]\n"
           "    %8 = update(%out, %7, %5, %6) : f32[s0, 8]\n"
           "    return %8\n";
  };
  EXPECT_TRUE(may_run_side_by_side(tiles("%3", "%4", "2, 2")));
  EXPECT_TRUE(may_run_side_by_side(tiles("%4", "%3", "1, 2")));
  EXPECT_FALSE(may_run_side_by_side(tiles("%3", "%3", "2, 2")));
  EXPECT_FALSE(may_run_side_by_side(tiles("%4", "%4", "2, 2")));
  EXPECT_FALSE(may_run_side_by_side(tiles("%3", "%4", "2, 3")));
  EXPECT_FALSE(may_run_side_by_side(tiles("%3", "%4", "2, 2"), "1", nullptr, "-4"));
}

TEST(ParallelLoop, AQuotientByASizeThatMayBe0IsNotApart) {
  LoopObstacle obstacle;
  const auto tiles = [&](const std::string& by, const std::string& end) {
    return may_run_side_by_side("    %2 = extent {size=" + by +
                                    "} : i64[]\n"
                                    "    %3 = div(%i, %2) : i64[]\n"
                                    "    %4 = remainder(%i, %2) : i64[]\n"
                                    "    %5 = view(%x, %0, %0) : f32[1, 1]\n"
                                    "    %6 = update(%out, %5, %3, %4) : f32[s0, 8]\n"
                                    "    return %6\n",
                                "1", &obstacle, "0", end);
  };
  EXPECT_TRUE(tiles("8", "s0"));
  EXPECT_TRUE(tiles("max(s0, 1)", "20"));
  EXPECT_TRUE(tiles("s0", "3*s0*s0"));
  EXPECT_FALSE(tiles("0", "20"));
  EXPECT_FALSE(tiles("s0", "20"));
  EXPECT_FALSE(tiles("s0", "s0 + 1"));
  EXPECT_EQ(obstacle.why,
            "iterations may write the same part of 'out': the size that divides the index may be "
            "0; divide by max(size, 1), or loop over a multiple of it");
}

TEST(ParallelLoop, AQuotientThatIsRoundedDownCountsAsOne) {
  const auto rows = [](const std::string& less, const std::string& start) {
    return may_run_side_by_side(
        "    %2 = extent {size=s0} : i64[]\n"
        "    %3 = fmod(%i, %2) : i64[]\n"
        "    %4 = sub(%i, " +
            less +
            ") : i64[]\n"
            "    %5 = div(%4, %2) : i64[]\n"
            "    %6 = ne(%3, %0) : bool[]\n"
            "    %7 = lt(%3, %0) : bool[]\n"
            "    %8 = lt(%2, %0) : bool[]\n"
            "    %9 = logical_or(%7, %8) : bool[]\n"
            "    %10 = logical_and(%6, %9) : bool[]\n"
            "    %11 = sub(%5, %1) : i64[]\n"
            "    %12 = where(%10, %11, %5) : i64[]\n"
            "    %13 = remainder(%i, %2) : i64[]\n"
            "    %14 = view(%x, %0, %0) : f32[1, 1]\n"
            "    %15 = update(%out, %14, %12, %13) : f32[s0, 8]\n"
            "    return %15\n",
        "1", nullptr, start);
  };
  EXPECT_TRUE(rows("%3", "0"));
  EXPECT_FALSE(rows("%2", "0"));
  EXPECT_FALSE(rows("%3", "-4"));
}

TEST(ParallelLoop, APlaceFromDataOrThatStaysIsNotApart) {
  EXPECT_FALSE(may_run_side_by_side(kRow + "    %3 = view(%rows, %i) : i64[1]\n"
                                           "    %4 = reshape(%3) : i64[]\n"
                                           "    %5 = update(%out, %2, %4, %0) : f32[s0, 8]\n"
                                           "    return %5\n"));
  EXPECT_FALSE(may_run_side_by_side(kRow + "    %3 = update(%out, %2, %0, %0) : f32[s0, 8]\n"
                                           "    return %3\n"));
}

TEST(ParallelLoop, WhoReadsWhatIsCarriedWaitsForTheIterationBefore) {
  EXPECT_FALSE(
      may_run_side_by_side("    %2 = view(%out, %0, %0) : f32[1, 8]\n"
                           "    %3 = update(%out, %2, %i, %0) : f32[s0, 8]\n"
                           "    return %3\n"));
  EXPECT_FALSE(
      may_run_side_by_side("    %2 = add(%out, %x) : f32[s0, 8]\n"
                           "    return %2\n"));
}

TEST(ParallelLoop, WhoReadsTheRowThatItWritesDoesNotWait) {
  const std::string update = "    %3 = update(%out, %2, %i, %0) : f32[s0, 8]\n";
  const auto row = [](const std::string& number, const std::string& source, const std::string& at) {
    return "    %" + number + " = view(" + source + ", " + at + ", %0) : f32[1, 8]\n";
  };
  EXPECT_TRUE(may_run_side_by_side(row("2", "%out", "%i") + update + "    return %3\n"));
  EXPECT_TRUE(may_run_side_by_side(row("2", "%out", "%i") + update + row("4", "%3", "%i") +
                                   "    return %3\n"));
  EXPECT_FALSE(may_run_side_by_side(row("2", "%out", "%1") + update + "    return %3\n"));
  EXPECT_FALSE(may_run_side_by_side(row("2", "%out", "%i") + update + row("4", "%3", "%1") +
                                    "    return %3\n"));
  // The row as it was before the write would be read from a copy of all rows.
  EXPECT_FALSE(may_run_side_by_side(row("2", "%out", "%i") + update +
                                    "    %4 = view(%out, %i, %0) : f32[1, 4]\n    return %3\n"));
  EXPECT_FALSE(may_run_side_by_side("    %2 = add(%i, %1) : i64[]\n" + row("4", "%out", "%2") +
                                    "    %5 = update(%out, %4, %i, %0) : f32[s0, 8]\n"
                                    "    return %5\n"));
}

TEST(ParallelLoop, AnInnerLoopReadsAndWritesTheRowOfTheOuterOne) {
  const auto inner = [](const std::string& read, const std::string& written) {
    return "    %2 = constant {value=1} : i64[]\n"
           "    %3 = constant {value=8} : i64[]\n"
           "    %4 = loop(%0, %3, %2, %out, %i, %x) graph loop(%j: i64[], %out: f32[s0, 8], "
           "%i: i64[], %x: f32[s0, 8]) -> (f32[s0, 8]) {\n"
           "      %0 = view(%out, " +
           read +
           ") : f32[1, 1]\n"
           "      %1 = update(%out, %0, " +
           written +
           ") : f32[s0, 8]\n"
           "      return %1\n"
           "    } : f32[s0, 8]\n"
           "    %5 = result(%4) {index=0} : f32[s0, 8]\n"
           "    return %5\n";
  };
  EXPECT_TRUE(may_run_side_by_side(inner("%i, %j", "%i, %j")));
  EXPECT_FALSE(may_run_side_by_side(inner("%j, %i", "%i, %j")));
  EXPECT_FALSE(may_run_side_by_side(inner("%j, %j", "%i, %j")));
}

TEST(ParallelLoop, AnInnerLoopWritesForTheOuterOne) {
  const auto inner = [](const std::string& row) {
    return "    %2 = constant {value=1} : i64[]\n"
           "    %3 = constant {value=8} : i64[]\n"
           "    %4 = loop(%0, %3, %2, %out, %i, %x) graph loop(%j: i64[], %out: f32[s0, 8], "
           "%i: i64[], %x: f32[s0, 8]) -> (f32[s0, 8]) {\n"
           "      %0 = view(%x, %i, %j) : f32[1, 1]\n"
           "      %1 = update(%out, %0, " +
           row +
           ") : f32[s0, 8]\n"
           "      return %1\n"
           "    } : f32[s0, 8]\n"
           "    %5 = result(%4) {index=0} : f32[s0, 8]\n"
           "    return %5\n";
  };
  EXPECT_TRUE(may_run_side_by_side(inner("%i, %j")));
  EXPECT_FALSE(may_run_side_by_side(inner("%j, %j")));
}

TEST(ParallelLoop, OnlyPartsThatMeetForCertainAreAConflict) {
  const auto is_conflict = [](const std::string& body, const std::string& step = "1") {
    LoopObstacle obstacle;
    EXPECT_FALSE(may_run_side_by_side(body, step, &obstacle));
    return obstacle.is_certain;
  };
  const std::string rows = "    %2 = view(%x, %0, %0) : f32[2, 8]\n",
                    end = ") : f32[s0, 8]\n    return %3\n";
  EXPECT_TRUE(is_conflict(kRow + "    %3 = update(%out, %2, %0, %0" + end));
  EXPECT_TRUE(is_conflict(rows + "    %3 = update(%out, %2, %i, %0" + end));
  EXPECT_FALSE(is_conflict(rows + "    %3 = update(%out, %2, %i, %0" + end, "2"));
  const std::string sum = "    %2 = add(%out, %x) : f32[s0, 8]\n";
  EXPECT_TRUE(is_conflict(sum + "    return %2\n"));
  EXPECT_TRUE(is_conflict(sum + "    %3 = exp(%2) : f32[s0, 8]\n    return %2\n"));
  EXPECT_FALSE(
      is_conflict("    %2 = view(%out, %1, %0) : f32[1, 8]\n"
                  "    %3 = update(%out, %2, %i, %0) : f32[s0, 8]\n    return %3\n"));
  EXPECT_FALSE(is_conflict(kRow + "    %3 = view(%rows, %i) : i64[1]\n"
                                  "    %4 = reshape(%3) : i64[]\n"
                                  "    %5 = update(%out, %2, %4, %0) : f32[s0, 8]\n"
                                  "    return %5\n"));
}

TEST(ParallelLoop, ALoopInOrderSaysWhichValueAtWhichLineMakesItWait) {
  const auto why = [](const std::string& body, const std::string& step = "1") {
    LoopObstacle obstacle;
    EXPECT_FALSE(may_run_side_by_side(body, step, &obstacle));
    return obstacle.why + "|" + pto::text(obstacle.line);
  };
  const std::string write = "    %3 = update(%out, %2, %0, %0) : f32[s0, 8] @ \"f.py\":7\n";
  EXPECT_EQ(why(kRow + write + "    return %3\n"),
            "iterations may write the same part of 'out': no offset moves with the index by at "
            "least the size of the part|f.py:7");
  EXPECT_EQ(why("    %2 = add(%out, %x) : f32[s0, 8] @ \"f.py\":8\n    return %2\n"),
            "'out' is computed from the iteration before|f.py:8");
  EXPECT_EQ(why("    %2 = view(%out, %0, %0) : f32[1, 8]\n"
                "    %3 = update(%out, %2, %i, %0) : f32[s0, 8] @ \"f.py\":9\n    return %3\n"),
            "the body reads 'out', into which it writes|f.py:9");
  EXPECT_EQ(why(kRow + write + "    return %3\n", "-1").substr(0, 35),
            "its step is not a positive constant");
}

}  // namespace pto::parallel_loop_test
