// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/storage.hpp"

#include <gtest/gtest.h>

#include "pto/ir/parse.hpp"

namespace pto::storage_test {

Storage planned_of(const std::string& type, const std::string& nodes, bool has_holder = true,
                   bool is_dense = false) {
  const Graph graph = parse("graph g(%x: " + type + ", %out: " + type + ") -> (" + type +
                            ") {\n  %0 = constant {value=0} : i64[]\n" + nodes + "}\n");
  return plan_storage(graph, {{true, has_holder ? 1 : -1, is_dense}});
}

Storage planned(const std::string& nodes, bool has_holder = true, bool is_dense = false) {
  return planned_of("f32[4, 8]", nodes, has_holder, is_dense);
}

const std::string kWrite = "  %2 = update(%out, %1, %0, %0) : f32[4, 8]\n";
constexpr Value kFirst = 3;  // %1; two inputs and %0 stand before it

TEST(Storage, AWriteGoesOnInTheMemoryOfWhatItWritesInto) {
  const Storage s = planned("  %1 = view(%x, %0, %0) : f32[1, 8]\n" + kWrite + "  return %2\n");
  EXPECT_EQ(s.homes.at({kFirst + 1, 0}).buffer, 0);
  EXPECT_EQ(s.given[0], 0);
  EXPECT_TRUE(s.continued.count(0));
  EXPECT_TRUE(s.copies.empty() && s.copied_moves.empty() && s.copied_outputs.empty());
}

TEST(Storage, AWriteInAnotherShapeGoesOnInMemoryWithoutGaps) {
  const std::string nodes =
      "  %1 = view(%x, %0, %0) : f32[1, 8]\n  %2 = reshape(%1) : f32[8]\n"
      "  %3 = reshape(%out) : f32[32]\n  %4 = update(%3, %2, %0) : f32[32]\n"
      "  %5 = reshape(%4) : f32[4, 8]\n";
  const Storage dense = planned(nodes + "  return %5\n", true, true);
  EXPECT_EQ(dense.homes.at({kFirst + 3, 0}).buffer, 0);
  EXPECT_TRUE(dense.continued.count(0));
  EXPECT_TRUE(dense.copies.empty() && dense.copied_moves.empty() && dense.copied_outputs.empty());
  EXPECT_TRUE(planned(nodes + "  return %5\n").copied_outputs.count(0));
  const Storage read_later =
      planned(nodes +
                  "  %6 = view(%3, %0) : f32[8]\n  %7 = update(%4, %6, %0) : f32[32]\n"
                  "  %8 = reshape(%7) : f32[4, 8]\n  return %8\n",
              true, true);
  EXPECT_TRUE(read_later.copied_moves.count(kFirst + 2));
}

TEST(Storage, AProductIsWrittenWhereItsPartBelongs) {
  const Storage s = planned(
      "  %1 = view(%x, %0, %0) : f32[1, 4]\n"
      "  %2 = matmul(%1, %x) : f32[1, 8]\n"
      "  %3 = update(%out, %2, %0, %0) : f32[4, 8]\n"
      "  return %3\n");
  EXPECT_EQ(s.homes.at({kFirst + 1, 0}).part_of, kFirst + 2);
}

TEST(Storage, APartThatIsReadAfterTheWriteIsCopiedBefore) {
  const Storage s = planned(
      "  %1 = view(%out, %0, %0) : f32[1, 8]\n"
      "  %2 = view(%x, %0, %0) : f32[1, 8]\n"
      "  %3 = update(%out, %2, %0, %0) : f32[4, 8]\n"
      "  %4 = update(%3, %1, %0, %0) : f32[4, 8]\n"
      "  return %4\n");
  EXPECT_TRUE(s.copied_moves.count(kFirst));
  EXPECT_EQ(s.homes.at({kFirst + 2, 0}).buffer, s.homes.at({kFirst + 3, 0}).buffer);
}

TEST(Storage, ATensorThatIsReadAfterTheWriteIsKept) {
  const Storage s = planned("  %1 = view(%x, %0, %0) : f32[1, 8]\n" + kWrite +
                            "  %3 = view(%out, %0, %0) : f32[1, 8]\n"
                            "  %4 = update(%2, %3, %0, %0) : f32[4, 8]\n"
                            "  return %4\n");
  EXPECT_FALSE(s.continued.count(0));
}

TEST(Storage, AKernelWritesOverWhatItReadsElementByElement) {
  const auto scaled = [](const std::string& more) {
    return planned("  %1 = fused(%out) graph f(%a: f32[4, 8]) -> (f32[4, 8]) {\n" + more +
                   "  } : f32[4, 8]\n"
                   "  %2 = result(%1) {index=0} : f32[4, 8]\n"
                   "  return %2\n");
  };
  EXPECT_TRUE(scaled("    %0 = exp(%a) : f32[4, 8]\n    return %0\n").copied_outputs.empty());
  const Storage softmax = scaled(
      "    %0 = amax(%a) {axes=[1]} : f32[4, 1]\n"
      "    %1 = broadcast(%0) : f32[4, 8]\n"
      "    %2 = sub(%a, %1) : f32[4, 8]\n    return %2\n");
  EXPECT_TRUE(softmax.copied_outputs.empty());
}

TEST(Storage, AKernelDoesNotWriteOverWhatItsNextSweepReads) {
  const auto first_written = [](const std::string& outputs) {
    return planned(
               "  %1 = fused(%out) graph f(%a: f32[4, 8]) -> (f32[4, 8], f32[4, 8]) {\n"
               "    %0 = exp(%a) : f32[4, 8]\n"
               "    %1 = amax(%a) {axes=[1]} : f32[4, 1]\n"
               "    %2 = broadcast(%1) : f32[4, 8]\n"
               "    %3 = sub(%a, %2) : f32[4, 8]\n    return " +
               outputs +
               "\n  } : f32[4, 8]\n"
               "  %2 = result(%1) {index=0} : f32[4, 8]\n"
               "  return %2\n")
        .copied_outputs.empty();
  };
  EXPECT_FALSE(first_written("%0, %3"));
  EXPECT_TRUE(first_written("%3, %0"));
}

TEST(Storage, AKernelThatReadsElementsAtOtherPlacesWritesElsewhere) {
  const Storage pairs = planned_of("f32[8, 1]",
                                   "  %1 = fused(%out) graph f(%a: f32[8, 1]) -> (f32[8, 1]) {\n"
                                   "    %0 = reshape(%a) : f32[1, 8]\n"
                                   "    %1 = broadcast(%0) : f32[8, 8]\n"
                                   "    %2 = broadcast(%a) : f32[8, 8]\n"
                                   "    %3 = sub(%1, %2) : f32[8, 8]\n"
                                   "    %4 = sum(%3) {axes=[1]} : f32[8, 1]\n"
                                   "    return %4\n  } : f32[8, 1]\n"
                                   "  %2 = result(%1) {index=0} : f32[8, 1]\n  return %2\n");
  EXPECT_TRUE(pairs.copied_outputs.count(0));
}

TEST(Storage, AKernelWritesAPartOverThePartThatItReads) {
  const auto written_at = [](const std::string& offset) {
    return planned("  %1 = constant {value=1} : i64[]\n  %2 = view(%out, " + offset +
                   ", %0) : f32[1, 8]\n"
                   "  %3 = fused(%2) graph f(%a: f32[1, 8]) -> (f32[1, 8]) {\n"
                   "    %0 = reshape(%a) : f32[8]\n    %1 = exp(%0) : f32[8]\n"
                   "    %2 = reshape(%1) : f32[1, 8]\n    return %2\n  } : f32[1, 8]\n"
                   "  %4 = result(%3) {index=0} : f32[1, 8]\n"
                   "  %5 = update(%out, %4, %0, %0) : f32[4, 8]\n  return %5\n")
        .homes.at({kFirst + 2, 0})
        .part_of;
  };
  EXPECT_EQ(written_at("%0"), kFirst + 4);
  EXPECT_EQ(written_at("%1"), -1);
}

TEST(Storage, AKernelWritesOverAPartWithoutItsAxesOfSizeOne) {
  const Storage s = planned(
      "  %1 = view(%out, %0, %0) : f32[1, 8]\n  %2 = reshape(%1) : f32[8]\n"
      "  %3 = fused(%2) graph f(%a: f32[8]) -> (f32[1, 8]) {\n"
      "    %0 = exp(%a) : f32[8]\n    %1 = reshape(%0) : f32[1, 8]\n"
      "    return %1\n  } : f32[1, 8]\n"
      "  %4 = result(%3) {index=0} : f32[1, 8]\n"
      "  %5 = update(%out, %4, %0, %0) : f32[4, 8]\n  return %5\n");
  EXPECT_EQ(s.homes.at({kFirst + 2, 0}).part_of, kFirst + 4);
}

TEST(Storage, TensorsAreMadeWhereAConcatJoinsThem) {
  constexpr Value kJoin = kFirst + 5;
  const auto homes = [](const std::string& columns, const std::string& joined) {
    const Storage s = planned(
        "  %1 = transpose(%x) {axes=[1, 0]} : f32[8, 4]\n"
        "  %2 = view(%1, %0, %0) : f32[8, " +
            columns +
            "]\n"
            "  %3 = matmul(%x, %1) : f32[4, 4]\n"
            "  %4 = matmul(%x, %2) : f32[4, " +
            columns +
            "]\n"
            "  %5 = view(%x, %0, %0) : f32[4, 3]\n"
            "  %6 = concat(" +
            joined +
            ") {axes=[1]} : f32[4, 8]\n"
            "  return %6\n",
        false);
    return std::pair(s.homes.at({kFirst + 2, 0}).part_of, s.homes.at({kFirst + 3, 0}).part_of);
  };
  EXPECT_EQ(homes("4", "%3, %4"), std::pair(kJoin, kJoin));
  EXPECT_EQ(homes("1", "%4, %3, %5"), std::pair(kJoin, -1));  // a column of a product
  EXPECT_EQ(homes("2", "%3, %3").first, -1);                  // read twice
}

TEST(Storage, AKernelStoresTheColumnsThatAConcatJoins) {
  const Storage s =
      planned_of("f32[4, 2]",
                 "  %1 = fused(%x) graph f(%a: f32[4, 2]) -> (f32[4, 1]) {\n"
                 "    %0 = amax(%a) {axes=[1]} : f32[4, 1]\n    return %0\n  } : f32[4, 1]\n"
                 "  %2 = result(%1) {index=0} : f32[4, 1]\n"
                 "  %3 = view(%x, %0, %0) : f32[4, 1]\n"
                 "  %4 = concat(%2, %3) {axes=[1]} : f32[4, 2]\n  return %4\n",
                 false);
  EXPECT_EQ(s.homes.at({kFirst, 0}).part_of, kFirst + 3);
}

TEST(Storage, AKernelWritesEverySecondRowOnlyOverTheRowsThatItReads) {
  const auto home = [](const std::string& steps) {
    const Storage s =
        planned("  %1 = view(%out, %0, %0)" + steps +
                " : f32[2, 8]\n"
                "  %2 = fused(%1) graph f(%a: f32[2, 8]) -> (f32[2, 8]) {\n"
                "    %0 = exp(%a) : f32[2, 8]\n    return %0\n  } : f32[2, 8]\n"
                "  %3 = result(%2) {index=0} : f32[2, 8]\n"
                "  %4 = update(%out, %3, %0, %0) {steps=[2, 1]} : f32[4, 8]\n  return %4\n");
    return s.homes.at({kFirst + 1, 0}).part_of;
  };
  EXPECT_EQ(home(" {steps=[2, 1]}"), kFirst + 3);
  EXPECT_EQ(home(""), -1);
}

}  // namespace pto::storage_test
